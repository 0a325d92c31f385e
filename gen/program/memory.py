"""The arena: one block of memory for all that lives only during a call, planned ahead.

Storages that are never in use at the same time share addresses: the branches of a condition,
the trips of a loop, the steps of a chain. Sizes may hold symbols, so offsets are expressions;
a hole is reused where it is provably large enough for every value of the symbols.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import Dim
from dlvm.ir.sizes.dims import Expr, at_least, floordiv

from .steps import Program, Step, Storage

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Arena:
    """Where each storage without another place lies, in bytes, and how much there is."""

    offsets: dict[Storage, Dim]
    bytes: Dim


@dataclass(slots=True)
class Interval:
    """The first and last step, in order of the text, between which a storage is in use."""

    first: int
    last: int


def plan(program: Program, alignment: int = ALIGNMENT) -> Arena:
    """Place every storage by best fit, in the order in which they come into use.

    Each storage starts at a multiple of ``alignment`` bytes.
    """
    lifetimes = intervals(program)
    holes = Holes()
    offsets: dict[Storage, Dim] = {}
    ending: dict[int, list[Storage]] = {}
    starts: dict[int, list[Storage]] = {}
    for storage, interval in lifetimes.items():
        starts.setdefault(interval.first, []).append(storage)
        ending.setdefault(interval.last, []).append(storage)
    for position in range(1 + max(ending, default=-1)):
        for storage in starts.get(position, ()):
            offsets[storage] = holes.take(padded(storage, alignment))
        for storage in ending.get(position, ()):
            holes.give(offsets[storage], padded(storage, alignment))
    aligned = {storage: align(offset, alignment) for storage, offset in offsets.items()}
    return Arena(aligned, align(holes.end, alignment))


def padded(storage: Storage, alignment: int = ALIGNMENT) -> Dim:
    """Bytes from one aligned storage to the next.

    Where no multiple of the alignment can be told, there is room to align the next one: so
    sizes stay polynomials, which can be compared, and only offsets are rounded.
    """
    size = storage.bytes
    if isinstance(size, int):
        return size + -size % alignment
    return size if _multiple(size, alignment) else size + (alignment - 1)


def align(offset: Dim, alignment: int = ALIGNMENT) -> Dim:
    """The offset rounded up to the alignment."""
    return (
        offset
        if _multiple(offset, alignment)
        else floordiv(offset + (alignment - 1), alignment) * alignment
    )


def _multiple(size: Dim, alignment: int) -> bool:
    factors = [k for _, k in size.terms] if isinstance(size, Expr) else [size]
    return all(k % alignment == 0 for k in factors)


class Holes:
    """The free parts of an arena that grows at its end."""

    def __init__(self) -> None:
        self.end: Dim = 0
        self.free: list[tuple[Dim, Dim]] = []

    def take(self, size: Dim) -> Dim:
        """The offset of the smallest hole that surely fits; the rest of it stays free."""
        best: int | None = None
        for i, (_, room) in enumerate(self.free):
            if at_least(room, size) and (best is None or at_least(self.free[best][1], room)):
                best = i
        if best is None:
            return self._append(size)
        offset, room = self.free.pop(best)
        if room != size:
            self.free.append((offset + size, room - size))
        return offset

    def _append(self, size: Dim) -> Dim:
        for i, (offset, room) in enumerate(self.free):
            if offset + room == self.end and at_least(size, room):
                del self.free[i]
                self.end = offset + size
                return offset
        offset, self.end = self.end, self.end + size
        return offset

    def give(self, offset: Dim, size: Dim) -> None:
        """Free a part, joined with the holes on both sides."""
        for i, (start, room) in enumerate(self.free):
            if start + room == offset:
                del self.free[i]
                return self.give(start, room + size)
            if offset + size == start:
                del self.free[i]
                return self.give(offset, size + room)
        if size != 0:
            self.free.append((offset, size))
        return None


def intervals(program: Program) -> dict[Storage, Interval]:
    """When each storage of the arena is in use.

    What comes into a loop stays to its end; what leaves a loop was there from its start.
    """
    return ordered(program)[0]


def ordered(program: Program) -> tuple[dict[Storage, Interval], list[Step]]:
    """When each storage of the arena is in use, and the step at each position of an interval."""
    order = _Order()
    order.block(program.steps)
    for start, end, touched in order.loops:
        for storage in touched:
            interval = order.found[storage]
            if interval.first < start:
                interval.last = max(interval.last, end)
            elif interval.last > end:
                interval.first = start
    return order.found, order.steps


class _Order:
    """Numbers the steps in order of the text; ``loops`` has inner loops before outer ones."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.found: dict[Storage, Interval] = {}
        self.loops: list[tuple[int, int, set[Storage]]] = []

    @property
    def position(self) -> int:
        """The number of the next step."""
        return len(self.steps)

    def block(self, steps: tuple[Step, ...]) -> set[Storage]:
        """Number the steps; the storages that they touch."""
        touched: set[Storage] = set()
        for step in steps:
            touched |= self.step(step)
        return touched

    def step(self, step: Step) -> set[Storage]:
        """Number one step and those inside."""
        start = self.position
        touched: set[Storage] = set()
        for body in step.order:
            touched |= self.touch(step) if body is None else self.block(body)
        if step.repeats:
            self.loops.append((start, self.position - 1, touched))
        return touched

    def touch(self, step: Step) -> set[Storage]:
        """Extend intervals to the next position; the storages that are of the arena."""
        ours = dict.fromkeys(
            v.storage for v in (*step.reads, *step.writes) if v.storage.place is None
        )
        for storage in ours:
            self.found.setdefault(storage, Interval(self.position, self.position))
            self.found[storage].last = self.position
        self.steps.append(step)
        return set(ours)
