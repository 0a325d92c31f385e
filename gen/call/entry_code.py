"""Machine code between Python and a program: one function, the same for every program.

``enter(self, args, nargs)`` is called by Python as a built-in function. What differs from program
to program stands in a table, the elements of the NumPy array ``self``; what differs from process
to process, such as the addresses of Python's functions, in a second one: so the code can be kept
on disk. Arguments are checked by loading their fields. Where something is unusual the answer is
``NotImplemented``, and the slow path decides; where the call itself fails, the words of its
status are raised as an exception for the slow path to explain.
"""

from __future__ import annotations

from enum import IntEnum, auto

from dlvm.gen.loops.status import WORDS as STATUS
from dlvm.gen.runtime import allocator as blocks
from dlvm.gen.runtime import call_words
from dlvm.gen.runtime.choice import BUSY, Head
from dlvm.gen.text.module import FunctionWriter, Text

from .sizes import ARENA, BYTES, WORK

ENTER = "enter"


class Api(IntEnum):
    """Addresses that differ from process to process."""

    ARRAY = 0  # the type of arrays
    NEW_ARRAY = auto()
    INCREF = auto()
    DECREF = auto()
    NEW_TUPLE = auto()
    SET_ITEM = auto()
    AS_DOUBLE = auto()
    AS_INT = auto()
    NEW_INT = auto()
    TRUE = auto()
    OCCURRED = auto()
    CLEAR = auto()
    NO_MEMORY = auto()
    RAISE = auto()
    SAVE_THREAD = auto()
    RESTORE_THREAD = auto()
    NOT_IMPLEMENTED = auto()
    FAILED = auto()  # the exception that carries the words of a status
    HANDLER = auto()  # NumPy's name for the pool
    POOL = auto()


class ProgramField(IntEnum):
    """What there is to know of one program."""

    API = 0
    MAIN = auto()
    CONSTANTS = auto()
    CONTEXT = auto()
    SIZES = auto()  # the row of sizes, or 0
    SIZES_OF = auto()  # the function that fills it in, or 0
    SIZES_COUNT = auto()
    SYMBOLS = auto()  # a AxisField for each
    SYMBOLS_COUNT = auto()
    SYMBOLS_MOST = auto()  # beyond this a size might not fit in a word
    PARAMS = auto()  # a Param for each
    PARAMS_COUNT = auto()
    CHECKS = auto()  # a AxisField for each axis of an argument
    CHECKS_COUNT = auto()
    CHECKS_FROM = auto()  # where the row has the first of them
    DONATED = auto()
    DONATED_COUNT = auto()
    RESULTS = auto()  # a Result for each
    RESULTS_COUNT = auto()
    BARE = auto()  # whether the only result is given as it is
    TAPE = auto()  # where the largest tape so far is noted, in bytes
    CHOICE = auto()  # the words by which calls choose their threads, or 0


class Param(IntEnum):
    """What an argument must be: its kind, the dtype or else the type, rank and flags."""

    KIND = 0
    TYPE = auto()
    RANK = auto()
    FLAGS = auto()


class Kind(IntEnum):
    """How a number is taken out of an argument."""

    ARRAY = 0
    FLOAT = auto()
    INT = auto()
    BOOL = auto()


class AxisField(IntEnum):
    """An axis of an argument, ``factor * symbol + offset`` long where it stands for a symbol."""

    PARAM = 0
    AXIS = auto()
    FACTOR = auto()
    OFFSET = auto()


class Result(IntEnum):
    """The argument that a result overwrites, or -1; dtype, rank, and first axis in the row."""

    OVERWRITES = 0
    TYPE = auto()
    RANK = auto()
    FIRST = auto()


class Field(IntEnum):
    """Where CPython and NumPy keep what is read here; ``python_api`` tries each at start-up."""

    TYPE = 8
    DATA = 16
    RANK = 24
    AXES = 32
    STRIDES = 40
    DESCR = 56
    FLAGS = 64
    HANDLER = 88


CONTIGUOUS, OWNED, ALIGNED, WRITEABLE = 0x1, 0x4, 0x100, 0x400
FRESH = CONTIGUOUS | ALIGNED | WRITEABLE


def emit_enter(text: Text) -> None:
    """Add the function, and the pool that it takes memory from."""
    text.functions["blocks"] = blocks.FUNCTIONS
    text.functions[ENTER] = EntryCode(text).function()


