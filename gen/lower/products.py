"""Kernels that are a product with an element-wise rest: tile by tile, as soon as one is summed."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.cost import lanes_per_step
from dlvm.gen.loops.builder import At
from dlvm.gen.loops.statements import CHUNK, Bind, Buffer, Fill, Load, Local, Operand, Product
from dlvm.gen.loops.views import view_of
from dlvm.ir import Function, Value
from dlvm.ir.sizes.dims import at_least, symbol, symbols
from dlvm.ir.sizes.positions import Index, flatten
from dlvm.ops import Gather, Matmul, Reduction, Update
from dlvm.ops.arrays.indexing import one_part
from dlvm.ops.arrays.sections import in_whole

from .elements import Pull, Tile
from .filling import filled

FEW = 4
"""Rows of x of a small product."""
SMALLEST, SMALL, SMALL_ALONG = 64, 512, 8192
"""Multiplications of a small product: across the rows of y, along them, and there of few rows of x.

In f32 on one core of a Zen 4 a row times 64 x 48 takes 0.7 us in loops and 1.3 in a product, the
call included, four rows times 32 x 32 take 0.78 and 0.93, and 16 x 16 x 16 1.1 and 0.8.
"""
TILE = (96, 1024)
"""Rows of a product that are handed at once to what follows it, and the bytes of each."""


def product_kernel(pull: Pull, body: Function, targets: Sequence[tuple[Value, Buffer]]) -> bool:
    """Write the loops of such a kernel; False if it is none."""
    op, nest = _one_product(body), pull.nest
    places = [(v.y if isinstance(v, Update) else v, v, buffer) for v, buffer in targets]
    if op is None or any(v.shape != op.shape for v, _, _ in places):
        return False
    loops = not any(isinstance(v, Update) for v, _ in targets)
    *batch, m, n = op.shape
    k, dtype = op.x.shape[-1], op.dtype.compute
    height, width = TILE[0], TILE[1] // max(dtype.bytes, 4)
    tile = Local(nest.fresh("tile"), dtype, height * width)
    for picked in body.ops:
        if (
            isinstance(picked, Gather)
            and one_part(picked)
            and at_least(picked.x.shape[picked.axis], 1)
        ):
            number = pull.element(picked.indices, At(()))
            pull.spots[picked], _ = pull.resolve(picked, number, ())
    names = [nest.fresh(f"%{hint}") for hint in ("row", "col", "rows", "cols")]
    row, col, rows, cols = map(symbol, names)
    with nest.loops(op.shape, range(len(batch)), "parallel") as at:
        fills: list[Fill] = []
        x, y = (_operand(pull, value, at, fills) for value in (op.x, op.y))
        if x is None or y is None or (loops and not fills and _is_small(op, x, y)):
            return False
        if turned := n == 1 or _better_turned(op, x):
            x, y, m, n = y.turned(), x.turned(), n, m
        pull.tiles[op] = Tile(tile, (-1, -2) if turned else (-2, -1), (row, col), width)
        with (
            nest.scope(*names, closed=True) as inside,
            nest.loop("serial", rows, "r") as r,
            nest.loop("parallel", cols, "c") as c,
        ):
            spot = (col + c, row + r) if turned else (row + r, col + c)
            index = (*at, *spot)
            for value, whole, buffer in places:
                element = pull.element(value, At(index))
                at = in_whole(whole, index) if isinstance(whole, Update) else index
                nest.store(buffer, flatten(at, buffer.type.shape), element)
        whole = (*fills, *inside)
        nest.put(Product(x, y, m, n, k, CHUNK, tile, width, tuple(names), whole))
    return True


def _is_small(op: Matmul, x: Operand, y: Operand) -> bool:
    """Whether plain loops, whose vectors lie along y, are done sooner than a product is called.

    The sums of an element are one chain over k in both.
    """
    m, n, k = *op.shape[-2:], op.x.shape[-1]
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int)) or k > CHUNK:
        return False
    if y.transposed:
        return m * n * k <= SMALLEST
    return m * n * k <= (SMALL if x.transposed or m > FEW else SMALL_ALONG)


def _better_turned(op: Matmul, x: Operand) -> bool:
    """Whether the product of the transposes has more lanes at work, and a small result to turn.

    The columns of x must lie in memory as rows. Each element is the same sum in the same order.
    The gradient of 6 filters of 5 x 5 by 50,176 places of f32 took 0.67 ms with 6 of 16 lanes at
    work, and 0.29 ms with 25 of 32 (an Intel Xeon with AVX-512).
    """
    m, n, k = *op.shape[-2:], op.x.shape[-1]
    if not (x.transposed and isinstance(m, int) and isinstance(n, int) and at_least(k, m * n)):
        return False
    return 4 * lanes_per_step(op.dtype, n, m) <= 3 * lanes_per_step(op.dtype, m, n)


def _operand(pull: Pull, x: Value, batch: Index, fills: list[Fill]) -> Operand | None:
    """A matrix in memory, or one that is filled."""
    found = matrix_in_memory(pull, x, batch)
    if found is None and (made := filled(pull, x, batch)) is not None:
        found, fill = made
        fills.append(fill)
    return found


def matrix_in_memory(pull: Pull, x: Value, batch: Index) -> Operand | None:
    """A matrix whose rows or columns lie at one distance from one another, if it is in memory."""
    nest = pull.nest
    names = [nest.fresh(f"%{hint}") for hint in ("i", "j")]
    i, j = map(symbol, names)
    with nest.scope(*names, closed=True) as inside:
        element = pull.element(x, At((*batch, i, j)))
    read = {s.name for s in inside if isinstance(s, Bind)}
    if not (isinstance(element, Load) and isinstance(element.memory, Buffer)):
        return None
    if not read.isdisjoint(symbols(element.offset)):  # rows that are picked
        return None
    view = view_of(element.memory, element.offset, dict(zip(names, x.shape[-2:], strict=True)))
    if view is None:
        return None
    (_, down), (_, across) = view.axes
    steps = ((False, across, down), (True, down, across))
    found = (Operand(element.memory, view.start, t, step) for t, near, step in steps if near == 1)
    return next(found, None)


def _one_product(body: Function) -> Matmul | None:
    """The product of a body that holds one, with an element-wise rest."""
    products = [op for op in body.ops if isinstance(op, Matmul)]
    if len(products) != 1 or any(isinstance(op, Reduction) for op in body.ops):
        return None
    return products[0]
