"""Addition of cotangents, which keeps sparse sums sparse and masks outermost.

A *deposit* is a cotangent that is zero but for what was written into it, ``scatter_add(0, i, u)``
or ``update(0, y)``; adding a deposit to ``a`` writes into ``a``. A *mask* is ``select(c, g, 0)``. A
mask stays outermost when an element-wise adjoint is applied to it, so a derivative that is infinite
where the mask is false is never multiplied by the zero there. Moves and sums do not disturb a mask
below them: the mask is moved along with the elements when an element-wise adjoint asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from dlvm.ir import BOOL, I32, I64, Part, Value, splat, zeros
from dlvm.ir.sizes.dims import at_least, product
from dlvm.ops import (
    Add,
    And,
    Cast,
    Exchange,
    Gather,
    IndexMap,
    Less,
    Max,
    Not,
    Or,
    ScatterAdd,
    ScatterSet,
    Select,
    Slice,
    Sum,
    Update,
    is_splat,
)

WINDOWS = 8
"""How many windows into zeros are summed in one sweep, each of which every element may ask."""
Mask = tuple[Value, Value]
Move = Callable[[Value | None], Value | None]


def added(old: Value | None, new: Value | None) -> Value | None:
    """The sum of two cotangents; None stands for zero."""
    if old is None or new is None:
        return new if old is None else old
    return accumulate(old, new)


def accumulate(old: Value, new: Value) -> Value:
    """``old + new``: zeros are dropped, and a deposit is written into the other summand."""
    if is_splat(old, 0):
        return new
    if is_splat(new, 0):
        return old
    if _padding(old) and _padding(new):
        return old + new
    for base, deposit in ((old, new), (new, old)):
        if (written := poured(base, deposit)) is not None:
            return written
    return old + new


def accumulate_masked(old: Value, new: Value) -> Value:
    """``old + new`` under the union of their masks, for an element-wise adjoint to read."""
    if is_splat(old, 0) or is_splat(new, 0):
        return accumulate(old, new)
    one = mask_of(old)
    other = None if one is None else mask_of(new)
    if one is None or other is None:
        return accumulate(old, new)
    if one[0] is other[0]:
        return Select(one[0], one[1] + other[1], zeros(old.type))
    return Select(Or(one[0], other[0]), accumulate(old, new), zeros(old.type))


def _padding(dy: Value) -> bool:
    """Whether a cotangent is a sum of few large windows into zeros, added in one sweep.

    Each is a window without gaps that covers at least half of its tensor.
    """
    for _ in range(WINDOWS):
        if isinstance(dy, Update):
            return _large_window(dy)
        if not (isinstance(dy, Add) and isinstance(dy.y, Update) and _large_window(dy.y)):
            return False
        dy = dy.x
    return False


def _large_window(dy: Update) -> bool:
    large = at_least(2 * product(dy.y.shape), product(dy.shape))
    return is_splat(dy.x, 0) and set(dy.steps) <= {1} and large


def poured(base: Value, deposit: Value) -> Value | None:
    """``base`` with a deposit written into it, or None if ``deposit`` is not a deposit."""
    if isinstance(deposit, Update) and is_splat(deposit.x, 0):
        y, starts, steps = deposit.y, deposit.starts, deposit.steps
        if _cleared(base, deposit):
            return Update(base.x, y, starts, steps)
        return Update(base, Slice(base, starts, y.shape, steps) + y, starts, steps)
    links: list[ScatterAdd] = []
    while isinstance(deposit, ScatterAdd):
        links.append(deposit)
        deposit = deposit.x
    if not links or not is_splat(deposit, 0):
        return None
    for link in reversed(links):
        base = ScatterAdd(base, link.indices, link.updates, link.axis, link.batch, link.mode)
    return base


def _cleared(base: Value, deposit: Update) -> TypeGuard[Update]:
    """Whether zeros were written where a deposit is to be added."""
    if not isinstance(base, Update) or not is_splat(base.y, 0):
        return False
    same = (base.starts, base.steps, base.y.shape)
    return same == (deposit.starts, deposit.steps, deposit.y.shape)


def mask_of(dy: Value) -> Mask | None:
    """Where a cotangent may differ from zero, and a value equal to it there; else None."""
    inner, move = _below(dy) or (None, None)
    if inner is None or move is None:
        return None
    moves = [move]
    value = inner if isinstance(dy, Select) else dy
    while (found := _below(inner)) is not None:
        inner, move = found
        moves.append(move)
    condition: Value | None = None
    for move in reversed(moves):
        condition = move(condition)
    return None if condition is None else (condition, value)


def _below(dy: Value) -> tuple[Value, Move] | None:
    """What a cotangent was masked, moved or summed from, and its mask from the mask of that."""
    match dy:
        case Select(c, x, zero) if is_splat(zero, 0):
            return x, lambda inner: c if inner is None else And(c, inner)
        case Select(c, zero, x) if is_splat(zero, 0):
            return x, lambda inner: Not(c) if inner is None else And(Not(c), inner)
        case _:
            found = _moved(dy)
    if found is None:
        return None
    x, move = found
    return x, lambda inner: None if inner is None else move(inner)


def _moved(dy: Value) -> tuple[Value, Callable[[Value], Value]] | None:
    match dy:
        case IndexMap() if dy.everywhere:
            return dy.operands[0], lambda c: dy.rebuild((c,))
        case Gather(x, indices):
            return x, lambda c: dy.rebuild((c, indices))
        case Sum(x):
            return x, lambda c: _positive(Max(Cast(c, I32), dy.axes))
        case Update(zero, y) if is_splat(zero, 0):
            return y, lambda c: dy.rebuild((_never(dy), c))
        case Update(x, zero) | ScatterSet(x, _, zero) if is_splat(zero, 0):
            return x, lambda c: dy.rebuild((c, *dy.operands[1:-1], _never(zero)))
        case Part(Exchange(x, indices, zero) as op, i) if is_splat(zero, 0):
            return x, lambda c: op.rebuild((c, indices, _never(zero))).results[i]
        case ScatterAdd(zero, indices, u) if is_splat(zero, 0):
            none = zeros(dy.type.with_dtype(I64))
            return u, lambda c: _positive(dy.rebuild((none, indices, Cast(c, I64))))
        case _:
            return None


def _positive(x: Value) -> Value:
    return Less(zeros(x.type), x)


def _never(like: Value) -> Value:
    return splat(False, like.type.with_dtype(BOOL))


def masked(condition: Value, x: Value) -> Value:
    """``select(condition, x, 0)``; a mask that ``x`` has is merged into the condition."""
    inner = mask_of(x)
    if inner is None:
        return Select(condition, x, zeros(x.type))
    if inner[0] is not condition:
        condition = And(condition, inner[0])
    return Select(condition, inner[1], zeros(x.type))


def under_cover(cover: Value | None, x: Value) -> Value:
    """A cotangent that a callee returned, under the mask that the callee returned with it."""
    return x if cover is None else Select(cover, x, zeros(x.type))
