"""The transform ``parts``: a product of long k as chunks of k side by side, then their sums.

An element of a product is a sum of chunks from first to last. A block has all of k for its tile,
and a small result has few tiles. Here each chunk of k has blocks of its own, which write its sums
to memory, and a lane then adds those of an element in the same order, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.index import ceildiv, piece
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Fill,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Operand,
    Product,
    Statement,
    Store,
    Word,
)
from dlvm.gen.schedule.chunks import inside
from dlvm.gen.schedule.transform import OfKernel, register
from dlvm.ir import Dim, TensorType
from dlvm.ir.sizes.dims import maximum, product, symbol
from dlvm.ir.sizes.positions import flatten

from .block_tiles import once
from .tiles import product_of

MOST = 1 << 16
"""Elements of a result up to which chunks are shared.

The sums of all chunks are then half as large as both operands, or smaller: of a square result of
so many elements, a chunk has 256 * 256 sums and operands of 2 * 256 * 256 elements.
"""
FEWEST = 8
"""Chunks of k from which on two launches are better than one."""
PART, AMONG, DOWN, ALONG = "%part.k", "%among.k", "%down.k", "%along.k"


@register
@dataclass(frozen=True, slots=True)
class Parts(OfKernel):
    """A loop over chunks of k of the kernel's product, and one that adds what these give."""

    word: ClassVar[str] = "parts"
    impossible: ClassVar[str] = "it is no product of a long k and few elements"
    makes_memory: ClassVar[bool] = True

    @staticmethod
    def made(body: Body) -> Body | None:
        """The statements with this done, if that can be."""
        return shared(body)


def shared(whole: Body) -> Body | None:
    """The statements with the product in two stages, if that can be."""
    scalars, chain, found = product_of(whole)
    if found is None or not _is_long(found, chain):
        return None
    work = _Sharing.of(chain, found)
    return (*scalars, *work.parts(), *work.totals())


def _is_long(p: Product, chain: Sequence[Loop]) -> bool:
    """Whether there are few elements, and k is long or open."""
    count = product((*(s.extent for s in chain), p.m, p.n))
    few = isinstance(count, int) and 0 < count <= MOST
    fills = (s for s in p.body if isinstance(s, Fill))
    long = not isinstance(p.k, int) or p.k >= FEWEST * p.chunk
    return few and long and all(s.unit == 1 for s in fills)


@dataclass(frozen=True, slots=True)
class _Sharing:
    """A product inside of the loops of a batch, and the memory for the sums of its chunks."""

    chain: Sequence[Loop]
    product: Product
    count: Dim
    room: Buffer

    @staticmethod
    def of(chain: Sequence[Loop], p: Product) -> _Sharing:
        """With a place for each chunk of each element; a k of 0 is one chunk."""
        count = maximum(1, ceildiv(p.k, p.chunk))
        size = product((count, *(s.extent for s in chain), p.m, p.n))
        room = Buffer(f"{p.tile.name}_parts", TensorType(p.tile.dtype, (size,)), "scratch")
        return _Sharing(chain, p, count, room)

    def parts(self) -> Body:
        """The product of each chunk of k, stored as it is summed."""
        p, start = self.product, self.product.chunk * symbol(PART)
        x, y = self._moved(p.x, 0, start), self._moved(p.y, start, 0)
        fills = [self._fill(s, start) for s in p.body if isinstance(s, Fill)]
        row, col, rows, cols = map(symbol, p.spot)
        r, c = symbol(DOWN), symbol(ALONG)
        found = Load(p.tile.dtype, p.tile, r * p.width + c)
        store = Store(self.room, self._place(symbol(PART), row + r, col + c), found)
        across = Loop(ALONG, cols, "parallel", (Let(found), store))
        body = (*fills, Loop(DOWN, rows, "serial", (across,)))
        inner = replace(p, x=x, y=y, k=piece(p.chunk, p.k, symbol(PART)), body=body)
        return (Loop(PART, self.count, "parallel", inside(self.chain, (inner,))),)

    def totals(self) -> Body:
        """For each element its sums from first to last, and what sees their total."""
        p, (row, col) = self.product, (symbol(DOWN), symbol(ALONG))
        total = Local("total.k", p.tile.dtype, 1)
        none = Number(total.dtype, -0.0 if total.dtype.is_float else 0)
        part = Load(total.dtype, self.room, self._place(symbol(AMONG), row, col))
        before = Load(total.dtype, total, 0)
        added = Word(total.dtype, "add", (before, part))
        add: Body = (*map(Let, (part, before, added)), Store(total, 0, added))
        values: dict[str, Dim] = dict(zip(p.spot, (row, col, 1, 1), strict=True))
        flat = once(p.finish, values)
        seen = Rewriting(values, arrays={p.tile.name: total}).body(flat)
        sums: list[Statement] = [total, Let(none), Store(total, 0, none)]
        sums.append(Loop(AMONG, self.count, "serial", add))
        across = Loop(ALONG, p.n, "parallel", (*sums, *seen))
        made = inside(self.chain, (Loop(DOWN, p.m, "parallel", (across,)),))
        return Rewriting({}, (), ".total").body(made)

    def _place(self, part: Dim, row: Dim, col: Dim) -> Dim:
        """Where a sum lies: those of neighbouring elements side by side."""
        p, batch = self.product, [symbol(s.var) for s in self.chain]
        sizes = [s.extent for s in self.chain]
        return flatten((part, *batch, row, col), (self.count, *sizes, p.m, p.n))

    def _moved(self, x: Operand, row: Dim, col: Dim) -> Operand:
        """An operand from some row and column on; one that is filled is moved in its fill."""
        return x if self.product.fill(x) else replace(x, offset=x.at(row, col))

    def _fill(self, s: Fill, start: Dim) -> Fill:
        """What computes an operand, from some k on."""
        p = self.product
        x = next(x for x in (p.x, p.y) if x.buffer == s.piece)
        along_rows = (x is p.y) != x.transposed
        name = s.spot[0 if along_rows else 1]
        return replace(s, body=Rewriting({name: symbol(name) + start}).body(s.body))
