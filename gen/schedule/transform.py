"""What a transform is, and the registry of all of them by the word that stands in a schedule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, TypeVar

from dlvm.base.errors import UserError, closest
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Loop,
    LoopKernel,
    Nested,
    Statement,
    accesses,
    statements,
)

WHOLE = "%kernel"
"""The name under which a step means all that a kernel does, as the one turn of a block."""
TRANSFORMS: dict[str, type[Transform]] = {}
Kind = TypeVar("Kind", bound="type[Transform]")


def register(transform: Kind) -> Kind:
    """Make a class of transforms known by its word."""
    TRANSFORMS[transform.word] = transform
    return transform


@dataclass(frozen=True, slots=True)
class Transform(ABC):
    """One step of a schedule: a transform, the loop that it is of, and its numbers.

    Every field behind ``loop`` is a number or a word; in the text it stands as ``name=value``
    where it differs from its default.
    """

    word: ClassVar[str]
    alone: ClassVar[bool] = False
    """Whether it looks at other loops, or moves them, and so is done before what comes later."""
    makes_memory: ClassVar[bool] = False
    """Whether it makes buffers, which are scratch memory of the kernel."""
    loop: str

    @abstractmethod
    def rewritten(self, loop: Loop) -> Body:
        """The statements that replace the loop; raises ``refused`` where that is not possible."""

    def refused(self, reason: str) -> UserError:
        """The error for a step that would change a result, or that means nothing here."""
        error = UserError(
            f"the schedule has a step that is not possible: {self}: {reason}",
            remedy="take the step out, or start from what .text('schedule') shows",
        )
        error.refused = True
        return error

    def __str__(self) -> str:
        numbers = ((f, getattr(self, f.name)) for f in fields(self)[1:])
        shown = [f"{f.name}={value}" for f, value in numbers if value != f.default]
        return " ".join([self.word, self.loop, *shown])


@dataclass(frozen=True, slots=True)
class OfKernel(Transform):
    """A step of a whole kernel, which is possible or not as its loops are."""

    alone: ClassVar[bool] = True
    impossible: ClassVar[str]
    """What is said where it is not."""

    @staticmethod
    @abstractmethod
    def made(body: Body) -> Body | None:
        """What the kernel does instead; None where the step is not possible."""

    def rewritten(self, loop: Loop) -> Body:
        """The one turn of the kernel."""
        body = self.made(loop.body) if loop.var == WHOLE else None
        if body is None:
            raise self.refused(self.impossible)
        return (replace(loop, body=body),)


def apply(kernel: LoopKernel, steps: Sequence[Transform]) -> LoopKernel:
    """The kernel after some steps, one after the other."""
    waiting: dict[str, Transform] = {}
    known = _loops(kernel)
    for step in steps:
        alone = any(s.alone for s in waiting.values())
        if alone or step.loop in waiting or step.loop not in known:
            kernel, waiting = _applied(kernel, waiting), {}
            known = _loops(kernel)
        if step.loop not in known:
            near = closest(step.loop, known)
            hint = f"; did you mean {near}?" if near else ""
            raise step.refused(f"@{kernel.name} has no loop {step.loop}{hint}")
        waiting[step.loop] = step
    return _applied(kernel, waiting)


def _loops(kernel: LoopKernel) -> set[str]:
    return {WHOLE, *(s.var for s in statements(kernel.body) if isinstance(s, Loop))}


def _applied(kernel: LoopKernel, steps: dict[str, Transform]) -> LoopKernel:
    """Steps of different loops that are all there, in one walk."""
    if not steps:
        return kernel
    body = _body(kernel.body, steps)
    if (step := steps.get(WHOLE)) is not None:
        (once,) = step.rewritten(Loop(WHOLE, 1, "block", body))
        body = once.body if isinstance(once, Loop) else (once,)
    made = _made(kernel, body) if any(s.makes_memory for s in steps.values()) else []
    return replace(kernel, body=body, buffers=(*kernel.buffers, *made), again=None)


def _made(kernel: LoopKernel, body: Body) -> list[Buffer]:
    """The buffers of a body that are new."""
    touched = dict.fromkeys(x.memory for x in accesses(body))
    return [m for m in touched if isinstance(m, Buffer) and m not in kernel.buffers]


def _body(body: Body, steps: dict[str, Transform]) -> Body:
    done: list[Statement] = []
    for s in body:
        if isinstance(s, Nested):
            s = replace(s, body=_body(s.body, steps))
        step = steps.get(s.var) if isinstance(s, Loop) else None
        done += (s,) if step is None or not isinstance(s, Loop) else step.rewritten(s)
    return tuple(done)
