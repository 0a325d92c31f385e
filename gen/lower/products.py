"""Kernels that are a product with an element-wise rest: tile by tile, as soon as one is summed."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.index import Index, flatten
from dlvm.gen.loops.statements import Buffer, Load, Local, Operand, Product
from dlvm.ir import Function, Value
from dlvm.ir.dims import substitute, symbol, symbols
from dlvm.ops import Matmul, Reduction

from .elements import Pull, Tile

TILE = (96, 1024)
"""Rows of a product that are handed at once to what follows it, and the bytes of each."""


def product_kernel(pull: Pull, body: Function, targets: Sequence[tuple[Value, Buffer]]) -> bool:
    """Write the loops of such a kernel; False if it is none."""
    op, nest = _one_product(body), pull.nest
    if op is None or any(v.shape != op.shape for v, _ in targets):
        return False
    *batch, m, n = op.shape
    k, dtype = op.x.shape[-1], op.dtype.compute
    height, width = TILE[0], TILE[1] // max(dtype.bytes, 4)
    tile = Local(nest.fresh("tile"), dtype, height * width)
    names = [nest.fresh(f"%{hint}") for hint in ("row", "col", "rows", "cols")]
    row, col, rows, cols = map(symbol, names)
    with nest.loops(op.shape, range(len(batch)), "parallel") as at:
        x, y = _matrix(pull, op.x, at), _matrix(pull, op.y, at)
        if x is None or y is None:
            return False
        if column := n == 1:  # the row that it is of the transposes lies in vectors
            x, y, m, n = y.turned(), x.turned(), 1, m
        pull.tiles[op] = Tile(tile, (-1, -2) if column else (-2, -1), (row, col), width)
        with (
            nest.scope(*names, closed=True) as inside,
            nest.loop("serial", rows, "r") as r,
            nest.loop("parallel", cols, "c") as c,
        ):
            spot = (col + c, row + r) if column else (row + r, col + c)
            index = (*at, *spot)
            for value, buffer in targets:
                element = pull.element(value, At(index))
                nest.store(buffer, flatten(index, buffer.type.shape), element)
        nest.put(Product(x, y, m, n, k, tile, width, tuple(names), tuple(inside)))
    return True


def _matrix(pull: Pull, x: Value, batch: Index) -> Operand | None:
    """A matrix whose rows or columns lie at one distance from one another, in memory."""
    nest = pull.nest
    names = [nest.fresh(f"%{hint}") for hint in ("i", "j")]
    i, j = map(symbol, names)
    with nest.scope(*names, closed=True):
        element = pull.element(x, At((*batch, i, j)))
    if not (isinstance(element, Load) and isinstance(element.memory, Buffer)):
        return None
    offset = element.offset
    down, across = (substitute(offset, {n: symbol(n) + 1}) - offset for n in names)
    start = substitute(offset, dict.fromkeys(names, 0))
    for transposed, near, step in ((False, across, down), (True, down, across)):
        found = Operand(element.memory, start, transposed, step)
        if near == 1 and found.at(i, j) == offset and not set(names) & set(symbols(step)):
            return found
    return None


def _one_product(body: Function) -> Matmul | None:
    """The product of a body that holds one, with an element-wise rest."""
    products = [op for op in body.ops if isinstance(op, Matmul)]
    if len(products) != 1 or any(isinstance(op, Reduction) for op in body.ops):
        return None
    return products[0]
