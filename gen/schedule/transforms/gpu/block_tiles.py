"""The loops of a product in tiles: panels in shared memory, and the elements that a lane sums."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from dlvm.gen.loops.builder import LoopScalars, Nest
from dlvm.gen.loops.index import border, ceildiv, piece
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    Barrier,
    Body,
    Define,
    Fill,
    Local,
    Loop,
    Operand,
    Product,
    Scalar,
    Statement,
)
from dlvm.ir import Dim, DType
from dlvm.ir.sizes.dims import at_least, floordiv, maximum, mod, product, substitute, symbol
from dlvm.ir.sizes.positions import Index, split

BLOCK, LANE = "%block", "%lane"


class Blocking(Protocol):
    """The numbers of the transform ``tiles``."""

    @property
    def rows(self) -> int: ...  # noqa: D102
    @property
    def columns(self) -> int: ...  # noqa: D102
    @property
    def depth(self) -> int: ...  # noqa: D102
    @property
    def down(self) -> int: ...  # noqa: D102
    @property
    def across(self) -> int: ...  # noqa: D102
    @property
    def instruction(self) -> str: ...  # noqa: D102
    @property
    def lanes(self) -> int: ...  # noqa: D102


@dataclass
class BlockTiles:
    """The loops of one product, each of whose elements is a chain over each chunk of k."""

    chunked: ClassVar[bool] = True

    numbers: Blocking
    product: Product

    def __post_init__(self) -> None:
        self.nest = Nest()
        self.words = LoopScalars(self.nest)
        self.lane = symbol(LANE)
        self.dtype = self.product.tile.dtype

    def blocks(self, chain: Sequence[Loop]) -> Loop:
        """The blocks of all products, each with its lanes."""
        n, p, nest = self.numbers, self.product, self.nest
        grid = (*(s.extent for s in chain), ceildiv(p.m, n.rows), ceildiv(p.n, n.columns))
        with nest.scope(BLOCK, closed=True) as inside:
            *batch, down, across = split(symbol(BLOCK), grid)
            for s, at in zip(chain, batch, strict=True):
                nest.put(Define(s.var, at, s.extent - 1))
            self.row, self.col = n.rows * down, n.columns * across
            self.x, self.y = self.panel("panel.x", n.rows), self.panel("panel.y", n.columns)
            with nest.scope(LANE, closed=True) as body:
                self._sums()
            nest.put(Loop(LANE, n.lanes, "lane", tuple(body)))
        return Loop(BLOCK, product(grid), "block", tuple(inside))

    # -- what depends on the instruction ---------------------------------------------------

    @property
    def element(self) -> DType:
        """The type of an element of a panel."""
        return self.dtype

    def panel(self, name: str, width: int) -> Local:
        """A panel: for each of ``depth`` k as many elements."""
        return self.shared(name, width * self.numbers.depth)

    def place(self, wide: Dim, deep: Dim, width: int) -> Dim:
        """Where an element of a panel lies."""
        return width * deep + wide

    def kept(self) -> Iterator[tuple[Dim, Dim]]:
        """The row and column, in the tile of the block, of each element of a lane."""
        n = self.numbers
        wide = n.columns // n.across
        down, across = n.down * floordiv(self.lane, wide), n.across * mod(self.lane, wide)
        for i in range(n.down):
            for j in range(n.across):
                yield down + i, across + j

    def multiplied(self, total: Local, depth: Dim) -> None:
        """Adds what a panel of so many k gives."""
        n, nest = self.numbers, self.nest
        places = [*self.kept()]
        rows = [row for row, _ in places[:: n.across]]
        columns = [col for _, col in places[: n.across]]
        with nest.loop("serial", depth, "t") as t:
            xs = [nest.load(self.x, self.place(row, t, n.rows)) for row in rows]
            ys = [nest.load(self.y, self.place(col, t, n.columns)) for col in columns]
            for i, x in enumerate(xs):
                for j, y in enumerate(ys):
                    at = n.across * i + j
                    nest.store(total, at, self.words.multiply_add(x, y, nest.load(total, at)))

    # -- sums ------------------------------------------------------------------------------

    def shared(self, name: str, size: int) -> Local:
        """An array of the block."""
        found = Local(name, self.element, size, shared=True)
        self.nest.put(found)
        return found

    def _sums(self) -> None:
        """What one lane does: its elements over all panels, then what sees them."""
        p, nest = self.product, self.nest
        places = [*self.kept()]
        total = nest.local("sum", self.dtype, len(places))
        if not self.chunked or at_least(p.chunk, p.k):
            self._chain(total, 0, p.k)
        else:
            whole, total = total, nest.local("chunk", self.dtype, len(places))
            self._fill(whole, -0.0)  # which leaves all that is added as it is
            with nest.loop("serial", maximum(1, ceildiv(p.k, p.chunk)), "part") as part:
                self._chain(total, p.chunk * part, piece(p.chunk, p.k, part))
                for i in range(total.size):
                    found = nest.load(total, i)
                    nest.store(whole, i, self.words.binary("add", nest.load(whole, i), found))
            total = whole
        for i, (row, col) in enumerate(places):
            self._finish(nest.load(total, i), self.row + row, self.col + col, f".{i}")

    def _fill(self, total: Local, value: float) -> None:
        """The same number in all places."""
        found = self.words.constant(value, self.dtype)
        for i in range(total.size):
            self.nest.store(total, i, found)

    def _chain(self, total: Local, start: Dim, size: Dim) -> None:
        """A lane's sums over a run of k, panel by panel."""
        n, p, nest = self.numbers, self.product, self.nest
        self._fill(total, 0)
        with nest.loop("serial", ceildiv(size, n.depth), "panel") as panel:
            first = start + n.depth * panel
            self._panel(p.x, self.x, n.rows, False, first)
            self._panel(p.y, self.y, n.columns, True, first)
            nest.put(Barrier())
            self.multiplied(total, piece(n.depth, size, panel))
            nest.put(Barrier())

    def _finish(self, found: Scalar, row: Dim, col: Dim, suffix: str) -> None:
        """What sees an element, if there is one at this place."""
        n, p = self.numbers, self.product
        held = Local(f"{p.tile.name}{suffix}", self.dtype, 1)
        self.nest.put(held)
        self.nest.store(held, 0, found)
        where = (*border(p.m, n.rows, row), *border(p.n, n.columns, col))
        spot = dict(zip(p.spot, (row, col, 1, 1), strict=True))
        self._copied(p.finish, spot, {p.tile.name: held}, where, suffix)

    def _copied(
        self,
        body: Body,
        values: dict[str, Dim],
        arrays: dict[str, Local],
        where: Index,
        suffix: str,
    ) -> None:
        """Statements for one element, whose loops have one iteration each."""
        flat = tuple(once(body, values))
        self.nest.include(Rewriting(values, where, suffix, arrays).body(flat))

    # -- panels ----------------------------------------------------------------------------

    def _panel(self, x: Operand, panel: Local, width: int, turned: bool, first: Dim) -> None:
        """Copies a panel: ``width`` rows of x, or columns where it is ``turned``, at each k.

        Neighbouring lanes take elements that lie beside one another in memory.
        """
        n, p = self.numbers, self.product
        start, most = (self.col, p.n) if turned else (self.row, p.m)
        along = x.transposed != turned  # whether neighbours in memory are of one k
        for j in range(-(-width * n.depth // n.lanes)):
            e = self.lane + n.lanes * j
            wide, deep = (
                (mod(e, width), floordiv(e, width))
                if along
                else (floordiv(e, n.depth), mod(e, n.depth))
            )
            side, k = start + wide, first + deep
            own = border(width * n.depth, n.lanes, e)
            inside = (*border(most, width, side), *self._border_of_k(k), *own)
            row, col = (k, side) if turned else (side, k)
            element = self._element(x, row, col, inside, f".{panel.name[-1]}{j}")
            self.nest.store(panel, self.place(wide, deep, width), element, own)

    def _border_of_k(self, k: Dim) -> Index:
        """What holds of k where not all panels are full."""
        n, p = self.numbers, self.product
        even = not self.chunked or p.chunk % n.depth == 0
        return border(p.k, n.depth, k) if even else (p.k - 1 - k,)

    def _element(self, x: Operand, row: Dim, col: Dim, inside: Index, suffix: str) -> Scalar:
        """An element of an operand, from memory or computed; zero outside."""
        fill = self.product.fill(x)
        if fill is None:
            found = self.nest.load(x.buffer, x.at(row, col), inside)
            return self.words.cast(found, self.element)
        return self._filled(fill, x, (row, col), inside, suffix)

    def _filled(self, fill: Fill, x: Operand, at: Index, inside: Index, suffix: str) -> Scalar:
        held = Local(f"{fill.piece.name}{suffix}", fill.piece.dtype, 1)
        zero = self.words.constant(0, held.dtype)
        self.nest.put(held)
        self.nest.store(held, 0, zero)
        row, col = reversed(at) if x.transposed else at
        values = dict(zip(fill.spot, (row, col, 1, 1, 0), strict=True))
        self._copied(fill.body, values, {fill.piece.name: held}, inside, suffix)
        found = self.nest.load(held, 0)
        if inside:
            found = self.words.select(self.nest.inside(inside), found, zero)
        return self.words.cast(found, self.element)


def once(body: Body, values: dict[str, Dim]) -> Sequence[Statement]:
    """The statements of loops that have one iteration, whose index is then 0."""
    found: list[Statement] = []
    for s in body:
        if isinstance(s, Loop) and substitute(s.extent, values) == 1:
            values[s.var] = 0
            found += once(s.body, values)
        else:
            found.append(s)
    return found
