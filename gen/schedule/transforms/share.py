"""The transform ``share``: the turns of a loop shared among threads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.loops.verifier import can_be_shared
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import symbols


@register
@dataclass(frozen=True, slots=True)
class Share(Transform):
    """Threads share the turns, each taking ``grain`` of them or more.

    The turns of ``levels`` loops, each in the one before, are then one range.
    """

    word: ClassVar[str] = "share"
    grain: Dim
    levels: int = 1

    def rewritten(self, loop: Loop) -> Body:
        """The loop with a grain: its turns must be independent, and those of all its levels."""
        if isinstance(self.grain, int) and self.grain < 1:
            raise self.refused(f"a thread takes 1 turn or more, not {self.grain}")
        if inner := [n for n in symbols(self.grain) if n.startswith("%")]:
            raise self.refused(f"the grain is computed outside of the loop {inner[0]}")
        shared = replace(loop, grain=self.grain, levels=self.levels)
        if self.levels < 1 or not can_be_shared(shared):
            raise self.refused(f"not all turns of the {self.levels} loops are independent")
        return (shared,)
