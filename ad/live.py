"""Analyses of straight-line code: what is live, what depends on given values, what is free."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dlvm.ir import TAPE, Op, Value


def live(ops: Sequence[Op], results: Iterable[Value]) -> tuple[Op, ...]:
    """The operations that the results need and those with effects, in program order."""
    needed = set(results)
    kept: list[Op] = []
    for op in reversed(ops):
        if any(r in needed for r in op.results) or op.is_effect:
            kept.append(op)
            needed.update(op.operands)
    return tuple(reversed(kept))


def partition(ops: Sequence[Op], sources: Iterable[Value]) -> tuple[list[Op], list[Op]]:
    """Splits operations into those that do not depend on the sources, and the rest.

    Operations that give a tape are always in the rest: a tape can be read only once, so a tape made
    once could not serve several readers.
    """
    moving = set(sources)
    known: list[Op] = []
    rest: list[Op] = []
    for op in ops:
        taped = any(t.dtype == TAPE for t in op.result_types)
        if not taped and moving.isdisjoint(op.operands):
            known.append(op)
        else:
            rest.append(op)
            moving.update(op.results)
    return known, rest


def free_values(
    ops: Sequence[Op], results: Iterable[Value], bound: Collection[Value]
) -> list[Value]:
    """The free values of the code: those it reads but does not define, in order of first use.

    Values in ``bound`` are left out.
    """
    made = {r for op in ops for r in op.results}
    read = dict.fromkeys(v for op in ops for v in op.operands)
    read.update(dict.fromkeys(results))
    return [v for v in read if v not in made and v not in bound]
