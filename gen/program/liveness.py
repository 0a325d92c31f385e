"""Which storages hold values that are still to be read, at every step of a program.

One walk from the last step to the first, in the classical way: before a step lives what it
reads, and what lives after it unless the step overwrites it whole. What lives at the start of a
loop's body lives through the loop. A write to a part of a storage needs the rest of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .steps import (
    For,
    Given,
    If,
    PartOf,
    Program,
    Step,
    Storage,
    While,
    may_raise,
    reads,
    writes,
)

Visit = Callable[[Step, set[Storage]], None]


def outlives(program: Program) -> set[Storage]:
    """What must be whole when the call returns: results, and all that is not ours to change."""
    given = {v.storage for v in (*program.params, *program.results)}
    for step in program.walk():
        given |= {v.storage for v in reads(step) if isinstance(v.storage.place, Given)}
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
        self.exposures: dict[While | For, set[Storage]] = {}

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
        needed = [v.storage for v in reads(step)]
        for view in writes(step):
            needed += around(view.storage) if view.whole else (view.storage,)
        if may_raise(step) and not self.program.inner:
            needed += self.program.donated
        return self.some(needed)

    def block(self, steps: tuple[Step, ...], live: set[Storage], visit: Visit) -> None:
        """Turn what lives after the steps into what lives before them."""
        for step in reversed(steps):
            visit(step, live)
            self.step(step, live, visit)

    def step(self, step: Step, live: set[Storage], visit: Visit) -> None:
        """Turn what lives after a step into what lives before it."""
        match step:
            case If(then=then, otherwise=otherwise):
                other = set(live)
                self.block(then, live, visit)
                self.block(otherwise, other, visit)
                live |= other | self.needs(step)
            case While(before=before, body=body):
                live |= self.exposed(step)
                inside = set(live)
                self.block(body, inside, visit)
                inside |= live | self.needs(step)
                self.block(before, inside, visit)
            case For(body=body, fills=fills, parts=parts):
                live |= self.some(fills) | self.exposed(step)
                self.block(body, live | self.some(parts), visit)
                live.difference_update(fills)
            case _:
                live.difference_update(overwritten(step))
                live |= self.needs(step)

    def exposed(self, loop: While | For) -> set[Storage]:
        """What the trips of a loop read from before it."""
        if loop not in self.exposures:
            match loop:
                case While(before=before, body=body):
                    found = self.before(before, self.needs(loop) | self.before(body, set()))
                case For(body=body, fills=fills):
                    found = self.before(body, set()).difference(fills)
            self.exposures[loop] = found
        return self.exposures[loop]

    def before(self, steps: tuple[Step, ...], found: set[Storage]) -> set[Storage]:
        """What the steps, and then readers of ``found``, read from before them."""
        for step in reversed(steps):
            match step:
                case If(then=then, otherwise=otherwise):
                    found = self.before(then, found) | self.before(otherwise, found)
                    found |= self.needs(step)
                case While():
                    found = found | self.exposed(step)
                case For(fills=fills):
                    found = found.difference(fills) | self.exposed(step)
                case _:
                    found = found.difference(overwritten(step)) | self.needs(step)
        return found


def overwritten(step: Step) -> list[Storage]:
    """What a step by itself replaces whole."""
    return [v.storage for v in writes(step) if v.whole]
