"""Which loops of a kernel for a GPU are unrolled: those that fold what they read from memory.

A lane waits for a load unless it has asked for the next ones before. Several turns of a fold that
are written one after the other begin with all of their loads; sums are added in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Word,
    statements,
)

from .transform import Transform
from .transforms.ahead import Ahead, loads_of
from .transforms.unroll import Unroll

FLIGHT = 16
"""Loads that a lane has asked for at once."""
FEW, FEWER = 1 << 16, 1 << 14
"""With no more lanes than so many, each keeps twice or four times as many on their way."""
PLAIN = 4
"""Operations of a fold that is mostly reading."""


def unrolled(kernel: LoopKernel) -> Iterator[Transform]:
    """The steps that unroll the folds of a kernel in blocks and lanes."""
    inside = statements(kernel.body)
    shared = {s.name for s in inside if isinstance(s, Local) and s.shared}
    for s in kernel.body:
        if isinstance(s, Loop):
            yield from _unrolled(s.body, shared, _lanes(s))


def _unrolled(body: Body, shared: set[str], lanes: float) -> Iterator[Transform]:
    for s in body:
        if not isinstance(s, Loop):
            continue
        words = sum(isinstance(t, Let) and isinstance(t.scalar, Word) for t in s.body)
        loads = loads_of(s.body, shared) if s.kind == "serial" and words <= PLAIN else []
        if loads:
            yield from _of_fold(s, loads, lanes)
        else:
            yield from _unrolled(s.body, shared, lanes)


def _of_fold(loop: Loop, loads: list[Load], lanes: float) -> Iterator[Transform]:
    n = loop.extent
    far = all(isinstance(x.memory, Buffer) for x in loads)
    flight = FLIGHT * (4 if lanes <= FEWER else 2 if lanes <= FEW else 1) // len(loads)
    enough = isinstance(n, int) and n // 2 >= flight >= 2
    if far and lanes <= FEW and enough:
        yield Ahead(loop.var, flight)
        return
    factor = max(1, FLIGHT // len(loads))
    factor = min(factor, n) if isinstance(n, int) else factor
    if factor > 1:
        yield Unroll(loop.var, factor)


def _lanes(loop: Loop) -> float:
    """Lanes of a launch; infinitely many where that is open."""
    found = 1
    for s in (loop, *(s for s in statements(loop.body) if isinstance(s, Loop))):
        if s.kind in ("block", "lane"):
            most = s.extent if isinstance(s.extent, int) else s.limit
            if most is None:
                return float("inf")
            found *= most
    return found
