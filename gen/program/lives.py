"""The buffers of a program: their bytes, their lives, and which of them hold the peak.

A buffer lives from the first to the last step that touches it, as in the plan of the arena.
Results live from the call on. Every function that is entered has an arena, and a peak, of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dlvm.base.errors import Origin
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute

from .memory import ordered
from .steps import Given, Launch, Program, Step, Storage


@dataclass(frozen=True, slots=True)
class Life:
    """A buffer: the steps of its function that first and last touch it, and the lines that made it.

    ``peak`` says that it is alive where its function needs the most memory.
    """

    name: str
    function: str
    bytes: int | None
    first: int
    last: int
    steps: int
    lines: tuple[Origin, ...]
    peak: bool


def lives(program: Program, sizes: Mapping[str, Mapping[str, int]]) -> list[Life]:
    """The buffers of each function, with the sizes of its symbols."""
    parts = (program, *program.callees)
    return [life for part in parts for life in _of_function(part, sizes.get(part.name, {}))]


def _of_function(program: Program, sizes: Mapping[str, int]) -> Iterator[Life]:
    intervals, steps = ordered(program)
    spans = {s: (i.first, i.last) for s, i in intervals.items()}
    if not program.inner:
        own = (v.storage for v in program.results if v.storage not in program.donated)
        spans |= {s: (0, len(steps) - 1) for s in own if isinstance(s.place, Given)}
    known = {s: _bytes(s.bytes, sizes) for s in spans}
    most = _fullest(spans, known)
    for storage, (first, last) in spans.items():
        yield Life(
            storage.name,
            program.name,
            known[storage],
            first,
            last,
            len(steps),
            _made_by(storage, steps),
            first <= most <= last,
        )


def _bytes(size: Dim, sizes: Mapping[str, int]) -> int | None:
    found = substitute(size, sizes)
    return found if isinstance(found, int) else None


def _fullest(spans: Mapping[Storage, tuple[int, int]], known: Mapping[Storage, int | None]) -> int:
    """The step at which buffers of the most bytes are alive."""

    def alive(at: int) -> int:
        return sum(known[s] or 0 for s, (first, last) in spans.items() if first <= at <= last)

    return max({first for first, _ in spans.values()}, key=alive, default=0)


def _made_by(storage: Storage, steps: Sequence[Step]) -> tuple[Origin, ...]:
    """The lines of the first step that writes a buffer; those behind a copy of another buffer."""
    for position, step in enumerate(steps):
        if all(v.storage is not storage for v in step.writes):
            continue
        if isinstance(step, Launch):
            return step.origins
        sources = [v.storage for v in step.reads if v.storage is not storage]
        before = (lines for s in sources if (lines := _made_by(s, steps[:position])))
        return next(before, ())
    return ()
