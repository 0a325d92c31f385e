"""What the launches of a function are for one choice of its sizes: blocks, bytes and offsets.

Sizes are evaluated when the function first runs with them; later calls only add offsets to
addresses. What the variable of a loop decides is left as an expression of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from dlvm.gen.program.memory import ALIGNMENT, Arena, plan
from dlvm.gen.program.steps import Given, Launch, Program, Storage, View
from dlvm.ir import Dim, TensorType
from dlvm.ir.sizes.dims import evaluate, substitute, symbols
from dlvm.target import Target

from .device import DeviceCode, Ready
from .devices.numbered import APART

WRITTEN = ("in", "inout")
"""Roles of buffers that hold something before a kernel runs."""


Called: TypeAlias = tuple[str, tuple[int, ...]]
"""A function of the program by its name, and its sizes."""
MOST = 256
"""Layouts of functions that are kept at a time."""


def planned(program: Program, target: Target) -> Arena:
    """The arena of a function.

    Where kernels get buffers instead of addresses, no two storages share what is bound of them.
    """
    return plan(program, APART if target.dialect else ALIGNMENT)


@dataclass(frozen=True, slots=True)
class Place:
    """An address: so many bytes from one of the bases of an activation."""

    base: int
    offset: Dim


@dataclass(frozen=True, slots=True)
class Launching:
    """Where the buffers of a kernel are, and the launches of its phases."""

    places: tuple[Place, ...]
    phases: tuple[Ready, ...]
    fixed: tuple[tuple[int, int], ...]
    """The bases and offsets of the places, where no variable of a loop decides one."""

    @property
    def moves(self) -> bool:
        """Whether a place depends on the variable of a loop."""
        return len(self.fixed) < len(self.places)


@dataclass(frozen=True, slots=True)
class Slots:
    """The memory of a call: its arguments, then ``fresh`` results, by their types and bytes.

    ``given`` and ``results`` number the storages of the layout and the results of the program.
    """

    fresh: tuple[tuple[TensorType, int], ...]
    given: Sequence[int]
    results: Sequence[int]


@dataclass
class Layout:
    """A function for one choice of ``sizes``.

    The bases of an activation are the addresses of the arena, of ``given`` storages, which the
    caller owns, and of the constants.
    """

    program: Program
    code: DeviceCode
    sizes: Mapping[str, int]
    arena: int
    given: tuple[Storage, ...]
    results: tuple[TensorType, ...]
    _places: dict[Storage, Place]
    _views: dict[int, Place] = field(default_factory=dict[int, Place])
    _launches: dict[Launch, Launching] = field(default_factory=dict[Launch, Launching])
    _callees: dict[Called, Layout] = field(default_factory=dict["Called", "Layout"])

    @staticmethod
    def of(program: Program, arena: Arena, code: DeviceCode, sizes: Mapping[str, int]) -> Layout:
        """The layout of a function whose memory is planned."""
        given = tuple({v.storage: None for v in (*program.params, *program.results)})
        bases = {s: Place(1 + i, 0) for i, s in enumerate(given)}
        held = {s: Place(0, evaluate(o, sizes)) for s, o in arena.offsets.items()}
        results = tuple(
            v.type.with_shape(tuple(evaluate(d, sizes) for d in v.type.shape))
            for v in program.results
        )
        room = evaluate(arena.bytes, sizes)
        return Layout(program, code, sizes, room, given, results, bases | held)

    @cached_property
    def slots(self) -> Slots:
        """Where a call finds what it is given, and which results need memory of their own."""
        at = {v.storage: i for i, v in enumerate(self.program.params)}
        fresh: list[tuple[TensorType, int]] = []
        for view, type_ in zip(self.program.results, self.results, strict=True):
            if view.storage not in at:
                at[view.storage] = len(self.program.params) + len(fresh)
                fresh.append((type_, evaluate(type_.size, {}) * type_.dtype.bytes))
        given, results = self.given, self.program.results
        return Slots(tuple(fresh), [at[s] for s in given], [at[v.storage] for v in results])

    @cached_property
    def straight(self) -> Sequence[tuple[Ready, tuple[tuple[int, int], ...]]] | None:
        """Every launch with the places of its buffers, or None if there is any other step."""
        steps = [s for s in self.program.steps if isinstance(s, Launch)]
        found = [self.launching(s, self.sizes) for s in steps]
        if len(steps) < len(self.program.steps) or any(f.moves for f in found):
            return None
        return [(ready, f.fixed) for f in found for ready in f.phases]

    @cached_property
    def only(self) -> tuple[Ready, tuple[tuple[int, int], ...]] | None:
        """The one launch of a function that is no more than that, and needs no arena."""
        found = self.straight
        return found[0] if found is not None and len(found) == 1 and not self.arena else None

    def place(self, view: View) -> Place:
        """Where a view of the program starts."""
        found = self._views.get(id(view))
        if found is None:
            found = self._views[id(view)] = self._place(view)
        return found

    def _place(self, view: View) -> Place:
        given = view.storage.place
        if isinstance(given, Given) and given.kind == "constant":
            start = Place(1 + len(self.given) + given.index, 0)
        else:
            start = self._places[view.storage]
        moved = substitute(view.offset, self.sizes) * view.type.dtype.bytes
        return replace(start, offset=start.offset + moved)

    def launching(self, step: Launch, now: Mapping[str, int]) -> Launching:
        """A launch, where sizes and variables of loops are ``now``."""
        found = self._launches.get(step)
        if found is None:
            found = self._launching(step, now)
            if self._decide(step):
                self._launches[step] = found
        return found

    def callee(self, name: str, sizes: tuple[int, ...]) -> Layout:
        """The layout of a function that this one calls."""
        found = self._callees.get((name, sizes))
        if found is None:
            if len(self._callees) >= MOST:
                self._callees.clear()
            callee = replace(self.program.callee(name), callees=self.program.callees)
            known = dict(zip(callee.symbols, sizes, strict=True))
            found = Layout.of(callee, planned(callee, self.code.target), self.code, known)
            found._callees = self._callees
            self._callees[name, sizes] = found
        return found

    def _decide(self, step: Launch) -> bool:
        """Whether sizes alone decide a launch but for its places."""
        kernels = self.code.kernels[step.kernel.name]
        dims = [*(v.type.size for v in step.views), *(step.here(k.blocks) for k in kernels)]
        names = {n for d in (*dims, *step.known) for n in symbols(d)}
        return names <= self.sizes.keys()

    def _launching(self, step: Launch, now: Mapping[str, int]) -> Launching:
        places = tuple(map(self.place, step.views))
        held = tuple(evaluate(v.type.size, now) * v.type.dtype.bytes for v in step.views)
        sizes = tuple(evaluate(d, now) for d in step.known)
        written = tuple(b.role in WRITTEN for b in step.kernel.buffers)
        phases: list[Ready] = []
        for kernel in self.code.kernels[step.kernel.name]:
            if blocks := evaluate(step.here(kernel.blocks), now):
                phases.append(Ready(kernel, blocks, held, written, sizes))
            written = (True,) * len(written)
        fixed = tuple((p.base, p.offset) for p in places if isinstance(p.offset, int))
        return Launching(places, tuple(phases), fixed)
