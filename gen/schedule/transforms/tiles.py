"""The transform ``tiles``: a product as the blocks of a GPU, each of which sums one tile of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.builder import LoopScalars, Nest
from dlvm.gen.loops.index import Index, ceildiv, piece, split
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    Barrier,
    Bind,
    Body,
    Define,
    Fill,
    Let,
    Local,
    Loop,
    Operand,
    Product,
    Scalar,
    Statement,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.dims import floordiv, mod, product, substitute, symbol

BLOCK, LANE = "%block", "%lane"


@register
@dataclass(frozen=True, slots=True)
class Tiles(Transform):
    """A block sums ``rows`` x ``columns`` elements, of which each lane keeps ``down`` x ``across``.

    The block copies ``depth`` columns of the left operand and as many rows of the right one to
    shared memory at a time, or computes them there. Each element is one chain over k.
    """

    word: ClassVar[str] = "tiles"
    rows: int
    columns: int
    depth: int
    down: int
    across: int

    @property
    def lanes(self) -> int:
        """The lanes of a block."""
        return (self.rows // self.down) * (self.columns // self.across)

    def rewritten(self, loop: Loop) -> Body:
        """The whole kernel as one loop over blocks."""
        scalars, chain, found = product_of(loop.body)
        if found is None:
            raise self.refused("the kernel is more than one product")
        if self.rows % self.down or self.columns % self.across:
            raise self.refused("the elements of a lane do not divide those of a block")
        work = _Tiles(self, found)
        return (replace(loop, body=(*scalars, work.blocks(chain))),)


def product_of(body: Body) -> tuple[list[Statement], list[Loop], Product | None]:
    """The scalars of a kernel, the loops over its products, and the one product inside of them."""
    scalars: list[Statement] = [s for s in body if isinstance(s, Let | Define | Bind)]
    rest = [s for s in body if s not in scalars]
    chain: list[Loop] = []
    while len(rest) == 1 and isinstance(rest[0], Loop) and rest[0].kind == "parallel":
        chain.append(rest[0])
        rest = list(rest[0].body)
    found = rest[0] if len(rest) == 1 and isinstance(rest[0], Product) else None
    return scalars, chain, found


@dataclass
class _Tiles:
    """The loops of one product."""

    numbers: Tiles
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
            self.x = self._shared("panel.x", n.rows)
            self.y = self._shared("panel.y", n.columns)
            with nest.scope(LANE, closed=True) as body:
                self._sums()
            nest.put(Loop(LANE, n.lanes, "lane", tuple(body)))
        return Loop(BLOCK, product(grid), "block", tuple(inside))

    def _shared(self, name: str, width: int) -> Local:
        found = Local(name, self.dtype, width * self.numbers.depth, shared=True)
        self.nest.put(found)
        return found

    # -- sums ------------------------------------------------------------------------------

    def _sums(self) -> None:
        """What one lane does: its elements over all panels, then what sees them."""
        n, p, nest = self.numbers, self.product, self.nest
        total = nest.local("sum", self.dtype, n.down * n.across)
        zero = self.words.constant(0, self.dtype)
        for i in range(total.size):
            nest.store(total, i, zero)
        wide = n.columns // n.across
        down, across = n.down * floordiv(self.lane, wide), n.across * mod(self.lane, wide)
        with nest.loop("serial", ceildiv(p.k, n.depth), "panel") as panel:
            first = n.depth * panel
            self._panel(p.x, self.x, n.rows, False, first)
            self._panel(p.y, self.y, n.columns, True, first)
            nest.put(Barrier())
            with nest.loop("serial", piece(n.depth, p.k, panel), "t") as t:
                xs = [nest.load(self.x, n.rows * t + down + i) for i in range(n.down)]
                ys = [nest.load(self.y, n.columns * t + across + j) for j in range(n.across)]
                for i, x in enumerate(xs):
                    for j, y in enumerate(ys):
                        at = n.across * i + j
                        new = self.words.multiply_add(x, y, nest.load(total, at))
                        nest.store(total, at, new)
            nest.put(Barrier())
        for i in range(n.down):
            for j in range(n.across):
                found = nest.load(total, n.across * i + j)
                self._finish(found, self.row + down + i, self.col + across + j, f".{i}.{j}")

    def _finish(self, found: Scalar, row: Dim, col: Dim, suffix: str) -> None:
        """What sees an element, if there is one at this place."""
        p = self.product
        held = Local(f"{p.tile.name}{suffix}", self.dtype, 1)
        self.nest.put(held)
        self.nest.store(held, 0, found)
        where = (p.m - 1 - row, p.n - 1 - col)
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
        flat = tuple(_once(body, values))
        self.nest.include(Rewriting(values, where, suffix, arrays).body(flat))

    # -- panels ----------------------------------------------------------------------------

    def _panel(self, x: Operand, panel: Local, width: int, turned: bool, first: Dim) -> None:
        """Copies a panel: ``width`` rows of x, or columns where it is ``turned``, at each k.

        Neighbouring lanes take elements that lie beside one another in memory.
        """
        n, p = self.numbers, self.product
        along = x.transposed != turned  # whether neighbours in memory are of one k
        for j in range(-(-width * n.depth // n.lanes)):
            e = self.lane + n.lanes * j
            wide, deep = (
                (mod(e, width), floordiv(e, width))
                if along
                else (floordiv(e, n.depth), mod(e, n.depth))
            )
            at = width * deep + wide
            row, col = self.row + wide, first + deep
            rows, cols = p.m, p.k
            if turned:
                row, col, rows, cols = first + deep, self.col + wide, p.k, p.n
            inside = (rows - 1 - row, cols - 1 - col)
            element = self._element(x, row, col, inside, f".{panel.name[-1]}{j}")
            own = (width * n.depth - 1 - e,) if (width * n.depth) % n.lanes else ()
            self.nest.store(panel, at, element, own)

    def _element(self, x: Operand, row: Dim, col: Dim, inside: Index, suffix: str) -> Scalar:
        """An element of an operand, from memory or computed; zero, or anything, outside."""
        fill = self.product.fill(x)
        if fill is None:
            found = self.nest.load(x.buffer, x.at(row, col), inside)
            return self.words.cast(found, self.dtype)
        return self._filled(fill, x, (row, col), inside, suffix)

    def _filled(self, fill: Fill, x: Operand, at: Index, inside: Index, suffix: str) -> Scalar:
        held = Local(f"{fill.piece.name}{suffix}", fill.piece.dtype, 1)
        self.nest.put(held)
        self.nest.store(held, 0, self.words.constant(0, held.dtype))
        row, col = reversed(at) if x.transposed else at
        values = dict(zip(fill.spot, (row, col, 1, 1, 0), strict=True))
        self._copied(fill.body, values, {fill.piece.name: held}, inside, suffix)
        return self.words.cast(self.nest.load(held, 0), self.dtype)


def _once(body: Body, values: dict[str, Dim]) -> Sequence[Statement]:
    """The statements of loops that have one iteration, whose index is then 0."""
    found: list[Statement] = []
    for s in body:
        if isinstance(s, Loop) and substitute(s.extent, values) == 1:
            values[s.var] = 0
            found += _once(s.body, values)
        else:
            found.append(s)
    return found
