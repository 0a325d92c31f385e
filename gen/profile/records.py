"""What a profile found, as records, as a table, as plain data and as a time line for Perfetto."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dlvm.base.brief import shortened
from dlvm.base.errors import Origin
from dlvm.base.html import escape, table
from dlvm.base.units import duration, size
from dlvm.gen.program.lives import Life

BETWEEN = "between kernels"
HEADS = ("step", "time", "spread", "share", "runs", "each", "flops", "bytes", "roofline", "lines")
FEW = 12
"""Buffers that a table shows, the largest ones."""


@dataclass(frozen=True, slots=True)
class Part:
    """One place that runs a kernel, a copy or Python: its share of one call.

    ``seconds`` is the least of all calls, ``usual`` the median. Kernels that are ``alike`` compute
    the same on other buffers. ``flops`` and ``bytes`` are those of all ``runs``; None where they
    depend on what is computed. ``roof`` is the time that the machine's model allows for them,
    ``bound`` what limits it.
    """

    name: str
    function: str
    seconds: float
    runs: int
    lines: tuple[Origin, ...] = ()
    flops: int | None = None
    bytes: int | None = None
    roof: float | None = None
    bound: str = ""
    usual: float = 0.0
    alike: str = ""

    @property
    def spread(self) -> float:
        """How much longer than the least time the usual one is."""
        return max(0.0, self.usual / self.seconds - 1) if self.seconds else 0.0

    @staticmethod
    def joined(parts: Sequence[Part]) -> Part:
        """Equal kernels as one part; the name of the slowest, and how many there are."""
        first, *rest = parts
        if not rest:
            return first
        lines = tuple(dict.fromkeys(line for part in parts for line in part.lines))

        def total(name: str) -> Any:
            every = [getattr(part, name) for part in parts]
            return None if None in every else sum(every)

        sums = {n: total(n) for n in ("seconds", "usual", "runs", "flops", "bytes", "roof")}
        return replace(first, name=f"{first.name} and {len(rest)} like it", lines=lines, **sums)

    @property
    def roofline(self) -> float | None:
        """The share of its roofline that it reaches: 1 is as fast as the model allows."""
        return self.roof / self.seconds if self.roof is not None and self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        names = (
            "name",
            "function",
            "seconds",
            "usual",
            "runs",
            "flops",
            "bytes",
            "roofline",
            "bound",
        )
        return {**{n: getattr(self, n) for n in names}, "lines": [str(o) for o in self.lines]}


@dataclass(frozen=True, slots=True)
class Event:
    """One run of a part: when it started and how long it took, in seconds of the call."""

    part: Part
    start: float
    seconds: float


@dataclass(frozen=True, slots=True, repr=False)
class Profile:
    """Where the time and the memory of one call go; ``print`` shows it as two tables.

    ``seconds`` is the time of the fastest of ``calls`` measured on one core, ``ordinary`` that of
    the fastest call without timers, on the threads that calls use. ``parts`` have the least time of
    each over all calls, the slowest first, so that what disturbed one call says nothing;
    ``between`` is the time of loops, branches and functions that are entered. ``buffers`` are in
    order of their bytes; ``events`` are the first runs one by one.
    """

    name: str
    target: str
    calls: int
    seconds: float
    ordinary: float
    between: float
    parts: tuple[Part, ...]
    buffers: tuple[Life, ...]
    arena: int | None
    events: tuple[Event, ...] = ()
    hints: tuple[str, ...] = ()
    """What the source could state otherwise, such as a Python loop that was written out."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without the time line."""
        names = ("name", "target", "calls", "seconds", "ordinary", "between", "arena", "hints")
        buffers = [_buffer(life) for life in self.buffers]
        parts = [part.to_dict() for part in self.parts]
        return {**{n: getattr(self, n) for n in names}, "parts": parts, "buffers": buffers}

    def trace(self) -> dict[str, Any]:
        """The first runs as a time line in the format that Perfetto and Chrome read."""
        return {
            "displayTimeUnit": "ns",
            "traceEvents": [
                {
                    "name": " ".join([e.part.name, *map(str, e.part.lines)]),
                    "ph": "X",
                    "ts": e.start * 1e6,
                    "dur": e.seconds * 1e6,
                    "pid": 1,
                    "tid": 1,
                    "args": {"function": e.part.function, "flops": e.part.flops},
                }
                for e in self.events
            ],
        }

    def __str__(self) -> str:
        head = (
            f"{self.name}: {duration(self.seconds)} on one core, the fastest of {self.calls} calls"
        )
        head += f"; {duration(self.ordinary)} without timers on the usual threads"
        tables = (*_aligned(self.rows()), self.peak(), *_aligned(self.memory_rows()))
        return "\n".join([head, *tables, *(f"hint: {hint}" for hint in self.hints)])

    def __repr__(self) -> str:
        return shortened(str(self))

    def peak(self) -> str:
        """A line that says how much memory a call takes, and which lines made most of it."""
        held = [b for b in self.buffers if b.peak and b.function == self.name]
        lines = dict.fromkeys(str(o) for b in held[:1] for o in b.lines)
        by = f", most of it made at {', '.join(lines)}" if lines else ""
        return f"memory at the peak: {size(sum(b.bytes or 0 for b in held))}{by}"

    def _repr_html_(self) -> str:
        tables = (table(rows) for rows in (self.rows(), self.memory_rows()))
        head, hints = str(self).partition("\n")[0], (f"hint: {hint}" for hint in self.hints)
        return "".join((f"<p>{escape(head)}</p>", *tables, *(f"<p>{escape(h)}</p>" for h in hints)))

    def rows(self) -> list[tuple[str, ...]]:
        """The table of times, with its heads."""
        alike: dict[tuple[str, str], list[Part]] = {}
        for i, part in enumerate(self.parts):
            alike.setdefault((part.function, part.alike or str(i)), []).append(part)
        joined = sorted(map(Part.joined, alike.values()), key=lambda part: -part.seconds)
        rows = [HEADS, *map(self._row, joined)]
        share = f"{self.between / self.seconds:.1%}" if self.seconds else ""
        return [*rows, (BETWEEN, duration(self.between), "", share, "", "", "", "", "", "")]

    def _row(self, part: Part) -> tuple[str, ...]:
        reached = part.roofline
        return (
            part.name,
            duration(part.seconds),
            f"+{part.spread:.0%}",
            f"{part.seconds / self.seconds:.1%}" if self.seconds else "",
            str(part.runs),
            duration(part.seconds / part.runs) if part.runs else "",
            "?" if part.flops is None else f"{part.flops:.3g}" if part.flops else "0",
            "?" if part.bytes is None else size(part.bytes),
            "" if reached is None else f"{reached:.0%} {part.bound}",
            ", ".join(dict.fromkeys(map(str, part.lines))),
        )

    def memory_rows(self) -> list[tuple[str, ...]]:
        """The table of the largest buffers, with its heads."""
        rows = [("buffer", "bytes", "function", "life", "at the peak", "made at")]
        for life in self.buffers[:FEW]:
            rows.append(
                (
                    life.name,
                    "?" if life.bytes is None else size(life.bytes),
                    life.function,
                    f"steps {life.first} to {life.last} of {life.steps}",
                    "peak" if life.peak else "",
                    ", ".join(map(str, life.lines)),
                )
            )
        if len(self.buffers) > FEW:
            rows.append((f"and {len(self.buffers) - FEW} smaller ones", "", "", "", "", ""))
        return rows


def _buffer(life: Life) -> dict[str, Any]:
    names = ("name", "function", "bytes", "first", "last", "steps", "peak")
    return {**{n: getattr(life, n) for n in names}, "lines": [str(o) for o in life.lines]}


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(cells).rstrip()