class EntryCode:
    """Writes the function, one step after the other."""

    def __init__(self, text: Text) -> None:
        self.w = w = FunctionWriter(text)
        self.table = self.load("%self", "ptr", Field.DATA)
        self.api = self.of_table(ProgramField.API, "ptr")
        self.pool = self.word(self.api, Api.POOL, "ptr")
        self.params = self.of_table(ProgramField.PARAMS, "ptr")
        self.count = self.of_table(ProgramField.PARAMS_COUNT)
        self.results = self.of_table(ProgramField.RESULTS, "ptr")
        self.result_count = self.of_table(ProgramField.RESULTS_COUNT)
        self.require(w.value(f"icmp eq i64 %nargs, {self.count}"))
        self.values = self.row(self.count)
        self.numbers = self.row(self.count)

    def function(self) -> str:
        """The whole function."""
        self.take_arguments()
        self.sizes = self.measure()
        self.check_axes()
        self.check_donated()
        self.made = self.row(self.result_count)
        self.outputs = self.row(self.result_count)
        self.clear(self.made, self.result_count)
        self.make_results()
        self.status, self.context = self.words(STATUS), self.words(call_words.WORDS)
        self.call()
        self.note_tape()
        self.raise_failure()
        self.give_results()
        self.w.label("failed")
        self.drop_results()
        self.w.do("ret ptr null")
        self.w.label("unusual")
        unusual = self.word(self.api, Api.NOT_IMPLEMENTED, "ptr")
        self.python(Api.INCREF, "void", f"ptr {unusual}")
        return self.w.function(
            f"ptr @{ENTER}(ptr %self, ptr %args, i64 %nargs)", last=f"ret ptr {unusual}"
        )

    # -- words -----------------------------------------------------------------------------------

    def load(self, base: str, type_: str, offset: int) -> str:
        """A field of an object."""
        at = self.w.step("i8", base, offset)
        return self.w.load(type_, at)

    def at(self, base: str, index: int | str) -> str:
        """Where a word of a row stands."""
        return self.w.step("i64", base, index)

    def word(self, base: str, index: int | str, type_: str = "i64") -> str:
        """A word of a row."""
        return self.w.load(type_, self.at(base, index))

    def of_table(self, index: ProgramField, type_: str = "i64") -> str:
        """A word about the program."""
        return self.word(self.table, index, type_)

    def record(self, rows: str, index: str, kind: type[IntEnum]) -> str:
        """Where a record starts."""
        return self.at(rows, self.w.value(f"mul i64 {index}, {len(kind)}"))

    def row(self, count: str) -> str:
        """Memory for ``count`` words."""
        return self.w.value(f"alloca i64, i64 {count}, align 8")

    def words(self, count: int) -> str:
        """Memory for a few words, all zero."""
        row = self.row(str(count))
        self.clear(row, str(count))
        return row

    def clear(self, row: str, count: str) -> None:
        """Make words zero."""
        with self.w.loop("0", count) as turn:
            self.store("i64", "0", row, turn.index)

    def store(self, type_: str, value: str, base: str, index: int | str) -> None:
        """Write a word of a row."""
        self.w.store(type_, value, self.at(base, index))

    # -- branches and calls ------------------------------------------------------------------------

    def require(self, condition: str, otherwise: str = "unusual") -> None:
        """Go on only where a condition holds."""
        going = self.w.name("go")
        self.w.branch(condition, going, otherwise)
        self.w.label(going)

    def same(self, a: str, b: str, type_: str = "i64") -> str:
        """Whether two words are equal."""
        return self.w.value(f"icmp eq {type_} {a}, {b}")

    def python(self, function: Api, result: str, *arguments: str) -> str:
        """Call a function of Python's or NumPy's."""
        call = f"call {result} {self.word(self.api, function, 'ptr')}({', '.join(arguments)})"
        if result != "void":
            return self.w.value(call)
        self.w.do(call)
        return ""

    # -- arguments ---------------------------------------------------------------------------------

    def take_arguments(self) -> None:
        """Where the elements of each argument are, after its type was checked."""
        array = self.word(self.api, Api.ARRAY, "ptr")
        with self.w.loop("0", self.count) as turn:
            x = self.word("%args", turn.index, "ptr")
            param = self.record(self.params, turn.index, Param)
            kind = self.word(param, Param.KIND)
            type_ = self.load(x, "ptr", Field.TYPE)
            expected = self.word(param, Param.TYPE, "ptr")
            number = self.w.value(f"icmp ne i64 {kind}, {Kind.ARRAY:d}")
            wanted = self.w.value(f"select i1 {number}, ptr {expected}, ptr {array}")
            self.require(self.same(type_, wanted, "ptr"))
            with self.w.when(number):
                self.store("ptr", self.number(x, kind, turn.index), self.values, turn.index)
            with self.w.when(self.w.value(f"xor i1 {number}, true")):
                self.require(self.same(self.load(x, "ptr", Field.DESCR), expected, "ptr"))
                rank = self.w.value(f"sext i32 {self.load(x, 'i32', Field.RANK)} to i64")
                self.require(self.same(rank, self.word(param, Param.RANK)))
                flags = self.w.value(f"zext i32 {self.load(x, 'i32', Field.FLAGS)} to i64")
                needed = self.word(param, Param.FLAGS)
                self.require(self.same(self.w.value(f"and i64 {flags}, {needed}"), needed))
                data = self.load(x, "ptr", Field.DATA)
                self.store("ptr", data, self.values, turn.index)

    def number(self, x: str, kind: str, index: str) -> str:
        """Where the number that an argument is has been put."""
        at = self.at(self.numbers, index)
        with self.w.when(self.same(kind, f"{Kind.FLOAT:d}")):
            self.w.store("double", self.python(Api.AS_DOUBLE, "double", f"ptr {x}"), at)
        with self.w.when(self.same(kind, f"{Kind.BOOL:d}")):
            true = self.same(x, self.word(self.api, Api.TRUE, "ptr"), "ptr")
            self.w.store("i64", self.w.value(f"zext i1 {true} to i64"), at)
        with self.w.when(self.same(kind, f"{Kind.INT:d}")):
            value = self.python(Api.AS_INT, "i64", f"ptr {x}")
            self.w.store("i64", value, at)
            with self.w.when(self.same(value, "-1")):
                error = self.python(Api.OCCURRED, "ptr")
                with self.w.when(self.w.value(f"icmp ne ptr {error}, null")):
                    self.python(Api.CLEAR, "void")
                    self.require("false")
        return at

    def axis(self, places: str, index: str) -> str:
        """The length of an axis of an argument."""
        place = self.record(places, index, AxisField)
        x = self.word("%args", self.word(place, AxisField.PARAM), "ptr")
        return self.word(self.load(x, "ptr", Field.AXES), self.word(place, AxisField.AXIS))

    def solved(self, places: str, index: str) -> str:
        """The symbol that an axis stands for, if the axis is as long as some value makes it."""
        place = self.record(places, index, AxisField)
        offset, factor = self.word(place, AxisField.OFFSET), self.word(place, AxisField.FACTOR)
        rest = self.w.value(f"sub i64 {self.axis(places, index)}, {offset}")
        return self.w.value(f"sdiv i64 {rest}, {factor}")

    def measure(self) -> str:
        """The row of sizes, filled in from the symbols where there are any."""
        function = self.of_table(ProgramField.SIZES_OF, "ptr")
        self.symbols = self.row(self.of_table(ProgramField.SYMBOLS_COUNT))
        known = self.of_table(ProgramField.SIZES, "ptr")
        room = self.row(self.of_table(ProgramField.SIZES_COUNT))

        def fill() -> str:
            places = self.of_table(ProgramField.SYMBOLS, "ptr")
            most = self.of_table(ProgramField.SYMBOLS_MOST)
            with self.w.loop("0", self.of_table(ProgramField.SYMBOLS_COUNT)) as turn:
                value = self.solved(places, turn.index)
                self.require(self.w.value(f"icmp ule i64 {value}, {most}"))
                self.store("i64", value, self.symbols, turn.index)
            self.w.do(f"call void {function}(ptr {self.symbols}, ptr {room})")
            return room

        unknown = self.w.value(f"icmp ne ptr {function}, null")
        return self.w.maybe(unknown, "ptr", known, fill)

    def check_axes(self) -> None:
        """Every axis has the length that the row says."""
        places = self.of_table(ProgramField.CHECKS, "ptr")
        first = self.of_table(ProgramField.CHECKS_FROM)
        with self.w.loop("0", self.of_table(ProgramField.CHECKS_COUNT)) as turn:
            expected = self.word(self.sizes, self.w.value(f"add i64 {first}, {turn.index}"))
            self.require(self.same(self.axis(places, turn.index), expected))

    def span(self, index: str) -> tuple[str, str]:
        """Where the elements of an argument start and end."""
        start = self.word(self.values, index)
        size = self.word(self.sizes, self.w.value(f"add i64 {index}, {BYTES}"))
        return start, self.w.value(f"add i64 {start}, {size}")

    def check_donated(self) -> None:
        """What is overwritten overlaps with no other argument."""
        donated = self.of_table(ProgramField.DONATED, "ptr")
        with self.w.loop("0", self.of_table(ProgramField.DONATED_COUNT)) as turn:
            mine = self.word(donated, turn.index)
            start, end = self.span(mine)
            with self.w.loop("0", self.count) as other:
                low, high = self.span(other.index)
                itself = self.same(other.index, mine)
                before = self.w.value(f"icmp ule i64 {high}, {start}")
                after = self.w.value(f"icmp ule i64 {end}, {low}")
                apart = self.w.value(f"or i1 {before}, {after}")
                self.require(self.w.value(f"or i1 {itself}, {apart}"))

    # -- results -----------------------------------------------------------------------------------

    def make_results(self) -> None:
        """A fresh array for each result, or the argument that it overwrites."""
        with self.w.loop("0", self.result_count) as turn:
            result = self.record(self.results, turn.index, Result)
            overwrites = self.word(result, Result.OVERWRITES)
            fresh = self.w.value(f"icmp slt i64 {overwrites}, 0")
            with self.w.when(fresh):
                self.fresh(result, turn.index)
            with self.w.when(self.w.value(f"xor i1 {fresh}, true")):
                x = self.word("%args", overwrites, "ptr")
                self.python(Api.INCREF, "void", f"ptr {x}")
                self.store("ptr", x, self.made, turn.index)
                self.store("i64", self.word(self.values, overwrites), self.outputs, turn.index)

    def fresh(self, result: str, index: str) -> None:
        """A new array, whose memory goes back to the pool when it dies."""
        after = self.w.value(f"add i64 {self.count}, {BYTES}")
        size = self.word(self.sizes, self.w.value(f"add i64 {after}, {index}"))
        data = self.take(size)
        descr = self.word(result, Result.TYPE, "ptr")
        self.python(Api.INCREF, "void", f"ptr {descr}")
        rank = self.w.value(f"trunc i64 {self.word(result, Result.RANK)} to i32")
        axes = self.at(self.sizes, self.word(result, Result.FIRST))
        made = self.python(
            Api.NEW_ARRAY,
            "ptr",
            f"ptr {self.word(self.api, Api.ARRAY, 'ptr')}",
            f"ptr {descr}",
            f"i32 {rank}",
            f"ptr {axes}",
            "ptr null",
            f"ptr {data}",
            f"i32 {FRESH}",
            "ptr null",
        )
        with self.w.when(self.same(made, "null", "ptr")):
            self.give(data)
            self.require("false", "failed")
        handler = self.word(self.api, Api.HANDLER, "ptr")
        self.python(Api.INCREF, "void", f"ptr {handler}")
        owner = self.w.step("i8", made, Field.HANDLER)
        self.w.store("ptr", handler, owner)
        flags = self.w.step("i8", made, Field.FLAGS)
        found = self.w.load("i32", flags)
        self.w.store("i32", self.w.value(f"or i32 {found}, {OWNED}"), flags)
        self.store("ptr", made, self.made, index)
        self.store("ptr", data, self.outputs, index)

    def take(self, size: str) -> str:
        """A block of the pool."""
        block = self.w.value(f"call ptr @block_take(ptr {self.pool}, i64 {size})")
        with self.w.when(self.same(block, "null", "ptr")):
            self.python(Api.NO_MEMORY, "ptr")
            self.require("false", "failed")
        return block

    def give(self, block: str) -> None:
        """Give a block back."""
        self.w.do(f"call void @block_give(ptr {self.pool}, ptr {block})")

    def drop_results(self) -> None:
        """Forget what was made for a call that failed."""
        with self.w.loop("0", self.result_count) as turn:
            self.python(Api.DECREF, "void", f"ptr {self.word(self.made, turn.index, 'ptr')}")

    def give_results(self) -> None:
        """Return the only result, or a tuple of them."""
        bare = self.w.value(f"icmp ne i64 {self.of_table(ProgramField.BARE)}, 0")
        with self.w.when(bare):
            self.w.do(f"ret ptr {self.word(self.made, 0, 'ptr')}")
            self.w.label(self.w.name("unreached"))
        whole = self.python(Api.NEW_TUPLE, "ptr", f"i64 {self.result_count}")
        self.require(self.w.value(f"icmp ne ptr {whole}, null"), "failed")
        with self.w.loop("0", self.result_count) as turn:
            made = self.word(self.made, turn.index, "ptr")
            self.python(Api.SET_ITEM, "i32", f"ptr {whole}", f"i64 {turn.index}", f"ptr {made}")
        self.w.do(f"ret ptr {whole}")

    # -- the call ----------------------------------------------------------------------------------

    def call(self) -> None:
        """Run the program in memory of its own; others may run Python meanwhile if it is long."""
        template = self.of_table(ProgramField.CONTEXT, "ptr")
        with self.w.loop("0", f"{call_words.WORDS}") as turn:
            self.store("i64", self.word(template, turn.index), self.context, turn.index)
        arena = self.take(self.word(self.sizes, ARENA))
        work = self.word(self.sizes, WORK)
        long = self.w.value(f"icmp sgt i64 {work}, {BUSY}")
        state = self.w.maybe(long, "ptr", "null", lambda: self.python(Api.SAVE_THREAD, "ptr"))
        tables = (
            self.values,
            self.outputs,
            arena,
            self.symbols,
            self.of_table(ProgramField.CONSTANTS, "ptr"),
            self.status,
            self.context,
        )
        main = self.of_table(ProgramField.MAIN, "ptr")
        started = self.begin(work)
        self.w.do(f"call void {main}({', '.join(f'ptr {t}' for t in tables)})")
        self.end(work, started)
        with self.w.when(long):
            self.python(Api.RESTORE_THREAD, "void", f"ptr {state}")
        self.give(arena)

    def begin(self, work: str) -> str:
        """Choose on how many threads the call runs; the time, or 0 where it is not taken."""
        self.choice = self.of_table(ProgramField.CHOICE, "ptr")
        self.chooses = self.w.value(f"icmp ne ptr {self.choice}, null")

        def chosen() -> str:
            begin = self.word(self.choice, Head.BEGIN, "ptr")
            given = f"ptr {self.choice}, i64 {work}, ptr {self.context}"
            return self.w.value(f"call i64 {begin}({given})")

        return self.w.maybe(self.chooses, "i64", "0", chosen)

    def end(self, work: str, started: str) -> None:
        """Note how long it took."""
        with self.w.when(self.chooses):
            end = self.word(self.choice, Head.END, "ptr")
            given = f"ptr {self.choice}, i64 {work}, ptr {self.context}, i64 {started}"
            self.w.do(f"call void {end}({given})")

    def note_tape(self) -> None:
        """The most that the tape of a call has taken."""
        held = self.word(self.context, call_words.HELD)
        most = self.of_table(ProgramField.TAPE, "ptr")
        with self.w.when(self.w.value(f"icmp sgt i64 {held}, {self.word(most, 0)}")):
            self.store("i64", held, most, 0)

    def raise_failure(self) -> None:
        """Raise the words of the status, if the first one says that the call failed."""
        code = self.word(self.status, 0)
        with self.w.when(self.w.value(f"icmp ne i64 {code}, 0")):
            words = self.python(Api.NEW_TUPLE, "ptr", f"i64 {STATUS}")
            self.require(self.w.value(f"icmp ne ptr {words}, null"), "failed")
            with self.w.loop("0", f"{STATUS}") as turn:
                value = self.python(Api.NEW_INT, "ptr", f"i64 {self.word(self.status, turn.index)}")
                self.python(
                    Api.SET_ITEM, "i32", f"ptr {words}", f"i64 {turn.index}", f"ptr {value}"
                )
            self.python(
                Api.RAISE, "void", f"ptr {self.word(self.api, Api.FAILED, 'ptr')}", f"ptr {words}"
            )
            self.python(Api.DECREF, "void", f"ptr {words}")
            self.require("false", "failed")
