"""The verifier of the loop level. What it demands of every kernel:

1. names: scalars, arrays and index symbols are defined above, in an enclosing body;
2. bounds: every load and store is provably inside its memory wherever its guard holds;
3. results: a store to an ``out`` buffer writes each element at most once, but for what serial
   loops write at indices that were read, which is written over as often as they say;
4. independence: in a loop that is not serial, no two turns write one element, and none reads
   what another writes, unless a barrier stands between;
5. products: what is stored of a tile lies apart from both operands, which are read meanwhile;
   what fills an operand stores each element of a piece once and nothing else, and reads nothing
   that tiles store;
6. threads: a loop with a grain is independent, as are the loops that are taken together with it,
   each of which stands in the one before beside nothing but scalars, and has turns of its own
   number whatever the turn of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dlvm.base.errors import CompilerError
from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import floordiv, mod, substitute, symbol, symbols

from .digits import distinct, slope
from .index import step_of
from .proofs import Facts
from .statements import (
    Barrier,
    Bind,
    Body,
    Buffer,
    Define,
    Fill,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Memory,
    Operand,
    Product,
    Scalar,
    Search,
    Sort,
    Statement,
    Store,
    Table,
    Where,
    dims,
    scalars,
    statements,
)
from .text import line_of
from .views import View, apart_in_rows, matrix, outside


def verify(kernel: LoopKernel) -> None:
    """Raise a ``CompilerError`` that names the first statement that breaks a rule."""
    _Verifier(kernel).body(kernel.body, _Place(Facts()))


@dataclass(frozen=True, slots=True)
class Access:
    """A load or store in a loop whose turns are independent, since the last barrier."""

    statement: Statement
    memory: Memory
    offset: Dim
    plain: Dim
    facts: Facts
    writes: bool


@dataclass(slots=True)
class _Place:
    """Where a statement stands: what is known, the open loops, what is defined."""

    facts: Facts
    loops: tuple[Loop, ...] = ()
    defines: dict[str, Define] = field(default_factory=dict[str, Define])
    names: set[str] = field(default_factory=set[str])
    scalars: set[Scalar] = field(default_factory=set[Scalar])
    homes: dict[str, int] = field(default_factory=dict[str, int])
    operands: tuple[View, ...] = ()

    def inner(self, facts: Facts, loop: Loop | None, *names: str) -> _Place:
        loops = self.loops if loop is None else (*self.loops, loop)
        return _Place(
            facts,
            loops,
            dict(self.defines),
            {*self.names, *names},
            set(self.scalars),
            dict(self.homes),
            self.operands,
        )

    def plain(self, d: Dim) -> Dim:
        """An index without defined names."""
        values = {name: s.dim for name, s in self.defines.items()}
        while isinstance(d, Expr) and any(s in values for s in symbols(d)):
            d = substitute(d, values)
        return d

    def facts_under(self, where: Where) -> Facts:
        """What is known where a guard holds, the bounds of defined names included."""
        facts, plain = self.facts, set(map(self.plain, where))
        for name, s in self.defines.items():
            if plain.issuperset(map(self.plain, s.where)):
                facts = facts.with_variable(name, s.high)
        return facts.given(*where)


class _Verifier:
    def __init__(self, kernel: LoopKernel) -> None:
        self.kernel = kernel
        self.sizes = {b.name: b.size for b in kernel.buffers}
        self.recent: list[tuple[Loop, list[Access]]] = []
        self.proven: set[Statement] = set()
        self.read: set[str] = set()
        """The indices that come from data."""

    def fail(self, s: Statement, problem: str) -> CompilerError:
        said = line_of(self.kernel, s)
        return CompilerError(f"@{self.kernel.name}: {problem}: {said}\n{self.kernel}")

    def body(self, body: Body, place: _Place) -> None:
        """All statements in order; the arrays that are declared here end with it."""
        for s in body:
            self.names(s, place)
            self.statement(s, place)
        for s in body:
            if isinstance(s, Local):
                del self.sizes[s.name]

    def names(self, s: Statement, place: _Place) -> None:
        for x in scalars(s):
            if x not in place.scalars:
                raise self.fail(s, "a scalar that is not defined above")
        known = {*self.kernel.symbols, *place.names}
        for loose in (n for d in dims(s) for n in symbols(d) if n not in known):
            raise self.fail(s, f"the index {loose} is not defined above")

    def statement(self, s: Statement, place: _Place) -> None:
        match s:
            case Let(scalar):
                if isinstance(scalar, Load):
                    self.inside(s, scalar, place)
                if isinstance(scalar, Search):
                    self.stretch(s, scalar, (scalar.memory,), place)
                place.scalars.add(scalar)
            case Store():
                if s not in self.proven:
                    self.once(s, place)
                self.inside(s, s, place)
                self.beside_operands(s, place)
            case Define():
                self.define(s, place)
            case Bind(name, _, high):
                place.facts = place.facts.with_variable(name, high)
                place.names.add(name)
                self.read.add(name)
            case Local(name, _, size):
                self.sizes[name] = size
                place.homes[name] = len(place.loops)
            case Loop():
                self.loop(s, place)
            case Product():
                self.product(s, place)
            case Fill():
                raise self.fail(s, "only a product fills an operand")
            case Sort():
                self.stretch(s, s, s.touched, place)
            case Barrier(arrays):
                for _, accesses in self.recent:
                    accesses[:] = [a for a in accesses if arrays and a.memory.name not in arrays]
            case _:
                return

    def define(self, s: Define, place: _Place) -> None:
        facts = place.facts_under(s.where)
        if s not in self.proven and not (
            facts.nonnegative(s.dim) and facts.nonnegative(s.high - s.dim)
        ):
            raise self.fail(s, f"not provably in 0..{s.high}")
        self.proven.add(s)
        place.defines[s.name] = s
        place.names.add(s.name)

    # -- loops -----------------------------------------------------------------------------

    def loop(self, s: Loop, place: _Place) -> None:
        """A serial loop is gone through twice, as a turn follows the one before."""
        if s.grain != 0 and not can_be_shared(s):
            raise self.fail(s, "threads can't share these loops")
        facts = place.facts.with_variable(s.var, s.extent - 1, s.extent - 1)
        if s.kind != "serial":
            self.recent.append((s, []))
        for _ in range(1 if s.kind != "serial" or not self.recent else 2):
            self.body(s.body, place.inner(facts, s, s.var))
        if s.kind != "serial":
            self.recent.pop()

    def product(self, s: Product, place: _Place) -> None:
        """A tile lies inside the result and is no larger than its array; rule 5."""
        row, col, rows, cols = map(symbol, s.spot)
        down, across = s.tile.size // s.width, s.width
        facts = place.facts
        for name, high in zip(s.spot, (s.m - 1, s.n - 1, down, across), strict=True):
            facts = facts.with_variable(name, high)
        facts = facts.given(s.m - row - rows, s.n - col - cols, s.m - 1, s.n - 1)
        views: list[View] = []
        for x, sizes in ((s.x, (s.m, s.k)), (s.y, (s.k, s.n))):
            if (fill := s.fill(x)) is not None:
                far, near = sizes[::-1] if x.transposed else sizes
                self.fill(s, fill, far, near, place)
                continue
            self.matrix(s, x, *sizes, place)
            view = matrix(x, *sizes)
            views.append(replace(view, start=place.plain(view.start)))
        inner = place.inner(facts, None, *s.spot)
        self.sizes[s.tile.name] = s.tile.size
        inner.homes[s.tile.name] = len(place.loops)
        inner.operands += tuple(views)
        self.body(s.finish, inner)

    def fill(self, p: Product, s: Fill, far: Dim, near: Dim, place: _Place) -> None:
        """A piece lies inside of the operand; each of its elements is stored once."""
        row, unit, rows, units, step = map(symbol, s.spot)
        count = floordiv(near, s.unit)
        if count * s.unit != near:
            raise self.fail(s, f"{near} elements are not made of units of {s.unit}")
        facts = place.facts
        for name, high in zip(s.spot[:4], (far - 1, count - 1, far, count), strict=True):
            facts = facts.with_variable(name, high)
        facts = facts.given(far - row - rows, count - unit - units, far - 1, count - 1)
        facts = facts.given(step - units * s.unit, rows - 1, units - 1)
        inner = place.inner(facts, None, *s.spot)
        self.sizes[s.piece.name] = rows * step
        inner.homes[s.piece.name] = len(place.loops)
        stored = {t.memory for t in statements(p.finish) if isinstance(t, Store)}
        for t in statements(s.body):
            if isinstance(t, Store) and t.memory != s.piece:
                raise self.fail(t, "what fills an operand stores elsewhere")
            if isinstance(t, Let) and isinstance(t.scalar, Load) and t.scalar.memory in stored:
                raise self.fail(t, "what fills an operand reads what tiles store")
        self.body(s.body, inner)

    def matrix(self, s: Product, x: Operand, rows: Dim, cols: Dim, place: _Place) -> None:
        """All of it lies inside of its buffer."""
        names = (f"{s.spot[0]}.row", f"{s.spot[1]}.col")
        facts = place.facts
        for name, size in zip(names, (rows, cols), strict=True):
            facts = facts.with_variable(name, size - 1, size - 1)
        assert isinstance(x.buffer, Buffer)
        at = place.plain(x.at(*map(symbol, names)))
        if not (facts.nonnegative(at) and facts.nonnegative(x.buffer.size - 1 - at)):
            raise self.fail(s, f"a matrix is not provably inside of %{x.buffer.name}")
        self.disjoint(s, x.buffer, x.at(*map(symbol, names)), facts, place)

    def beside_operands(self, s: Store, place: _Place) -> None:
        """Rule 5."""
        facts, offset = place.facts_under(s.where), place.plain(s.offset)
        for view in place.operands:
            if view.memory is s.memory and not outside(view, offset, facts):
                raise self.fail(s, "an operand of the product may be written over")

    # -- accesses --------------------------------------------------------------------------

    def stretch(
        self, s: Statement, x: Search | Sort, memories: Sequence[Memory], place: _Place
    ) -> None:
        """``count`` elements from an offset on: each of them is inside and nobody else's."""
        element = f"%element of {x.offset}"
        facts = place.facts_under(x.where).with_variable(element, x.count - 1, x.count - 1)
        for memory in memories:
            size = self.size(s, memory)
            offset = x.offset + symbol(element)
            if not (facts.nonnegative(offset) and facts.nonnegative(size - 1 - offset)):
                raise self.fail(s, f"not provably inside of the {size} elements of %{memory.name}")
            self.disjoint(s, memory, offset, facts, place)
        loops = [*(v.var for v in place.loops), element]
        offset = x.offset + symbol(element)
        if isinstance(x, Sort) and not distinct(offset, loops, facts, place.defines):
            raise self.fail(s, "two turns may sort one element")

    def size(self, s: Statement, memory: Memory) -> Dim:
        """How many elements memory has here."""
        if isinstance(memory, Table):
            return memory.size
        if memory.name not in self.sizes:
            raise self.fail(s, f"the array %{memory.name} is not declared")
        return self.sizes[memory.name]

    def inside(self, s: Statement, x: Load | Store, place: _Place) -> None:
        facts, offset, size = place.facts_under(x.where), x.offset, self.size(s, x.memory)
        if s in self.proven:
            pass
        elif facts.nonnegative(offset) and facts.nonnegative(size - 1 - offset):
            self.proven.add(s)
        else:
            raise self.fail(s, f"not provably inside of the {size} elements of %{x.memory.name}")
        if isinstance(x, Load) or not isinstance(x.memory, Table):
            self.disjoint(s, x.memory, offset, facts, place)

    def disjoint(
        self, s: Statement, memory: Memory, offset: Dim, facts: Facts, place: _Place
    ) -> None:
        """No other turn of a loop with independent turns touches what this one writes."""
        new = Access(s, memory, offset, place.plain(offset), facts, isinstance(s, Store | Sort))
        for loop, accesses in self.recent:
            if self._private(new.memory, loop, place) or _compared(new, accesses):
                continue
            for old in accesses:
                both = old.memory is new.memory and (old.writes or new.writes)
                differ = both and old.offset != new.offset
                if differ and not (_apart(old, new, loop) or _beside(old, new, place)):
                    raise self.fail(s, f"turns of {loop.var} share an element")
            accesses.append(new)

    def _private(self, memory: Memory, loop: Loop, place: _Place) -> bool:
        home = place.homes.get(memory.name, 0) if isinstance(memory, Local) else 0
        return loop in place.loops[:home]

    def once(self, s: Store, place: _Place) -> None:
        """The offset differs from turn to turn, of all loops or of those that aren't serial."""
        result = isinstance(s.memory, Buffer) and s.memory.role == "out"
        whole = result and self.read.isdisjoint(symbols(place.plain(s.offset)))
        home = place.homes.get(s.memory.name, 0)
        loops = [v for v in place.loops[home:] if whole or v.kind != "serial"]
        facts = place.facts_under(s.where)
        if not distinct(s.offset, [v.var for v in loops], facts, place.defines):
            raise self.fail(s, "two turns may write one element")


