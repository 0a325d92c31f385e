"""The transform ``use``: an instruction in the place of the loops that state its meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.instructions import INSTRUCTIONS
from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.schedule.transform import Transform, register


@register
@dataclass(frozen=True, slots=True)
class Use(Transform):
    """Targets that have the ``instruction`` do the loop by it, and others by its turns."""

    word: ClassVar[str] = "use"
    alone: ClassVar[bool] = True
    instruction: str

    def rewritten(self, loop: Loop) -> Body:
        """The loop, which still says what is computed."""
        known = INSTRUCTIONS.get(self.instruction)
        if known is None:
            raise self.refused(f"the instruction is one of {', '.join(INSTRUCTIONS)}")
        if known.unify(loop) is None:
            raise self.refused(f"the loop does not mean {known.meaning}")
        return (replace(loop, by=self.instruction),)
