"""How many bytes a product takes for copies and tiles, at most: what ``Panels.room`` asks for.

Where there is no allocator, the memory of a call is known before it starts.
"""

from __future__ import annotations

from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv, maximum, minimum

from .macro_kernel import LINE, PANEL_STEPS, Plan
from .matrix_vector import COPIED_FROM
from .micro_kernel import NARROW
from .panels import NEAR_COPIED_FROM
from .sources import SOME, STACK_BYTES


def room(
    plan: Plan,
    tile: tuple[int, int],
    m: Dim,
    n: Dim,
    k: Dim,
    tiled: bool,
    units: tuple[int, ...] = (1, 1),
) -> Dim:
    """For a product of these sizes, whose sums lie in tiles or in the result."""
    return _copies(plan, tile, m, n, k, tiled) + _pieces(plan, tile, k, units)


def _pieces(plan: Plan, tile: tuple[int, int], k: Dim, units: tuple[int, ...]) -> Dim:
    """Of what is computed before it is copied; one operand after the other."""
    depth = minimum(k, PANEL_STEPS)
    longest = (
        (max(plan.height, tile[0]) if plan.x_transposed else depth),
        (depth if plan.y_transposed else max(plan.width, tile[1])),
    )
    most: Dim = 0
    for filled, elements, unit, turned in zip(
        plan.filled, longest, units, (False, plan.y_transposed), strict=True
    ):
        if filled:
            line = (elements + 2 * unit) * plan.stored.bytes
            rows = plan.strip if turned else SOME
            most = maximum(most, maximum(rows * line, STACK_BYTES) + 2 * LINE)
    return most


def _copies(plan: Plan, tile: tuple[int, int], m: Dim, n: Dim, k: Dim, tiled: bool) -> Dim:
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
    x = plan.x_transposed and _large(plan, m, n, k, COPIED_FROM)
    far = not isinstance(n, int) or not isinstance(k, int) or k * n > _elements(plan, 2)
    y = plan.y_transposed or _large(plan, n, m, k, COPIED_FROM if far else NEAR_COPIED_FROM)
    return x or plan.filled[0], y or plan.filled[1]


def _elements(plan: Plan, cache: int) -> int:
    """How many elements of an operand a cache holds."""
    return plan.caches[cache] // plan.stored.bytes


def _large(plan: Plan, size: Dim, users: Dim, k: Dim, least: int) -> bool:
    if not (isinstance(size, int) and isinstance(users, int) and isinstance(k, int)):
        return True
    return users >= least and k * size > _elements(plan, 0)


def _panel(plan: Plan, cols: Dim, k: Dim) -> Dim:
    """A copied panel of so many columns of y."""
    depth = _ceiling(minimum(k, PANEL_STEPS), plan.lanes) * plan.lanes
    return _ceiling(cols, plan.strip) * plan.strip * depth * plan.dtype.bytes


def _rows(plan: Plan, rows: Dim, k: Dim) -> Dim:
    """So many copied rows of x."""
    depth = minimum(maximum(k, 1), PANEL_STEPS)
    row = _ceiling(depth, plan.strip) * plan.strip + plan.lanes
    return _ceiling(rows, NARROW) * NARROW * row * plan.dtype.bytes


def _ceiling(size: Dim, unit: int) -> Dim:
    return floordiv(size + (unit - 1), unit)


def _up(size: Dim) -> Dim:
    return _ceiling(size, LINE) * LINE
