"""From arrays to arrays: checks, memory for the results, the call, and errors.

Arguments are checked against the parameter types and the symbols bound from their shapes;
results are fresh arrays, or the donated ones. The call runs without Python's lock, on an arena
of its own, so several threads may call at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from dlvm.base.errors import DonationError, IRError
from dlvm.base.lazy import lazy
from dlvm.gen.checked.bounds import HEAD, ROOM, TABLE
from dlvm.gen.checked.buffers import LOCK, Checker, Region, region_of
from dlvm.gen.cpu.driver import ENTRY
from dlvm.gen.llvm.binding import Library
from dlvm.gen.loops import status
from dlvm.gen.program.report import Report
from dlvm.gen.program.steps import Called, Told
from dlvm.gen.rank_tables import Simulated, alone
from dlvm.gen.runtime import call_words, interrupts, pool
from dlvm.gen.runtime.activations import stack_budget
from dlvm.gen.runtime.arenas import Arenas
from dlvm.ir import Array, Module, Op, TensorType
from dlvm.ir.interpret import Interpreter, bind
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.taps import Line, record, say

from .entry import entry
from .interface import Interface

REMEMBERED = 256
"""For how many lists of shapes the sizes of symbols are kept."""

SOIL = 0xFF
"""Floats of such bytes are no numbers."""


Entry: TypeAlias = "Callable[..., Any]"
Call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 7)
Printer = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)
)


class Texts(Mapping[str, str]):
    """The stages between kernels and machine code as text, each written when first asked for."""

    def __init__(self, **writers: Callable[[], str]) -> None:
        self._writers = writers
        self._written: dict[str, str] = {}

    def __getitem__(self, stage: str) -> str:
        if stage not in self._written:
            self._written[stage] = self._writers[stage]()
        return self._written[stage]

    def __iter__(self) -> Iterator[str]:
        return iter(self._writers)

    def __len__(self) -> int:
        return len(self._writers)


@dataclass(eq=False)
class Executable:
    """A compiled function; ``run`` calls it.

    ``module`` is where the ordinals of errors are looked up: the traced module, or one made of it.
    An ``adaptive`` one uses all its ``threads`` only while that is faster than one.
    """

    interface: Interface
    library: Library
    module: Module
    texts: Mapping[str, str]
    report: Report
    threads: int = 1
    checker: Checker | None = None
    adaptive: bool = False
    ranks: Array | None = None
    """The table of the rank that calls it, in a program of ranks: see ``call_words``."""
    _arenas: Arenas = field(default_factory=Arenas)
    _solved: dict[Any, dict[str, int]] = field(default_factory=dict[Any, Any])

    @lazy
    def _call(self) -> Callable[..., None]:
        return Call(self.library.address(ENTRY))

    @lazy
    def _choice(self) -> Array | None:
        """The words by which calls choose their threads."""
        return pool.choice(self.threads) if self.adaptive and self.interface.forks else None

    @lazy
    def _alone(self) -> Simulated | None:
        """What a mesh of one rank needs, to which nobody gives a table."""
        return alone(self.interface.exchanges) if self.ranks is None else None

    @lazy
    def _contexts(self) -> dict[int, Array]:
        return {}

    def _context(self, budget: int) -> Array:
        """What the context of a call starts with, where activations may take so much stack."""
        found = self._contexts.get(budget)
        return self._contexts.setdefault(budget, self._started(budget)) if found is None else found

    def _started(self, budget: int) -> Array:
        """Its words: the pool of threads, where the code forks, and what signals need."""
        words = np.zeros(call_words.WORDS, np.int64)
        words[call_words.POOL] = pool.address(self.threads) if self.interface.forks else 0
        words[call_words.THREADS] = self.threads
        words[call_words.SIGNALS], words[call_words.LEFT] = interrupts.table(), interrupts.BUDGET
        words[call_words.STACK] = budget
        table = self.ranks if self._alone is None else self._alone.tables[0]
        words[call_words.RANKS] = 0 if table is None else table.ctypes.data
        return words

    def _budget(self) -> int:
        """How much stack activations may take in this thread, if there are any."""
        return stack_budget(self.interface.stack) if self.interface.enters else 0

    def words(self, name: str, count: int) -> Array:
        """An external table of 64-bit words in the machine code, as it is now."""
        words: Any = (ctypes.c_int64 * count).from_address(self.library.data(name))
        return np.frombuffer(words, np.int64)

    @lazy
    def _tape(self) -> Array:
        return np.zeros(1, np.int64)

    @property
    def tape_bytes(self) -> int:
        """The most memory that the tape of one call took so far."""
        return int(self._tape[0])

    def entry(self, kinds: Sequence[type] = (), *, bare: bool = False) -> Entry | None:
        """The fast way in for arguments of these types, where there is one; see ``entry``."""
        if self.checker is not None:
            return None

        def made(budget: int) -> Entry | None:
            context = self._context(budget)
            given = (self.interface, self.library, context, self._tape, kinds)
            return entry(*given, bare=bare, choice=self._choice)

        here = self._budget()
        first = made(here)
        if first is None or not self.interface.enters:
            return first
        entries: dict[int, Any] = {here: first}  # one for each size of stack

        def fitting(*args: Any) -> Any:
            budget = self._budget()
            own = entries.get(budget)
            if own is None:
                own = entries.setdefault(budget, made(budget))
            return own(*args)

        return fitting

    @lazy
    def _enter(self) -> Entry | None:
        return self.entry()

    def of_rank(self, words: Array) -> Executable:
        """The same code as a rank calls it that has this table."""
        return replace(self, ranks=words, _arenas=Arenas(), _solved={})

    def run(self, arrays: Sequence[Any], write: Callable[[str], None] = say) -> tuple[Array, ...]:
        """The results on these arguments; a donated one is the result that overwrites it."""
        params = self.interface.params
        if len(arrays) != len(params):
            raise IRError(
                f"@{self.interface.name} takes {len(params)} arguments, found {len(arrays)}"
            )
        given = [np.asarray(a) for a in arrays]
        symbols = self._sizes(given)
        self._check_donated(given)
        ready = [_readable(a) for a in given]
        try:
            found = NotImplemented if self._enter is None else self._enter(*ready)
        except status.CallFailed as failed:
            raise self.failure(failed.args) from None
        return self._by_ctypes(ready, symbols, write) if found is NotImplemented else found

    def run_on_soil(
        self, arrays: Sequence[Any], write: Callable[[str], None] = print
    ) -> tuple[Array, ...]:
        """The same in memory that starts as numbers that are none, so that no gap looks filled."""
        given = [np.array(a, order="C") for a in arrays]
        return self._by_ctypes(given, self._sizes(given), write, soil=True)

    def failure(self, words: Sequence[int]) -> BaseException:
        """The error that the words of a status stand for."""
        if words[0] == status.INTERRUPTED:
            return interrupts.raised(words)
        return status.error_of(words, self.module)

    def _by_ctypes(
        self,
        ready: list[Array],
        symbols: dict[str, int],
        write: Callable[[str], None],
        soil: bool = False,
    ) -> tuple[Array, ...]:
        """The call where machine code has no entry of its own, and where it prints."""
        results = self._results(ready, symbols)
        for made, told in zip(results, self.interface.results, strict=True) if soil else ():
            if told.overwrites is None:
                made.reshape(-1).view(np.uint8)[:] = SOIL
        printing = Printing(self.interface.prints, write, self.interface.calls)
        words = self._run(ready, results, symbols, printing, soil)
        if printing.error is not None:
            raise printing.error
        if words[0]:
            raise self.failure(words)
        return results

    def _sizes(self, arrays: list[Array]) -> dict[str, int]:
        """The sizes of symbols; the equations are solved once for each list of shapes."""
        key = tuple((a.dtype, a.shape) for a in arrays)
        found = self._solved.get(key)
        if found is None:
            params = self.interface.params
            found = bind([p.type for p in params], arrays, [p.name for p in params])
            if len(self._solved) >= REMEMBERED:
                self._solved.clear()
            self._solved[key] = found
        return found

    def _check_donated(self, arrays: list[Array]) -> None:
        names = [p.name for p in self.interface.params]
        for i, param in enumerate(self.interface.params):
            if not param.donated:
                continue
            flags = arrays[i].flags
            if not (flags.c_contiguous and flags.writeable and flags.aligned):
                raise DonationError(
                    f"{names[i]} is donated, but it is read-only or not contiguous",
                    remedy="donate a copy of it",
                )
            for j, other in enumerate(arrays):
                if j != i and np.may_share_memory(arrays[i], other):
                    raise DonationError(
                        f"{names[i]} is donated, but it overlaps with {names[j]}",
                        remedy="pass a copy of one of them",
                    )

    def _results(self, arrays: list[Array], symbols: dict[str, int]) -> tuple[Array, ...]:
        """A fresh array for each result, or the donated one that it is written into."""
        return tuple(
            np.empty(_shape(r.type, symbols), r.type.dtype.numpy)
            if r.overwrites is None
            else arrays[r.overwrites]
            for r in self.interface.results
        )

    def _run(
        self,
        arrays: list[Array],
        results: Sequence[Array],
        symbols: dict[str, int],
        printing: Printing,
        soil: bool = False,
    ) -> list[int]:
        """Make the call; the words of its status."""
        words = (ctypes.c_int64 * status.WORDS)()
        context = (ctypes.c_int64 * call_words.WORDS)(*self._context(self._budget()).tolist())
        printer = Printer(printing)
        context[call_words.PRINTER] = ctypes.cast(printer, ctypes.c_void_p).value or 0
        sizes = (ctypes.c_int64 * len(self.interface.symbols))(
            *(symbols[s] for s in self.interface.symbols)
        )
        room = evaluate(self.interface.arena, symbols)
        tables = [_addresses(a) for a in (arrays, results, self.interface.constants)]
        with self._arenas.lease(room) as arena:
            if soil:
                ctypes.memset(arena, SOIL, room)
            own = (tables[0], tables[1], arena, sizes, tables[2], words, context)
            if self.checker is None:
                work = evaluate(self.interface.work, symbols)
                with pool.chosen(self._choice, work, context):
                    self._call(*own)
            else:
                self._checked(self.checker, arrays, results, symbols, own)
        self._tape[0] = max(self.tape_bytes, context[call_words.HELD])
        return list(words)

    def _checked(
        self,
        checker: Checker,
        arrays: Sequence[Array],
        results: Sequence[Array],
        symbols: dict[str, int],
        own: tuple[Any, ...],
    ) -> None:
        """The call of code that checks every access; one that went outside is an error."""
        names = [p.name for p in self.interface.params]
        regions = [region_of(n, a) for n, a in zip(names, arrays, strict=True)]
        regions += [region_of(f"result {i}", r) for i, r in enumerate(results)]
        regions += [region_of("a constant", c) for c in self.interface.constants]
        regions += [*checker.regions(own[2], symbols)]
        regions += [
            Region("the state of the call", ctypes.addressof(w), ctypes.sizeof(w)) for w in own[5:]
        ]
        table = self.words(TABLE, HEAD + 2 * ROOM)
        with LOCK:
            checker.fill(table, regions)
            self._call(*own)
            failed = checker.failure(table, regions)
        if failed is not None:
            raise failed


class Printing:
    """What machine code calls in Python: prints, taps, references; an exception ends the call."""

    def __init__(
        self, prints: Sequence[Told], write: Callable[[str], None], calls: Sequence[Called] = ()
    ) -> None:
        self.prints, self.write, self.calls = prints, write, calls
        self.error: BaseException | None = None

    def __call__(self, index: int, address: int, sizes: Any) -> int:
        """Print or tap the tensor at an address, or run the call ``~index``; 1 if that raises."""
        try:
            if index < 0:
                self.ask(*self.calls[~index], address, sizes)
                return 0
            label, type_, how = self.prints[index]
            array = _copied(address, type_, sizes[: type_.rank])
            if how == "tap":
                record(label, array)
            else:
                self.write(Line(label, array))
        except BaseException as error:
            self.error = error
            return 1
        return 0

    def ask(self, op: Op, names: Sequence[str], address: int, sizes: Any) -> None:
        """Run the reference of an operation; a row has the addresses of operands and results."""
        types = [*(x.type for x in op.operands), *op.result_types]
        row = (ctypes.c_void_p * len(types)).from_address(address)
        known = dict(zip(names, sizes[: len(names)], strict=True))
        given = [
            _copied(at, t, _shape(t, known))
            for at, t in zip(row, (x.type for x in op.operands), strict=False)
        ]
        for array in given:
            array.flags.writeable = False
        with np.errstate(all="ignore"):
            found = Interpreter(Module(()), known).step(op, given)
        for at, array in zip(row[len(given) :], found, strict=True):
            ready = np.ascontiguousarray(array)
            ctypes.memmove(at, ready.ctypes.data, ready.nbytes)


def _copied(address: int | None, type_: TensorType, shape: Sequence[int]) -> Array:
    """The tensor at an address, as an array of its own."""
    array = np.empty(tuple(shape), type_.dtype.numpy)
    ctypes.memmove(array.ctypes.data, address or 0, array.nbytes)
    return array


def _addresses(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))


def _shape(type_: TensorType, symbols: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, symbols) for d in type_.shape)


def _readable(array: Array) -> Array:
    """The array itself where machine code can read it as it is, else a copy."""
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")
