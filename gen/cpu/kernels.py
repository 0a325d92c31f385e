"""A kernel as an LLVM function for a CPU: loops, vectors with masked ends, products.

``emit_kernel`` gives ``void @NAME(ptr %b0, ..., i64 %s.SYMBOL, ..., ptr %status, ptr %context)``
and what it calls. A vector loop runs whole vectors, then one masked vector for the rest; loops
over the few lanes of a fold are written out, so that their accumulators become registers.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.index import exact
from dlvm.gen.loops.instructions import TURN, TileTranspose, turn_of
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Buffer,
    Check,
    Define,
    Inside,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Number,
    Product,
    Scalar,
    Search,
    Size,
    Sort,
    Statement,
    Store,
    Table,
    Word,
    statements,
)
from dlvm.gen.math.instructions import LlvmScalars
from dlvm.gen.schedule.transforms.vectorize import WIDEST as LANES
from dlvm.gen.text.access import vector
from dlvm.gen.text.indices import as_index, as_number
from dlvm.gen.text.lanes import Val, number, splat, stored_type
from dlvm.gen.text.module import FunctionWriter, Lines, Listener, Text, hidden
from dlvm.gen.text.sizes import Offsets, Vector, number_of
from dlvm.ir import BOOL, Dim
from dlvm.ir.sizes.dims import at_least, symbol
from dlvm.target import Target

from . import product_calls as tiles
from . import sort_calls as rows
from .access import Access, Address
from .forks import emit_fork
from .register_transpose import can_turn, turn_function

WIDEST = 32  # lanes of one vector, even of bytes
BESIDE = 4  # registers of lanes that run a loop of their own
LONGEST = max(WIDEST * BESIDE, LANES)


def emit_kernel(
    kernel: LoopKernel,
    target: Target,
    shared: frozenset[str] = frozenset(),
    listener: type[Listener] | None = None,
) -> Text:
    """The function of a kernel and everything it needs, as pieces of a module.

    Buffers that are not ``shared`` with others are promised to be alone in their memory.
    """
    text = Text.of(target, hides_masks(target), listener)
    w = FunctionWriter(text)
    work = Emitter(w, kernel, target, shared)
    work.whole()
    pointers = [f"ptr {'' if b.name in shared else 'noalias '}%{b.name}" for b in kernel.buffers]
    sizes = [f"i64 %s.{s}" for s in kernel.symbols]
    parameters = [*pointers, *sizes, "ptr %status", "ptr %context"]
    header = f"internal void @{kernel.name}({', '.join(parameters)})"
    text.functions[kernel.name] = w.function(header)
    return text


def hides_masks(target: Target) -> bool:
    """Whether LLVM gets masks that it knows wrong for a processor: one with AVX, else it has none.

    LLVM 22.1 folds a masked load into arithmetic under the same mask, and may then take them apart
    again as a load of the whole vector, beyond what is there. Of a vector that it narrowed it
    stores too much under a known mask of one lane.
    """
    masks = target.vector_bits > 128 or "+avx" in target.features.split(",")
    return masks and target.triple.startswith("x86_64")


class Emitter:
    """One function: its statements, the values of scalars so far, and where memory lies."""

    def __init__(
        self,
        w: FunctionWriter,
        kernel: LoopKernel,
        target: Target,
        shared: frozenset[str] = frozenset(),
    ) -> None:
        self.w, self.kernel, self.target, self.shared = w, kernel, target, shared
        self.parts = 0
        self.offsets = Offsets(w)
        self.access = Access(w, self.offsets, LONGEST)
        self.words = LlvmScalars(w)
        self.scalars: dict[Scalar, Val] = {}
        self.instead: dict[Scalar, Scalar] = {}
        self._tables(kernel.body)

    def within(self, w: FunctionWriter) -> Emitter:
        """Another function of the same kernel."""
        return Emitter(w, self.kernel, self.target, self.shared)

    def part_name(self) -> str:
        """The name of one more function that threads share."""
        self.parts += 1
        return f"{self.kernel.name}.part{self.parts}"

    def _tables(self, body: Body) -> None:
        """Constant data, as globals of the module."""
        for s in statements(body):
            if isinstance(s, Let) and isinstance(s.scalar, Load):
                memory = s.scalar.memory
                if isinstance(memory, Table):
                    name = f"{self.kernel.name}.{memory.name}"
                    self.w.text.constant(name, *_table(memory))
                    self.access.places[memory.name] = Address(f"@{name}", memory.dtype)

    def whole(self) -> None:
        """The kernel's body, on its buffers and sizes as arguments of these names."""
        for b in self.kernel.buffers:
            self.access.places[b.name] = Address(f"%{b.name}", b.dtype)
        self.offsets.scopes[0].names.update({s: f"%s.{s}" for s in self.kernel.symbols})
        self.body(self.kernel.body)

    def body(self, body: Body) -> None:
        """All statements, in order."""
        with self.access.body():
            for statement in body:
                self.statement(statement)

    def statement(self, s: Statement) -> None:
        """One statement."""
        match s:
            case Let(scalar):
                self.scalars[scalar] = self.scalar(self.instead.get(scalar, scalar))
            case Define(name, dim):
                self.offsets.defined[name] = dim
            case Bind(name, scalar):
                self.bind(name, self.scalars[scalar])
            case Store():
                self.access.store(s, self.scalars[s.scalar])
            case Local():
                self.access.declare(s)
            case Loop():
                self.loop(s)
            case Check():
                self.check(s)
            case Product():
                tiles.product(self, s)
            case Sort():
                rows.sort(self, s)
            case _:
                raise CompilerError(f"@{self.kernel.name}: a CPU has no {s}")

    # -- scalars ---------------------------------------------------------------------------

    def scalar(self, s: Scalar) -> Val:
        """The value of a scalar, in every lane that is open."""
        match s:
            case Number(dtype, value):
                return Val(number(value, dtype), dtype)
            case Size(dim):
                return self.size(self.offsets.known(dim), s)
            case Inside(where):
                return self.inside(where)
            case Load():
                return self.access.load(s)
            case Search():
                return rows.search(self, s)
            case Word(dtype, word, operands):
                xs = [self.scalars[x] for x in operands]
                lanes = max(x.lanes for x in xs)
                return self.words.word(word, dtype, [splat(self.w, x, lanes) for x in xs])
            case _:
                raise CompilerError(f"@{self.kernel.name}: no code for {s}")

    def size(self, dim: Dim, s: Size) -> Val:
        """An index as a number."""
        if self.offsets.vector is not None and self.offsets.varies(dim):
            return Val(self.offsets.each(dim), s.dtype, self.offsets.vector.lanes)
        return Val(number_of(self.offsets, dim), s.dtype)

    def inside(self, where: Sequence[Dim]) -> Val:
        """Whether all of these are >= 0."""
        known = tuple(map(self.offsets.known, where))
        v = self.offsets.vector
        if v is not None and any(map(self.offsets.varies, known)):
            return Val(self.offsets.holds(known) or "true", BOOL, v.lanes)
        type_ = self.w.text.index
        tests = [self.w.value(f"icmp sge {type_} {self.offsets.first(d)}, 0") for d in known]
        total = tests[0]
        for test in tests[1:]:
            total = self.w.value(f"and i1 {total}, {test}")
        return Val(total, BOOL)

    def bind(self, name: str, x: Val) -> None:
        """A number as an index."""
        if x.lanes > 1 and self.offsets.vector is not None:
            self.offsets.vector.bound[name] = x.text
            return
        self.offsets.define_late(name, as_index(self.w, x.text))

    # -- loops -----------------------------------------------------------------------------

    def loop(self, s: Loop) -> None:
        """A loop of any kind that the target has."""
        if s.kind in ("block", "lane"):
            raise CompilerError(f"@{self.kernel.name}: a CPU has no {s.kind} loops")
        if s.grain != 0:
            emit_fork(self, s)
        elif s.by == TURN and (turn := turn_of(s)) and can_turn(turn, self.target):
            self.transpose(turn)
        else:
            self.between(s, 0, self.offsets.known(s.extent))

    def transpose(self, turn: TileTranspose) -> None:
        """A copy that transposes, by a function that all of them share."""
        name, source = turn_function(self.w.text, turn, self.target), turn.source.name
        place, to = self.access.places[source], self.access.places[turn.target.name].pointer
        offset, *sizes = (
            self.offsets.first(self.offsets.known(d))
            for d in (turn.offset, turn.step, turn.rows, turn.columns)
        )
        at = self.w.step(place.element, place.pointer, offset)
        rest = ", ".join(f"i64 {size}" for size in sizes)
        self.w.do(f"call void @{name}(ptr {at}, {rest}, ptr {to}, i64 {turn.width}, i64 0)")

    def between(self, s: Loop, begin: Dim, end: Dim) -> None:
        """The turns of a loop from one to before another."""
        lanes = s.width or self.lanes(s)
        if at_least(1, end - begin):
            self.once(s, begin, end - begin)
        elif s.kind != "vector" or self.offsets.vector is not None or lanes == 1:
            self.counted(s, self.offsets.first(begin), self.offsets.first(end), 1, None)
        elif s.limit is not None:
            self.unrolled(s, end, lanes)
        elif s.strip:
            first = end - (end - begin) % s.strip
            self.vectors(s, begin, first, s.strip)
            self.strips(s, first, end, lanes)
        else:
            self.strips(s, begin, end, lanes)

    def lanes(self, s: Loop) -> int:
        """As many as a register holds of the widest floats, or of the widest type there is.

        Several registers where a loop goes on inside: chains beside one another hide how long
        each takes, and read neighbouring lines of cache.
        """
        inside = list(statements(s.body))
        found = [t.scalar.dtype for t in inside if isinstance(t, Let)]
        floats = [t for t in found if t.is_float]
        widest = max((t.bytes for t in floats or found), default=8)
        chains = any(isinstance(t, Loop) for t in inside)
        return min(self.target.lanes(widest), WIDEST) * (BESIDE if chains else 1)

    def counted(self, s: Loop, start: str, stop: str, step: int, v: Vector | None) -> None:
        """One turn after the other, each of one element or one vector."""
        before = self.offsets.vector
        with self.w.loop(start, stop, step) as turn, self.offsets.scope(turn.head) as scope:
            scope.names[s.var] = turn.index if v else self.index(s, turn.index, turn.head)
            self.offsets.vector = v or before
            self.body(s.body)
        self.offsets.vector = before

    def index(self, s: Loop, index: str, head: Lines) -> str:
        """The index of a loop; LLVM does not know it around loops in lanes on x86-64.

        Else it keeps an address, and how far that moves, for every loop around. There are fifteen
        registers, and vectors read through r12, which LLVM takes late, took a fifth longer on a
        Zen 4 where they cross lines.
        """
        if self.offsets.vector is None or not self.target.triple.startswith("x86_64"):
            return index
        inside = [self.offsets.known(t.extent) for t in s.body if isinstance(t, Loop)]
        return index if all(at_least(1, n) for n in inside) else hidden(self.w, index, head)

    def once(self, s: Loop, begin: Dim, turns: Dim) -> None:
        """The turn of a loop that has no more than one, if there is one."""
        some = self.w.value(f"icmp sgt i64 {self.offsets.first(turns)}, 0")
        with self.w.when(some), self.offsets.scope():
            self.turn(s, begin, 1, 1)

    def strips(self, s: Loop, begin: Dim, end: Dim, lanes: int) -> None:
        """Whole vectors, then the rest under a mask."""
        whole = s.extent % lanes == 0 and s.grain % lanes == 0  # then parts are whole vectors
        rest = 0 if whole and s.levels == 1 else (end - begin) % lanes
        stop = end - rest
        if stop != begin:
            self.vectors(s, begin, stop, lanes)
        if rest != 0:
            self.rest(s, stop, rest, lanes)

    def rest(self, s: Loop, start: Dim, rest: Dim, lanes: int) -> None:
        """Fewer turns than a vector of several registers has lanes: one of these may be enough."""
        few = lanes // BESIDE
        if isinstance(rest, int) or few < 2 or not any(isinstance(t, Loop) for t in s.body):
            self.piece(s, start, rest, lanes)
            return
        many = self.w.value(f"icmp sgt i64 {self.offsets.first(rest)}, {few}")
        with self.w.either(many) as otherwise:
            self.piece(s, start, rest, lanes)
            otherwise()
            self.piece(s, start, rest, few)

    def vectors(self, s: Loop, begin: Dim, end: Dim, lanes: int) -> None:
        """Whole vectors, as many as there are."""
        if end - begin == lanes:
            self.piece(s, begin, lanes, lanes)
            return
        v = Vector(s.var, symbol(s.var), lanes, None, None)
        self.counted(s, self.offsets.first(begin), self.offsets.first(end), lanes, v)

    def unrolled(self, s: Loop, extent: Dim, lanes: int) -> None:
        """One vector after the other, at offsets that are known."""
        bound = extent if isinstance(extent, int) else s.limit or 0
        for start in range(0, bound, lanes):
            if isinstance(extent, int):
                here = min(lanes, 1 << (extent - start - 1).bit_length())
                self.piece(s, start, extent - start, here)
            else:
                self.piece(s, start, extent - start, lanes)

    def piece(self, s: Loop, start: Dim, rest: Dim, lanes: int) -> None:
        """The turns from here on in one vector, of which as many lanes run as are left."""
        if isinstance(rest, int):
            short = rest < lanes and _rewrites(s)
            for turn, width in exact(rest) if short else ((0, lanes),):
                with self.from_here(s, start + turn, width) as here:
                    self.turn(s, here, width, rest - turn)
            return
        left = self.offsets.first(rest)
        with (
            self.w.when(self.w.value(f"icmp sgt i64 {left}, 0")),
            self.from_here(s, start, lanes) as here,
        ):
            self.turn(s, here, lanes, rest)

    @contextmanager
    def from_here(self, s: Loop, start: Dim, lanes: int) -> Generator[Dim]:
        """A scope whose index is computed once, so that addresses are those of the loop before."""
        first = "" if isinstance(start, int) or lanes == 1 else self.offsets.first(start)
        with self.offsets.scope() as scope:
            if first:
                scope.names[s.var] = first
            yield symbol(s.var) if first else start

    def turn(self, s: Loop, start: Dim, lanes: int, rest: Dim) -> None:
        """The body once, from an index that is known."""
        if lanes == 1:
            self.offsets.defined[s.var] = start
            self.body(s.body)
            del self.offsets.defined[s.var]
            return
        full = isinstance(rest, int) and rest >= lanes
        masks = (None, None) if full else self.offsets.masks(rest, lanes)
        self.offsets.vector = Vector(s.var, start, lanes, *masks)
        self.body(s.body)
        self.offsets.vector = None

    # -- checks ----------------------------------------------------------------------------

    def check(self, s: Check) -> None:
        """Whether any lane fails; then the first that does is recorded."""
        ok, index = self.scalars[s.ok], self.scalars[s.index]
        lanes = max(ok.lanes, index.lanes)
        with self._lanes(lanes):
            ok, index = splat(self.w, ok, lanes), splat(self.w, index, lanes)
            ones = splat(self.w, Val("true", BOOL), lanes).text
            bad = self.w.value(f"xor {ok.type} {ok.text}, {ones}")
            if (condition := self.offsets.holds(s.where)) is not None:
                bad = self.w.value(f"and {ok.type} {bad}, {condition}")
            size = as_number(self.w, self.offsets.first(self.offsets.known(s.size)))
            with self.failure(bad, lanes, s.code):
                which = self._failing(bad, index)
                for word, value in enumerate((str(s.code), which, size)):
                    to = self.w.step("i64", "%status", word)
                    self.w.store("i64", value, to, 8)

    @contextmanager
    def _lanes(self, lanes: int) -> Generator[None]:
        """What is the same in all lanes is checked once."""
        before = self.offsets.vector
        if lanes == 1:
            self.offsets.vector = None
        yield
        self.offsets.vector = before

    @contextmanager
    def failure(self, bad: str, lanes: int, code: int) -> Generator[None]:
        """Where a lane fails and no failure is recorded yet."""
        if lanes > 1:
            truth = vector("i1", lanes)
            bad = self.w.call("i1", f"llvm.vector.reduce.or.v{lanes}i1", (truth, bad))
        with self.w.when(bad):
            before = self.w.load("i64", "%status", 8)
            with self.w.when(self.w.value(f"icmp eq i64 {before}, 0")):
                yield

    def _failing(self, bad: str, index: Val) -> str:
        if index.lanes == 1:
            return index.text
        bits = f"i{index.lanes}"
        mask = self.w.value(f"bitcast {vector('i1', index.lanes)} {bad} to {bits}")
        lane = self.w.call(bits, f"llvm.cttz.{bits}", (bits, mask), ("i1", "true"))
        return self.w.value(f"extractelement {index.type} {index.text}, {bits} {lane}")


def _table(table: Table) -> tuple[str, str]:
    """The type and the value of constant data."""
    element = stored_type(table.dtype)
    numbers = table.array.reshape(-1).tolist() if table.dtype.kind != "f" else table.array.flat
    items = ", ".join(f"{element} {_stored(x, table)}" for x in numbers)
    return f"[{table.array.size} x {element}]", f"[{items}]"


def _stored(x: float, table: Table) -> str:
    return str(int(x)) if table.dtype.kind == "b" else number(x, table.dtype)


def _rewrites(s: Loop) -> bool:
    """Whether a loop holds no other one, and stores to a buffer that it reads.

    A masked load of a short row reaches into the memory of the row that was stored before, and
    waits until that store has reached the cache. So each row of 6 elements of f32 that something
    was added to in place took 7 ns, and takes 1.6 ns with a vector of 4 and one of 2 (an Intel Xeon
    with AVX-512).
    """
    reads = {t.scalar.memory for t in s.body if isinstance(t, Let) and isinstance(t.scalar, Load)}
    stores = {t.memory for t in s.body if isinstance(t, Store) and isinstance(t.memory, Buffer)}
    return not reads.isdisjoint(stores) and not any(isinstance(t, Loop) for t in s.body)
