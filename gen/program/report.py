"""What a compile made, in numbers: time by phase, kernels, operations and memory.

Where sizes are symbolic the numbers are expressions; ``at`` gives them for known sizes. A
``while`` counts as one trip, a condition as its dearer branch, a function that is entered as one
activation, without what it enters in its turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from weakref import WeakKeyDictionary

from dlvm.base.html import table
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.loops.work import flops
from dlvm.gen.schedule.cost import bytes_of
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import Expr, maximum, substitute

from .memory import ALIGNMENT, plan
from .steps import CallFunction, Copy, Launch, Program, Step
from .times import entering, total


@dataclass(frozen=True, slots=True)
class Report:
    """``kernels`` are distinct ones, ``launches`` the places that run one.

    ``flops`` is what the loop interpreter counts, ``peak_bytes`` the size of the arena.

    ``activation_bytes`` is the most that one activation of a function that is entered leases beside
    it, at the sizes that the program enters it with: a recursion takes as much for each call that
    is open, trips that threads share for each thread. What tapes take is known only in the call.
    ``bytes`` is what kernels and copies read and write: of each buffer no more than it holds,
    and no more than the elements that are asked for, as in a gather or scatter. ``estimates`` are
    the picoseconds that one run of each kernel takes on one core, by the cost that schedules go by.
    """

    seconds: Mapping[str, float]
    kernels: int
    flops: Dim
    bytes: Dim
    peak_bytes: Dim
    target: str
    activation_bytes: Dim = 0
    estimates: Mapping[str, Dim] = field(default_factory=dict[str, Dim])
    launches: int = 0

    def at(self, **sizes: int) -> Report:
        """The same for known sizes."""
        return replace(
            self,
            flops=substitute(self.flops, sizes),
            bytes=substitute(self.bytes, sizes),
            peak_bytes=substitute(self.peak_bytes, sizes),
            activation_bytes=substitute(self.activation_bytes, sizes),
            estimates={name: substitute(t, sizes) for name, t in self.estimates.items()},
        )

    def _repr_html_(self) -> str:
        """A table of the figures, as notebooks show it."""
        return table((name, str(found)) for name, found in self.to_dict().items())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts; an expression is its text."""
        pairs = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {k: _plain(v) for k, v in pairs}


def _plain(x: Any) -> Any:
    if isinstance(x, Mapping):
        return {k: _plain(v) for k, v in x.items()}  # pyright: ignore[reportUnknownVariableType]
    return str(x) if isinstance(x, Expr) else x


def program_flops(program: Program) -> Dim:
    """Floating-point operations of a run."""

    def cost(step: Step) -> Dim:
        return step.here(flops(step.kernel.body)) if isinstance(step, Launch) else 0

    return total(program.steps, entering(program, cost))


def program_bytes(program: Program) -> Dim:
    """Bytes that a run reads and writes."""
    return total(program.steps, entering(program, _moved))


def activation_bytes(program: Program) -> Dim:
    """The most that one activation of a function leases, of those that a run enters.

    One that enters itself, directly or through others, is asked for the sizes that it is first
    entered with.
    """

    inside = _callees(program)
    found: dict[Any, Dim] = {}

    def leased(part: Program, sizes: Mapping[str, Dim], above: frozenset[str]) -> Dim:
        most: Dim = 0
        for step in part.walk():
            if isinstance(step, CallFunction) and step.callee not in above:
                given = tuple(substitute(d, sizes) for d in step.sizes)
                below = (above | {step.callee}) & inside[step.callee]
                most = maximum(most, entered(step.callee, given, below))
        return most

    def entered(name: str, given: tuple[Dim, ...], above: frozenset[str]) -> Dim:
        key = name, given, above  # calls that double at each level are asked for once
        if key not in found:
            callee = program.callee(name)
            known = dict(zip(callee.symbols, given, strict=True))
            own = substitute(plan(callee).bytes, known) + ALIGNMENT
            found[key] = maximum(own, leased(callee, known, above))
        return found[key]

    return leased(program, {}, frozenset())


def _callees(program: Program) -> dict[str, set[str]]:
    """The functions that each function of a program enters, directly or through others."""

    def direct(part: Program) -> set[str]:
        return {step.callee for step in part.walk() if isinstance(step, CallFunction)}

    below: dict[str, set[str]] = {}
    pending = [*direct(program)]
    while pending:
        if (name := pending.pop()) not in below:
            below[name] = direct(program.callee(name))
            pending += below[name]
    changed = True
    while changed:
        changed = False
        for names in below.values():
            more = names.union(*(below[name] for name in names))
            changed = changed or len(more) > len(names)
            names |= more
    return below


def _moved(step: Step) -> Dim:
    if isinstance(step, Launch):
        if step.kernel not in _MOVED:
            _MOVED[step.kernel] = bytes_of(step.kernel)
        return step.here(_MOVED[step.kernel])
    if isinstance(step, Copy):
        return 2 * step.target.type.size * step.target.type.dtype.bytes
    return 0


_MOVED: WeakKeyDictionary[LoopKernel, Dim] = WeakKeyDictionary()
