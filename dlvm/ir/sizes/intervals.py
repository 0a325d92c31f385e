"""Arithmetic of intervals, whose ends may be infinite."""

from __future__ import annotations

import math
from typing import TypeAlias

Range: TypeAlias = tuple[float, float]


def power(r: Range, p: int) -> Range:
    """``p`` times a factor of one interval: no even power is negative."""
    if p == 1:
        return r
    out: Range = (1, 1)
    for _ in range(p):
        out = times(out, r)
    return (max(out[0], 0), out[1]) if p % 2 == 0 else out


def quotient(a: Range, b: Range) -> Range:
    """``a // b`` where every b is positive."""
    corners = [_floor(x, y) for x in a for y in b]
    return min(corners), max(corners)


def _floor(x: float, y: float) -> float:
    """``x // y`` of interval ends; a finite number divided by infinity is 0, or just below it."""
    if math.isinf(x):
        return x
    return -(x < 0) if math.isinf(y) else x // y


def times(a: Range, b: Range) -> Range:
    """All products of two intervals."""
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(corners), max(corners)
