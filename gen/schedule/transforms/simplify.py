"""The transform ``simplify``: the loops without what their own ranges decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.simplify import simplified
from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.schedule.transform import WHOLE, Transform, register


@register
@dataclass(frozen=True, slots=True)
class Simplify(Transform):
    """Guards that always hold are gone, and so is what nobody uses; loops that turn once, too."""

    word: ClassVar[str] = "simplify"

    def rewritten(self, loop: Loop) -> Body:
        """What is left of the loop; ``%kernel`` is all of them."""
        if loop.var != WHOLE:
            return simplified((loop,))
        return (replace(loop, body=simplified(loop.body)),)
