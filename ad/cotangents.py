"""Arithmetic of cotangents: sums that stay sparse where they can, and masks that stay outside.

A *deposit* is a cotangent that is zero but for what was written into it, ``scatter_add(0, i, u)``
or ``update(0, y)``; adding one to ``a`` writes into ``a``. A *mask* is ``select(c, g, 0)``; it is
kept outermost while it passes through element-wise adjoints, so that a derivative that is
infinite where it is not selected never meets the zero.
"""

from __future__ import annotations

from dlvm.ir import Value, zeros
from dlvm.ops import And, Not, ScatterAdd, Select, Slice, Update, is_splat

Mask = tuple[Value, Value]


def added(old: Value | None, new: Value | None) -> Value | None:
    """The sum of two cotangents, None being zero."""
    if old is None or new is None:
        return new if old is None else old
    return accumulate(old, new)


def accumulate(old: Value, new: Value) -> Value:
    """``old + new``: zeros vanish, deposits are written into the other, equal masks stay."""
    if is_splat(old, 0):
        return new
    if is_splat(new, 0):
        return old
    for base, deposit in ((old, new), (new, old)):
        if (written := poured(base, deposit)) is not None:
            return written
    match old, new:
        case Select(c, x, zero), Select(d, y, other) if (
            c is d and is_splat(zero, 0) and is_splat(other, 0)
        ):
            return Select(c, x + y, zero)
        case _:
            return old + new


def poured(base: Value, deposit: Value) -> Value | None:
    """``base`` with a deposit written into it; None where it is no deposit."""
    if isinstance(deposit, Update) and is_splat(deposit.x, 0):
        y, starts, steps = deposit.y, deposit.starts, deposit.steps
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


def mask_of(dy: Value) -> Mask | None:
    """The condition and the value of a masked cotangent, either way round."""
    match dy:
        case Select(c, x, zero) if is_splat(zero, 0):
            return c, x
        case Select(c, zero, y) if is_splat(zero, 0):
            return Not(c), y
        case _:
            return None


def masked(condition: Value, x: Value) -> Value:
    """``select(condition, x, 0)``, with a mask that ``x`` has already joined to it."""
    inner = mask_of(x)
    if inner is None:
        return Select(condition, x, zeros(x.type))
    if inner[0] is not condition:
        condition = And(condition, inner[0])
    return Select(condition, inner[1], zeros(x.type))
