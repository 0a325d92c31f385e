"""Copies out: two storages become one where they never hold different values at once.

The translation into steps copies wherever two values must end in one memory. Two storages that
a copy connects are merged unless one is written while the other is still to be read (Chaitin's
interference, 1982); then the copy is gone, and a scatter, a carried value, a slice of a stacked
result or a donated argument is written in place. What remains are the copies that must be.

A temporary of which a kernel computes a result element by element is the memory of that result, if
nobody reads it later: of ``a @ b + c @ d`` the second product adds to the first one in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dlvm.gen.lower.in_place import replaceable
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute, symbols

from .liveness import Liveness, around
from .steps import (
    CallFunction,
    CallPython,
    Copy,
    For,
    Given,
    Launch,
    PartOf,
    Program,
    Step,
    Storage,
    View,
)

TYPICAL = 100
"""What an unknown size is taken to be when copies are ordered by what they cost."""


@dataclass(eq=False, slots=True)
class MergedStorages:
    """Storages that are one memory, and those that must not join them."""

    members: set[Storage]
    enemies: set[Storage]
    place: Given | PartOf | None
    loops: tuple[str, ...]
    needed_loops: tuple[str, ...]


def coalesce(program: Program) -> Program:
    """The program with every copy taken out that can be, the dearest first."""
    copies = [(c.source, c.target) for _, c in sorted(_copies(program.steps, 1), key=_dearest)]
    found = _merged(program, copies)
    if overwritten := list(_overwritten(found)):
        found = _merged(found, overwritten)
    return replace(found, callees=tuple(map(coalesce, program.callees)))


def _merged(program: Program, pairs: list[tuple[View, View]]) -> Program:
    """The program in which the storages of each pair are one, in this order, where they may be."""
    groups = _groups(program, pairs)
    for source, target in pairs:
        a, b = groups[source.storage], groups[target.storage]
        if a is not b and source.whole and target.whole and _friends(a, b):
            _join(groups, a, b)
    return _Resolved(groups).program(program)


def resolved(program: Program) -> Program:
    """The program with every copy in it, and parts of storages as views of the whole."""
    return _Resolved({}).program(program)


def _copies(steps: tuple[Step, ...], trips: int) -> list[tuple[int, Copy]]:
    found: list[tuple[int, Copy]] = []
    for step in steps:
        if isinstance(step, Copy):
            found.append((trips * _typical(step.target.type.size), step))
        inside = TYPICAL if step.trips is None else _typical(step.trips)
        for body in step.bodies:
            found += _copies(body, trips * inside)
    return found


def _dearest(copy: tuple[int, Copy]) -> int:
    return -copy[0]


def _overwritten(program: Program) -> Iterator[tuple[View, View]]:
    """Temporaries, and the results of the program that may be computed in their memory."""
    for step in program.launches():
        for i, o in sorted(replaceable(step.kernel)):
            source, target = step.views[i], step.views[o]
            place = target.storage.place
            result = isinstance(place, Given) and place.kind == "result"
            if result and source.storage.place is None and source.type.size == target.type.size:
                yield source, target


def _typical(size: Dim) -> int:
    known = substitute(size, dict.fromkeys(symbols(size), TYPICAL))
    return known if isinstance(known, int) else TYPICAL


def _groups(program: Program, pairs: list[tuple[View, View]]) -> dict[Storage, MergedStorages]:
    moved = {v.storage for pair in pairs for v in pair}
    enemies = interference(program, moved | {a for s in moved for a in around(s)})
    groups: dict[Storage, MergedStorages] = {}
    for s in moved:
        needed = s.loops if isinstance(s.place, PartOf) else ()
        groups[s] = MergedStorages({s}, enemies[s], s.place, s.loops, needed)
    return groups


def interference(program: Program, among: set[Storage]) -> dict[Storage, set[Storage]]:
    """For each storage those of which one is written while the other is to be read."""
    found: dict[Storage, set[Storage]] = defaultdict(set)

    def apart(a: Storage, b: Storage) -> None:
        if a is not b:
            found[a].add(b)
            found[b].add(a)

    def visit(step: Step, live: set[Storage]) -> None:
        for view in step.writes:
            if view.storage not in among:
                continue
            source = step.source.storage if isinstance(step, Copy) and step.source.whole else None
            for target in (view.storage, *around(view.storage)):
                for other in live:
                    if other is not source and other not in around(view.storage):
                        apart(target, other)
        if isinstance(step, Launch | CallPython | CallFunction):
            pairs = overlaps_forbidden(step) if isinstance(step, Launch) else _all_apart(step)
            for a, b in pairs:
                if a in among and b in among:
                    apart(a, b)

    Liveness(program, among).walk(visit)
    return found


def _all_apart(step: CallPython | CallFunction) -> list[tuple[Storage, Storage]]:
    """What a function writes is nothing else that it reads or writes."""
    touched = dict.fromkeys(v.storage for v in (*step.reads, *step.results))
    return [(v.storage, s) for v in step.results for s in touched if s is not v.storage]


def overlaps_forbidden(step: Launch) -> list[tuple[Storage, Storage]]:
    """What a kernel writes must not be what else it touches, unless the kernel says so."""
    allowed = replaceable(step.kernel)
    written = [(i, v) for i, v in enumerate(step.views) if step.kernel.buffers[i].role != "in"]
    return [
        (v.storage, w.storage)
        for i, v in written
        for j, w in enumerate(step.views)
        if i != j and v.storage is not w.storage and (j, i) not in allowed
    ]


def _friends(a: MergedStorages, b: MergedStorages) -> bool:
    if a.enemies & b.members or (a.place is not None and b.place is not None):
        return False
    common = _common(a.loops, b.loops)
    return all(common[: len(g.needed_loops)] == g.needed_loops for g in (a, b))


def _common(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    while same < min(len(a), len(b)) and a[same] == b[same]:
        same += 1
    return a[:same]


def _join(groups: dict[Storage, MergedStorages], a: MergedStorages, b: MergedStorages) -> None:
    big, small = (a, b) if len(a.members) >= len(b.members) else (b, a)
    big.loops = _common(a.loops, b.loops)
    big.needed_loops = max(a.needed_loops, b.needed_loops, key=len)
    big.place = a.place if a.place is not None else b.place
    big.members |= small.members
    big.enemies |= small.enemies
    for storage in small.members:
        groups[storage] = big


class _Resolved:
    """The same steps on what the groups have become; copies onto themselves are gone."""

    def __init__(self, groups: dict[Storage, MergedStorages]) -> None:
        self.groups = groups
        self.homes: dict[Storage, tuple[Storage, Dim]] = {}

    def home(self, storage: Storage) -> tuple[Storage, Dim]:
        """The storage that holds this one, and where in it."""
        if storage not in self.homes:
            group = self.groups.get(storage)
            place = storage.place if group is None else group.place
            if isinstance(place, PartOf):
                parent, offset = self.home(place.parent)
                self.homes[storage] = parent, offset + place.offset
            elif group is None:
                self.homes[storage] = storage, 0
            else:
                first = self._head(group)
                self.homes.update((member, (first, 0)) for member in group.members)
        return self.homes[storage]

    def _head(self, group: MergedStorages) -> Storage:
        placed = [m for m in group.members if m.place is not None]
        return placed[0] if placed else min(group.members, key=lambda m: (len(m.name), m.name))

    def view(self, view: View) -> View:
        """The same elements, where they are now."""
        storage, offset = self.home(view.storage)
        return View(storage, view.type, offset + view.offset)

    def program(self, program: Program) -> Program:
        """The whole program."""
        return replace(program, steps=self.block(program.steps))

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Steps in order."""
        moved = (self.step(s) for s in steps)
        return tuple(
            s for s in moved if not (isinstance(s, Copy) and s.source.same_memory(s.target))
        )

    def step(self, step: Step) -> Step:
        """One step."""
        found = step.changed(self.block, self.view)
        if not isinstance(found, For):
            return found
        homes = [(s, *self.home(s)) for s in found.fills]
        whole = tuple(home for s, home, at in homes if at == 0 and home.size == s.size)
        return replace(found, fills=whole, parts=())