def _compared(new: Access, accesses: Sequence[Access]) -> bool:
    """Whether it was compared with all of these, in a serial loop's first walk."""
    same = (a for a in accesses if a.statement is new.statement and a.memory is new.memory)
    return any(a.offset == new.offset for a in same)


def can_be_shared(loop: Loop) -> bool:
    """Rule 6."""
    outer: set[str] = set()
    for _ in range(loop.levels - 1):
        inner = [s for s in loop.body if not isinstance(s, Let | Define | Bind)]
        if loop.kind != "parallel" or len(inner) != 1 or not isinstance(inner[0], Loop):
            return False
        outer.add(loop.var)
        loop = inner[0]
        if outer & set(symbols(loop.extent)):
            return False
    return loop.kind in ("parallel", "vector")


def _apart(a: Access, b: Access, loop: Loop) -> bool:
    """Whether different turns of a loop touch different elements.

    They do where each turn has a stretch of ``step`` elements of its own, one turn's behind
    another's, in which both accesses stay, from the same start for all turns.
    """
    step = _step(a, loop.var)
    if step is not None and step == _step(b, loop.var):
        for start in dict.fromkeys((*_starts(a, loop.var, step), *_starts(b, loop.var, step))):
            if _stays(a, loop.var, step, start) and _stays(b, loop.var, step, start):
                return True
    return _dealt(a, b, loop) or _disjoint(a, b, loop.var)


