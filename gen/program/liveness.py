"""Which storages hold values that are still to be read, at every step of a program.

One walk from the last step to the first, in the classical way: before a step lives what it
reads, and what lives after it unless the step overwrites it whole. What lives at the start of a
loop's body lives through the loop. A write to a part of a storage needs the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .steps import Given, PartOf, Program, Step, Storage

Visit = Callable[[Step, set[Storage]], None]


def outlives(program: Program) -> set[Storage]:
    """What must be whole when the call returns: results, and all that is not ours to change."""
    given = {v.storage for v in (*program.params, *program.results)}
    for step in program.walk():
        given |= {v.storage for v in step.reads if isinstance(v.storage.place, Given)}
    spoilt = program.donated - {v.storage for v in program.results}
    return given - spoilt


def around(storage: Storage) -> Iterable[Storage]:
    """The storages that a storage is a part of."""
    while isinstance(storage.place, PartOf):
        storage = storage.place.parent
        yield storage


class Liveness:
    """The walk. ``interesting`` limits it to some storages; None means all."""

    def __init__(self, program: Program, interesting: set[Storage] | None = None) -> None:
        self.program = program
        self.interesting = interesting
        self.exposures: dict[Step, set[Storage]] = {}

    def walk(self, visit: Visit) -> set[Storage]:
        """Call ``visit`` with each step and what lives after it; what lives at the start."""
        live = self.some(outlives(self.program))
        self.block(self.program.steps, live, visit)
        return live

    def some(self, storages: Iterable[Storage]) -> set[Storage]:
        """Those of the storages that the walk is about."""
        found = set(storages)
        return found if self.interesting is None else found & self.interesting

    def needs(self, step: Step) -> set[Storage]:
        """What a step by itself reads, or must leave whole around what it writes.

        A user's donated argument is left whole until nothing can end the call with an error.
        """
        needed = [v.storage for v in step.reads]
        for view in step.writes:
            needed += around(view.storage) if view.whole else (view.storage,)
        if step.may_raise and not self.program.inner:
            needed += self.program.donated
        return self.some(needed)

    def block(self, steps: tuple[Step, ...], live: set[Storage], visit: Visit | None) -> None:
        """Turn what lives after the steps into what lives before them."""
        for step in reversed(steps):
            if visit:
                visit(step, live)
            self.step(step, live, visit)

    def step(self, step: Step, live: set[Storage], visit: Visit | None) -> None:
        """Turn what lives after a step into what lives before it."""
        if step.CHOOSES:
            sides = [set(live) for _ in step.bodies]
            for body, side in zip(step.bodies, sides, strict=True):
                self.block(body, side, visit)
            live.clear()
            live.update(self.needs(step), *sides)
        elif step.repeats:
            fills, parts = step.filled
            live |= self.some(fills) | self.exposed(step)
            inside = live | self.some(parts)
            for body in reversed(step.order if visit else ()):
                if body is None:
                    inside |= live | self.needs(step)
                else:
                    self.block(body, inside, visit)
            live.difference_update(fills)
        else:
            live.difference_update(overwritten(step))
            live |= self.needs(step)

    def exposed(self, loop: Step) -> set[Storage]:
        """What the trips of a loop read from before it."""
        if loop not in self.exposures:
            found: set[Storage] = set()
            for body in reversed(loop.order):
                if body is None:
                    found |= self.needs(loop)
                else:
                    self.block(body, found, None)
            self.exposures[loop] = found.difference(loop.filled[0])
        return self.exposures[loop]


def overwritten(step: Step) -> list[Storage]:
    """What a step by itself replaces whole."""
    return [v.storage for v in step.writes if v.whole]
