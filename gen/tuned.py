"""The schedules that a search has found for kernels on this machine, kept on the disk.

They stand under the text of the kernel's plain loops, for one target each. A schedule that is no
longer possible, as a transform may have changed, is told once, and the planner's takes its place.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dlvm.base.errors import DlvmError
from dlvm.gen.llvm.cache import store
from dlvm.gen.llvm.disk import digest
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.schedule.planner import Planner, planned
from dlvm.gen.schedule.text import VERSION, Schedule
from dlvm.gen.schedule.transforms import parse_step
from dlvm.target import Target

log = logging.getLogger("dlvm.tune")


def name_of(plain: LoopKernel) -> str:
    """What a kernel is known by: its plain loops, whatever program they are of."""
    return digest("kernel", str(replace(plain, name="kernel")))


def written(target: Target) -> bytes:
    """What is kept for a target, as it stands on the disk; nothing where nothing is."""
    kept = store()
    return b"" if kept is None else kept.get(_key(target)) or b""


def _key(target: Target) -> str:
    return digest("tuned", str(VERSION), repr(replace(target, adaptive=False)))


def _read(data: bytes) -> dict[str, list[str]]:
    return json.loads(data) if data else {}


def keep(target: Target, plain: LoopKernel, steps: Sequence[str] | None) -> bool:
    """Keep the steps of a kernel, or (None) forget them; whether there is a place for them."""
    kept = store()
    if kept is None:
        return False
    entries = _read(written(target))
    if steps is None:
        entries.pop(name_of(plain), None)
    else:
        entries[name_of(plain)] = [*steps]
    kept.put(_key(target), json.dumps(entries, sort_keys=True).encode())
    return True


@dataclass(slots=True)
class Tuned:
    """The plan of every kernel: the schedule that was found for it, else the planner's."""

    entries: Mapping[str, Sequence[str]]
    target: Target

    @classmethod
    def of(cls, data: bytes, target: Target) -> Tuned:
        """What is ``written`` for a target."""
        return cls(_read(data), target)

    @property
    def forms(self) -> tuple[str, ...]:
        """The planner's, unless a schedule may be found for plain loops."""
        return () if self.entries else Planner(self.target).forms

    def applied(self, plain: LoopKernel) -> LoopKernel:
        """The loops of a kernel under its schedule."""
        lines = self.entries.get(name_of(plain)) if self.entries else None
        if lines is None:
            return planned(plain, self.target)
        try:
            steps = tuple(parse_step(line, n) for n, line in enumerate(lines, 1))
            return Schedule({plain.name: steps}).applied(plain)
        except DlvmError as error:
            log.warning("@%s: its tuned schedule is not used: %s", plain.name, error)
            return planned(plain, self.target)
