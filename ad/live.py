"""What a piece of straight-line code needs, and what it reads from outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from dlvm.ir import TAPE, Op, Value


def live(ops: Sequence[Op], results: Iterable[Value]) -> tuple[Op, ...]:
    """The operations that the results need, and those with effects, in order."""
    needed = set(results)
    kept: list[Op] = []
    for op in reversed(ops):
        if any(r in needed for r in op.results) or op.is_effect:
            kept.append(op)
            needed.update(op.operands)
    return tuple(reversed(kept))


def apart(ops: Sequence[Op], sources: Iterable[Value]) -> tuple[list[Op], list[Op]]:
    """The operations that do not depend on the sources, and those that do, or touch a tape.

    A tape is read once, so it can't be made once for readers that run often.
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


def free(ops: Sequence[Op], results: Iterable[Value], bound: Collection[Value]) -> list[Value]:
    """The values from outside that operations and results read, in order of their first use."""
    made = {r for op in ops for r in op.results}
    read = dict.fromkeys(v for op in ops for v in op.operands)
    read.update(dict.fromkeys(results))
    return [v for v in read if v not in made and v not in bound]