def _dealt(a: Access, b: Access, loop: Loop) -> bool:
    """Whether elements are dealt out to turns: each touches its own, and every n-th from there."""
    n, turn = loop.extent, symbol(loop.var)
    return n != 0 and all(mod(x.plain - turn, n) == 0 for x in (a, b))


def _beside(a: Access, b: Access, place: _Place) -> bool:
    """Whether two accesses are always as far apart, and all turns of both touch other elements."""
    far = b.plain - a.plain
    if not isinstance(far, int):
        return False
    either = "%either"
    low = a if far > 0 else b
    facts = low.facts.with_variable(either, 1, 1)
    names = [*(v.var for v in place.loops if v.kind != "serial"), either]
    return distinct(low.offset + abs(far) * symbol(either), names, facts, place.defines)


def _inner(a: Access, name: str) -> list[str]:
    """A loop and those inside of it, around an access."""
    names = [*a.facts.highest]
    return names[names.index(name) :] if name in names else [name]


def _step(a: Access, name: str) -> Dim | None:
    """How far an access moves from one turn of a loop to the next, if always as far."""
    step = slope(a.plain, name)
    return step if set(_inner(a, name)).isdisjoint(symbols(step)) else None


def _starts(a: Access, name: str, step: Dim) -> tuple[Dim, ...]:
    """Where the stretch of the first turn may start: the same for all turns of a loop.

    Tried are where the loops around say, as far as sizes and whole steps go, and where the access
    itself begins.
    """
    first = substitute(a.plain, dict.fromkeys(_inner(a, name), 0))
    sizes = substitute(first, dict.fromkeys(a.facts.highest, 0))
    constant = substitute(first, dict.fromkeys(symbols(first), 0))
    return first - sizes, first - mod(constant, step), first


