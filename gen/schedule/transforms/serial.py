"""The transform ``serial``: the turns of a loop one after the other, so that others are shared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.schedule.transform import Transform, register


@register
@dataclass(frozen=True, slots=True)
class Serial(Transform):
    """Turns that could be done in any order are done in that of their numbers."""

    word: ClassVar[str] = "serial"

    def rewritten(self, loop: Loop) -> Body:
        """The loop, whose turns nobody shares."""
        if loop.kind != "parallel" or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}, not parallel")
        return (replace(loop, kind="serial"),)
