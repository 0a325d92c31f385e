"""The schedule of a whole program, as data and as text: the stage ``schedule``."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

from dlvm.base.errors import CompilerError, IRError, UserError
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.loops.verifier import verify

from .transform import Transform, apply
from .transforms import parse_step
from .transforms.forms import Form

VERSION = 1
"""The version that the first line of a schedule names."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of each kernel, by its name; a kernel without any runs as its plain loops."""

    steps: Mapping[str, tuple[Transform, ...]]

    @classmethod
    def plain(cls) -> Schedule:
        """The schedule of any program under which all kernels run as their plain loops."""
        return cls(defaultdict(tuple))

    @property
    def forms(self) -> tuple[str, ...]:
        """None but those that a kernel has among its steps."""
        return ()

    def check(self, kernels: Iterable[LoopKernel]) -> None:
        """Refuse a schedule that names a kernel which the program does not have."""
        known = {kernel.name for kernel in kernels}
        if unknown := [name for name in self.steps if name not in known]:
            error = UserError(
                f"the schedule names @{unknown[0]}, the program has {_named(known)}",
                remedy="start from what .text('schedule') shows of this program",
            )
            error.refused = True
            raise error

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The plain loops of a kernel under this schedule, which the verifier has passed."""
        whole = self.steps.get(plain.name, ())
        steps = tuple(dropwhile(lambda s: isinstance(s, Form), whole))
        forms = whole[: len(whole) - len(steps)]
        plain = plain.formed(tuple(s.word for s in forms))
        for form in forms:
            if str(form) not in plain.steps:
                raise form.refused("its loops can't have this form")
        kernel = apply(plain, steps)
        if steps and (reason := _broken(kernel)):
            count = bisect_left(range(len(steps)), True, key=lambda n: _fails(plain, steps, n))
            raise steps[count].refused(reason)
        return replace(kernel, steps=tuple(map(str, whole)))


def _fails(plain: LoopKernel, steps: Sequence[Transform], last: int) -> bool:
    return bool(_broken(apply(plain, steps[: last + 1])))


def _broken(kernel: LoopKernel) -> str:
    """Which rule of the loop level a kernel breaks; nothing for one that is right."""
    try:
        verify(kernel)
    except CompilerError as error:
        return str(error).splitlines()[0]
    return ""


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"@{name}" for name in sorted(names)) or "no kernel"


def schedule_text(kernels: Iterable[LoopKernel]) -> str:
    """The steps that made these kernels of their plain loops."""
    lines = [f"schedule {VERSION}"]
    for kernel in kernels:
        lines += [f"kernel @{kernel.name}", *(f"  {step}" for step in kernel.steps)]
    return "\n".join(lines) + "\n"


def parse_schedule(text: str) -> Schedule:
    """The schedule that ``schedule_text`` wrote, perhaps edited; a line of # is a comment."""
    try:
        return _parsed(text)
    except IRError as error:
        error.refused = True
        raise


def _parsed(text: str) -> Schedule:
    numbered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if _is_read(line)]
    if not numbered or numbered[0][1].split() != ["schedule", str(VERSION)]:
        found = repr(numbered[0][1].strip()) if numbered else "nothing"
        raise IRError(f"a schedule begins with the line 'schedule {VERSION}', found {found}")
    steps: dict[str, tuple[Transform, ...]] = {}
    name = ""
    for number, line in numbered[1:]:
        first, _, rest = line.strip().partition(" ")
        if first == "kernel" and rest.startswith("@"):
            name = rest[1:]
            if name in steps:
                raise IRError(f"line {number}: the kernel @{name} is named twice")
            steps[name] = ()
        elif not name:
            raise IRError(f"line {number}: expected kernel @name, found {line.strip()!r}")
        else:
            steps[name] = (*steps[name], parse_step(line, number))
    return Schedule(steps)


def _is_read(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")