def _stays(a: Access, name: str, step: Dim, start: Dim) -> bool:
    """Whether an access stays in the stretch of its turn."""
    rest = a.plain - start - step * symbol(name)
    return a.facts.nonnegative(rest) and a.facts.nonnegative(step - 1 - rest)


def _disjoint(a: Access, b: Access, name: str) -> bool:
    """Whether all offsets of one lie below all of the other, in any two turns of a loop.

    Both turns are of one run of the loop, so that loops around it stand at the same turn.
    """
    around = {n for n in a.facts.highest if n not in _inner(a, name)}
    renamed = {n: f"{n}'" for n in a.facts.highest if n not in around}
    other = {n: symbol(m) for n, m in renamed.items()}
    facts = Facts(
        {
            **b.facts.highest,
            **{renamed.get(n, n): substitute(h, other) for n, h in a.facts.highest.items()},
        },
        (*b.facts.holds, *(substitute(f, other) for f in a.facts.holds)),
        b.facts.proven,
    )
    first, second = substitute(a.plain, other), b.plain
    pitches = {abs(s) if isinstance(s, int) else s for x in (a, b) for s in _steps(x)}
    return any(apart_in_rows(first, second, step, facts) for step in (1, *sorted(pitches, key=str)))


def _steps(a: Access) -> Iterator[Dim]:
    """How far an access moves with each of the variables around it."""
    steps = (step_of(a.plain, name) for name in a.facts.highest if name in symbols(a.plain))
    return (s for s in steps if s is not None and set(symbols(s)).isdisjoint(a.facts.highest))
