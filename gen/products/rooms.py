"""How many bytes a product takes for copies and tiles, at most: what ``Panels.room`` asks for.

Where there is no allocator, the memory of a call is known before it starts.
"""

from __future__ import annotations

from dlvm.ir import Dim
from dlvm.ir.dims import floordiv, maximum, minimum

from .macro_kernel import LINE, Plan
from .matrix_vector import COPIED_FROM
from .micro_kernel import NARROW


def room(plan: Plan, tile: tuple[int, int], m: Dim, n: Dim, k: Dim, tiled: bool) -> Dim:
    """For a product of these sizes, whose sums lie in tiles or in the result."""
    x_copied, y_copied = _copied(plan, m, n, k)
    height, width = tile
    across, tall = (width if tiled else plan.width), minimum(m, height)
    whole = 0 if not y_copied else _up(_panel(plan, minimum(n, across), k))
    if tiled:
        whole += _up(tall * width * plan.dtype.bytes)
    if not plan.copies_x or not x_copied:
        return whole + LINE
    if tiled:
        return whole + _up(_rows(plan, tall, k)) + LINE
    panel = _up(_panel(plan, minimum(n, plan.width), k))
    return maximum(whole, panel + _up(_rows(plan, minimum(m, plan.height), k))) + LINE


def _copied(plan: Plan, m: Dim, n: Dim, k: Dim) -> tuple[bool, bool]:
    """Whether x, and whether y, may be read through copies; of open sizes both may."""
    if plan.converts:
        return True, True
    x = plan.x_transposed and _large(plan, m, n, k)
    return x, plan.y_transposed or _large(plan, n, m, k)


def _large(plan: Plan, size: Dim, users: Dim, k: Dim) -> bool:
    if not (isinstance(size, int) and isinstance(users, int) and isinstance(k, int)):
        return True
    return users >= COPIED_FROM and k * size > plan.caches[0] // plan.stored.bytes


def _panel(plan: Plan, cols: Dim, k: Dim) -> Dim:
    """A copied panel of so many columns of y."""
    depth = _ceiling(minimum(k, plan.depth), plan.lanes) * plan.lanes
    return _ceiling(cols, plan.strip) * plan.strip * depth * plan.dtype.bytes


def _rows(plan: Plan, rows: Dim, k: Dim) -> Dim:
    """So many copied rows of x."""
    depth = minimum(maximum(k, 1), plan.depth)
    row = _ceiling(depth, plan.strip) * plan.strip + plan.lanes
    return _ceiling(rows, NARROW) * NARROW * row * plan.dtype.bytes


def _ceiling(size: Dim, unit: int) -> Dim:
    return floordiv(size + (unit - 1), unit)


def _up(size: Dim) -> Dim:
    return _ceiling(size, LINE) * LINE
