"""Common subexpressions: what is computed twice from the same values is computed once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlvm.ir import Function, Op, Value
from dlvm.ir.rewrite import Env, mapped, transform
from dlvm.opt.facts import pure, recomputes
from dlvm.passes import function_pass


@function_pass
def share(fn: Function) -> Function:
    """Merge operations of one class with the same attributes on the same operands.

    Regions count as the same when they are equal up to names. Each function and each region
    is a scope of its own. What acts, tapes and recomputation are left as they are.
    """
    seen: dict[Any, Op] = {}
    numbers = RegionNumbers()

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if not pure(op) or recomputes(op):
            return None
        key = structural_key(op, env, numbers)
        if (first := seen.setdefault(key, op)) is op:
            return None
        return mapped(first.results, env)

    return transform(fn, visit)


class RegionNumbers:
    """One number for all regions that are equal up to names."""

    def __init__(self) -> None:
        self.of_key: dict[Any, int] = {}
        self.of_region: dict[Function, int] = {}

    def __call__(self, region: Function) -> int:
        """The number of a region; regions inside come first."""
        if region not in self.of_region:
            key = self._key(region)
            self.of_region[region] = self.of_key.setdefault(key, len(self.of_key))
        return self.of_region[region]

    def _key(self, region: Function) -> Any:
        place: dict[Value, int] = {}
        for value in (*region.params, *(r for op in region.ops for r in op.results)):
            place[value] = len(place)
        types = tuple(p.type for p in region.params)
        ops = tuple((facts(op, self), tuple(place[v] for v in op.operands)) for op in region.ops)
        return types, ops, tuple(place[r] for r in region.results)


def facts(op: Op, numbers: RegionNumbers) -> Any:
    """All that an operation is besides its operands."""
    return (*op.facts(), *map(numbers, op.regions.values())) if op.holds_regions else op.facts()


def structural_key(op: Op, env: Env, numbers: RegionNumbers) -> Any:
    """Equal for operations that compute the same from the same substituted operands."""
    return facts(op, numbers), tuple(map(id, mapped(op.operands, env)))
