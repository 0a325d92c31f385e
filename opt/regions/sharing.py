"""Common subexpressions: what is computed twice from the same values is computed once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dlvm.ir import Function, Op, Value
from dlvm.ir.numerics import ROUNDING, licensed
from dlvm.ir.rewrite import Env, mapped, transform
from dlvm.ops import Matmul, Permute, transposed
from dlvm.ops.patterns import is_transpose
from dlvm.opt.facts import needed, pure, recomputes
from dlvm.passes import function_pass


@function_pass
def share(fn: Function) -> Function:
    """Merge operations of one class with the same attributes on the same operands.

    Regions count as the same when they are equal up to names, and operands of an operation that
    commutes in any order; B' A' is the transpose of A B. Each function and each region is a scope
    of its own. What acts, tapes and recomputation are left as they are.
    """
    seen: dict[Any, Op] = {}
    numbers = RegionNumbers()
    turning = needed(fn) if licensed(ROUNDING) and Matmul in fn.kinds else frozenset[Op]()

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if not pure(op) or recomputes(op):
            return None
        key = structural_key(op, env, numbers)
        first = seen.setdefault(key, op)
        if first is not op:
            return mapped(first.results, env)
        if isinstance(op, Matmul) and op in turning:
            operands = mapped(op.operands, env)
            if (twin := seen.get(_turned_key(*operands))) is not None:
                return (transposed(env.get(twin, twin)),)
            seen.setdefault(_turned_key(*map(_transpose, reversed(operands))), op)
        return None

    return transform(fn, visit)


Turned = tuple[Value, bool]
"""A matrix, and whether its transpose is meant."""


def _transpose(x: Value | Turned) -> Turned:
    value, turned = _flat(x)
    return value, not turned


def _flat(x: Value | Turned) -> Turned:
    """A value as it is, or the matrix whose transpose it is."""
    if isinstance(x, tuple):
        return x
    return (x.x, True) if isinstance(x, Permute) and is_transpose(x) else (x, False)


def _turned_key(x: Value | Turned, y: Value | Turned) -> Any:
    """Equal for products that are transposes of one another: of one, the factors turned about."""
    (a, p), (b, q) = _flat(x), _flat(y)
    return Matmul, "turned", id(a), p, id(b), q


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
    operands = map(id, mapped(op.operands, env))
    return facts(op, numbers), tuple(sorted(operands) if op.commutes else operands)
