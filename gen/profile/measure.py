"""Measures a program in place: a build of its own with timers, called again and again.

The build is never kept on the disk, and ordinary code has no timers. It runs on one core, so that
each time can be compared with the roofline of a core. The clock of the processor is set against
that of Python over all calls.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dlvm.base.errors import Origin
from dlvm.cost import PICOSECONDS
from dlvm.gen.build import Made, loaded, made
from dlvm.gen.call.executable import Executable
from dlvm.gen.loops.work import flops
from dlvm.gen.program.lives import lives
from dlvm.gen.program.memory import plan
from dlvm.gen.program.steps import CallPython, Copy, Launch, Program
from dlvm.gen.program.timed import BETWEEN, FIRST, START, Timed, entered_with, timed
from dlvm.gen.runtime import ticks
from dlvm.gen.schedule.cost import Costs, bytes_of
from dlvm.gen.schedule.plans import Plans
from dlvm.ir import Array, Dim, Module
from dlvm.ir.interpret import bind
from dlvm.ir.sizes.dims import substitute
from dlvm.target import Target

from .records import Event, Part, Profile

LEAST, MOST = 3, 1000
"""Calls that are measured, whatever time they take."""
CLOCK = 0.02
"""Seconds over which the two clocks are compared at least."""


@dataclass(frozen=True, slots=True)
class Timers:
    """A program built with timers, and what each of their slots measures."""

    code: Made
    plain: Program
    places: tuple[Timed, ...]
    executable: Executable

    @staticmethod
    def built(
        module: Module, target: Target, schedule: str | None = None, plans: Plans | None = None
    ) -> Timers:
        """The build of a program that measures."""
        seen: list[Program] = []
        places: list[Timed] = []

        def around(program: Program) -> Program:
            seen.append(program)
            out, found = timed(program, ticks.MOST)
            places.extend(found)
            return out

        code = made(module, target, schedule=schedule, plans=plans, around=around)
        executable = loaded(code, on_disk=False)
        executable.threads, executable.adaptive = 1, False
        return Timers(code, seen[0], tuple(places), executable)

    def measure(self, arrays: Sequence[Array], ordinary: float, seconds: float) -> Profile:
        """The fastest of the calls that fit into ``seconds``, and the least time of each part."""
        tables, rate = self._called(arrays, seconds)
        best = min(tables, key=_total)
        sizes = self._sizes(arrays)
        parts = [self._part(p, tables, rate, sizes) for p in self.places]
        arena = substitute(plan(self.plain).bytes, sizes[self.plain.name])
        buffers = sorted(lives(self.plain, sizes), key=lambda b: -(b.bytes or 0))
        return Profile(
            self.plain.name,
            str(self.code.target),
            len(tables),
            _total(best) * rate,
            ordinary,
            float(best[ticks.SLOTS + 2 * BETWEEN]) * rate,
            tuple(sorted((p for p in parts if p.runs), key=lambda p: -p.seconds)),
            tuple(buffers),
            arena if isinstance(arena, int) else None,
            tuple(_events(best, parts, rate)),
        )

    def _called(self, arrays: Sequence[Array], seconds: float) -> tuple[list[Array], float]:
        """The table of each call, and the seconds of a tick; the first call is not counted."""
        table = self.executable.words(ticks.TABLE, ticks.WORDS)
        tables: list[Array] = []
        marks: list[tuple[float, int]] = []
        start = time.perf_counter()
        while len(tables) <= LEAST or (_within(start, seconds) and len(tables) < MOST):
            given = [np.array(a) for a in arrays]
            table[: ticks.EVENTS] = 0
            self.executable.run(given, write=_unheard)
            marks.append((time.perf_counter(), int(table[ticks.LAST])))
            used = ticks.EVENTS + 2 * min(int(table[ticks.COUNT]), ticks.KEPT)
            tables.append(table[:used].copy())
        while _within(marks[0][0], CLOCK):  # the clocks run on between calls
            self.executable.run([np.array(a) for a in arrays], write=_unheard)
            marks.append((time.perf_counter(), int(table[ticks.LAST])))
        passed = marks[-1][1] - marks[0][1]
        return tables[1:], (marks[-1][0] - marks[0][0]) / passed if passed else 0.0

    def _sizes(self, arrays: Sequence[Array]) -> dict[str, dict[str, int]]:
        params = self.plain.params
        types, names = [v.type for v in params], [v.storage.name for v in params]
        return entered_with(self.plain, bind(types, list(arrays), names))

    def _part(
        self, place: Timed, tables: list[Array], rate: float, sizes: dict[str, dict[str, int]]
    ) -> Part:
        at = ticks.SLOTS + 2 * place.slot
        times = sorted(float(table[at]) * rate for table in tables)
        seconds, usual = times[0], times[len(times) // 2]
        runs = int(min(tables, key=_total)[at + 1])
        known = sizes.get(place.function.name, {})
        for loop in place.loops:  # a size that changes with the trip is that of the middle trip
            length = substitute(loop.length, known)
            known = {**known, loop.variable: (length - 1) // 2 if isinstance(length, int) else 0}
        work = _work(place, known, self.code.target)
        count, moved = (None if w is None else runs * w for w in (work.flops, work.bytes))
        total = None if work.seconds is None else runs * work.seconds
        name, lines = _named(place, self.plain)
        where = name, place.function.name
        alike = _alike(place.step)
        return Part(*where, seconds, runs, lines, count, moved, total, work.bound, usual, alike)


def _alike(step: object) -> str:
    """A text that equal kernels share; empty for what is no kernel."""
    return str(replace(step.kernel, name="")) if isinstance(step, Launch) else ""


@dataclass(frozen=True, slots=True)
class Work:
    """What one run of a step does, and the seconds that the model of the machine allows for it."""

    flops: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    bound: str = ""


def _work(place: Timed, sizes: dict[str, int], target: Target) -> Work:
    match place.step:
        case Launch():
            return _of_kernel(place.step, sizes, target)
        case Copy(target=view):
            moved = _known(2 * view.type.size * view.type.dtype.bytes, sizes)
            return Work(0, moved, None if moved is None else _moving(moved, target), "memory")
        case _:
            return Work()


def _of_kernel(step: Launch, sizes: dict[str, int], target: Target) -> Work:
    """The roofline of a kernel: its instructions, or its bytes in the memory that holds them."""
    kernel = step.kernel
    instructions = Costs(kernel.body, target).instructions(kernel.body)
    amounts = flops(kernel.body), bytes_of(kernel), instructions
    count, moved, busy = (_known(step.here(amount), sizes) for amount in amounts)
    if moved is None or busy is None:
        return Work(count, moved)
    computing, moving = busy / PICOSECONDS * 1e-9, _moving(moved, target)
    bound = "instructions" if computing >= moving else "memory"
    return Work(count, moved, max(computing, moving), bound)


def _moving(moved: int, target: Target) -> float:
    return moved / target.machine.level(moved).rate * 1e-9


def _known(amount: Dim, sizes: dict[str, int]) -> int | None:
    found = substitute(amount, sizes)
    return found if isinstance(found, int) else None


def _named(place: Timed, program: Program) -> tuple[str, tuple[Origin, ...]]:
    match place.step:
        case Launch(kernel=kernel, origins=origins):
            return kernel.name, origins
        case Copy(source=source, target=view):
            return f"copy {_short(source)} to {_short(view)}", ()
        case CallPython(index=index):
            op = program.calls[index][0]
            return f"Python's {op.name}", (op.origin,) if op.origin else ()
        case shown:
            return f"show {program.prints[shown.index][0]}", ()


def _short(view: Any) -> str:
    return str(view).partition(":")[0]


def _events(table: Array, parts: Sequence[Part], rate: float) -> list[Event]:
    """The runs on the time line, from the first tick on."""
    line = table[ticks.EVENTS :].reshape(-1, 2)
    slots: list[int] = line[1:, 0].tolist()
    starts: list[float] = ((line[:-1, 1] - line[0, 1]) * rate).tolist()
    spent: list[float] = (np.diff(line[:, 1]) * rate).tolist()
    steps = zip(slots, starts, spent, strict=True)
    return [Event(parts[slot - FIRST], *when) for slot, *when in steps if slot >= FIRST]


def _total(table: Array) -> int:
    """The ticks of a call, which its slots share out."""
    return int(table[ticks.SLOTS + 2 * (START + 1) : ticks.EVENTS : 2].sum())


def _within(start: float, seconds: float) -> bool:
    return time.perf_counter() - start < seconds


def _unheard(text: str) -> None:
    """Prints of the measured calls go nowhere."""
