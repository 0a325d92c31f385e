"""Which loops of a kernel for a GPU are unrolled: those that fold what they read from memory.

A lane waits for a load unless it has asked for the next ones before. Several turns of a fold that
are written one after the other begin with all of their loads; sums are added in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator

from dlvm.cost import WEIGHTS
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Store,
    Word,
    accesses,
    statements,
)
from dlvm.ir.sizes.dims import symbols

from .transform import Transform
from .transforms.gpu.ahead import Ahead, loads_of
from .transforms.unroll import Unroll

FLIGHT = 16
"""Loads that a lane has asked for at once."""
VECTORS = 8
"""Loads of 16 bytes that a lane has asked for at once where it copies."""
FEW, FEWER = 1 << 16, 1 << 14
"""With no more lanes than so many, each keeps twice or four times as many on their way."""
PLAIN, MOST, SOME = 4, 96, 4
"""Instructions of a turn that is mostly reading, and those up to which ``SOME`` are written out."""


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
        serial, work = s.kind == "serial", _instructions(s.body)
        if serial and (width := _vector(s.body)) > 1:
            copies = _instructions(tuple(statements(s.body))) == 0
            yield from _some(s, VECTORS if copies else max(1, SOME // width))
            continue
        loads = loads_of(s.body, shared) if serial else []
        if loads and work <= PLAIN:
            yield from _of_fold(s, loads, lanes)
        elif work <= MOST and (loads or (serial and _is_element_by_element(s.body))):
            yield from _some(s, SOME)
        else:
            yield from _unrolled(s.body, shared, lanes)


def _vector(body: Body) -> int:
    """How many elements an iteration takes at once, if it does nothing else."""
    loops = [s for s in body if isinstance(s, Loop)]
    alone = len(loops) == 1 and loops[0].kind == "vector"
    plain = alone and all(isinstance(s, Loop | Define) for s in body)
    return loops[0].width if plain else 1


def _instructions(body: Body) -> int:
    words = [s.scalar.word for s in body if isinstance(s, Let) and isinstance(s.scalar, Word)]
    return sum(WEIGHTS.get(word, 1) for word in words)


def _is_element_by_element(body: Body) -> bool:
    """Whether turns read buffers and write others."""
    touched = list(accesses(body))
    stores = [x for x in touched if isinstance(x, Store)]
    loads = [x for x in touched if isinstance(x, Load)]
    apart = {x.memory.name for x in stores}.isdisjoint(x.memory.name for x in loads)
    plain = all(isinstance(s, Let | Store | Define) for s in body)
    return plain and apart and bool(stores) and not any(x.where for x in touched)


def _of_fold(loop: Loop, loads: list[Load], lanes: float) -> Iterator[Transform]:
    n = loop.extent
    far = all(isinstance(x.memory, Buffer) for x in loads)
    flight = FLIGHT * (4 if lanes <= FEWER else 2 if lanes <= FEW else 1) // len(loads)
    enough = isinstance(n, int) and n // 2 >= flight >= 2
    if far and lanes <= FEW and enough:
        yield Ahead(loop.var, flight)
        return
    yield from _some(loop, max(1, FLIGHT // len(loads)))


def _some(loop: Loop, factor: int) -> Iterator[Transform]:
    n = loop.extent
    factor = min(factor, n) if isinstance(n, int) else factor
    closed = all(name.startswith("%") for name in symbols(n))  # else the rest is not provable
    few = not isinstance(n, int) and loop.limit is not None
    if factor > 1 and closed and not few:
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
