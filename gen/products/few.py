"""Products of few rows or columns: when they are summed by themselves, and when never or always."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import Dim

from .macro_kernel import Plan
from .matrix_vector import COPIED_FROM

LONG = 8
"""Steps of k for each of few rows or columns that are worth giving each its sums one by one."""


@dataclass(frozen=True, slots=True)
class Few:
    """How many rows are always few, and of how large a matrix several are: bytes, 0 of none."""

    always: int
    large: int

    @staticmethod
    def rows(plan: Plan) -> Few:
        """Rows of x, which all read y."""
        return Few(1, plan.panel) if plan.y_transposed else Few(2, plan.caches[2])

    @staticmethod
    def columns(plan: Plan) -> Few:
        """Columns of y, which all read x."""
        return Few(1, plan.panel >> 2 if plan.x_transposed else 0)

    def may_be(self, users: Dim, size: Dim, k: Dim, plan: Plan) -> bool:
        """Whether so many rows may be few; sizes may be open."""
        if not isinstance(users, int) or users <= self.always:
            return True
        if not self.large or users >= COPIED_FROM:
            return False
        known = isinstance(size, int) and isinstance(k, int)
        return not known or size * k * plan.stored.bytes > self.large


def ways_of(plan: Plan, m: Dim, n: Dim, k: Dim, tiled: bool) -> str:
    """``thin`` if a product of these sizes has few rows or columns, ``wide`` if not, or ``both``.

    As far as sizes are known; one whose sums lie in tiles, or which copies, never has.
    """
    if tiled or plan.converts or any(plan.filled):
        return "wide"
    sides = (m, n, Few.rows(plan)), (n, m, Few.columns(plan))
    if any(isinstance(users, int) and users <= few.always for users, _, few in sides):
        return "thin"
    return "both" if any(few.may_be(u, size, k, plan) for u, size, few in sides) else "wide"
