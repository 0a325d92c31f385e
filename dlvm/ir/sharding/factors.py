"""Factors: which axes of the operands and results of an operation are cut together.

The rule of an operation is like that of an einsum. Each axis has a factor, which may stand in
several operands and results, or None where the operation needs all of the axis. What ranks share a
factor work on their piece of it; a factor that is in no result is folded, and partial results of
ranks are then folded, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlvm.base.errors import IRError

Places = tuple["int | None", ...]
Fill = float | int | bool | None


@dataclass(frozen=True)
class Factors:
    """The factor of each axis of operands and results.

    ``folds`` are those that are folded, with the word (``add``, ``max``) that joins what ranks
    have, or ``again`` where the operation folds partial results as it folds elements. ``fills`` are
    what elements beyond the end of a folded axis become in each operand, so that they change
    nothing. Operands of ``cleared`` have zeros there always, as what may stand there could be an
    error. Factors of ``even`` are cut only where they have pieces of one size everywhere. Operand
    ``start`` is what a fold begins from, once for all ranks.
    """

    operands: tuple[Places, ...]
    results: tuple[Places, ...]
    folds: Mapping[int, str] = field(default_factory=dict[int, str])
    fills: tuple[Fill, ...] = ()
    cleared: tuple[int, ...] = ()
    even: frozenset[int] = frozenset()
    start: int | None = None

    @property
    def places(self) -> tuple[Places, ...]:
        """Those of the operands, then of the results."""
        return (*self.operands, *self.results)


def stated(rule: str, name: str) -> Callable[[Any], Factors]:
    """The method of an operation that states its rule as an einsum: ``ij,jk->ik``.

    What stands in operands alone is summed over, and ``*`` stands for an axis that must be whole.
    """
    sides = rule.replace(" ", "").split("->")
    if len(sides) != 2 or not all(c.isalpha() or c in "*," for side in sides for c in side):
        raise IRError(
            f"the operation {name}: sharding={rule!r}: expected the axes of operands and results",
            remedy="name each axis by a letter, as for an einsum",
        )
    given, found = (
        tuple(tuple(None if c == "*" else ord(c) for c in places) for places in side.split(","))
        for side in sides
    )
    kept = {f for places in found for f in places}
    folds = {f: "add" for places in given for f in places if f is not None and f not in kept}

    def factors(op: Any) -> Factors:
        values = (*op.operands, *op.results)
        ranks = [v.type.rank for v in values]
        if [len(p) for p in (*given, *found)] != ranks or len(given) != len(op.operands):
            raise IRError(
                f"the operation {name}: sharding={rule!r} has other axes than"
                f" {', '.join(str(v.type) for v in values)}",
                remedy="write one letter for each axis of each operand and result",
            )
        return Factors(given, found, folds, (0,) * len(given) if folds else ())

    return factors


def all_of(rank: int, whole: Sequence[int] = ()) -> Places:
    """A factor for each axis, but for those that must be whole."""
    return tuple(None if axis in whole else axis for axis in range(rank))


def none_of(ranks: Sequence[int]) -> tuple[Places, ...]:
    """Everything whole."""
    return tuple((None,) * rank for rank in ranks)
