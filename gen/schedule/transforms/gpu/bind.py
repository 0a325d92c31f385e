"""The transform ``bind``: the turns of a loop as the blocks of a GPU, or the lanes of a block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import Body, Loop, statements
from dlvm.gen.schedule.transform import Transform, register

LANES = 1024
"""Lanes that a block may have."""
TO = ("block", "lane")


@register
@dataclass(frozen=True, slots=True)
class Bind(Transform):
    """Each turn is a block, or each is a lane of the block around."""

    word: ClassVar[str] = "bind"
    to: str

    def rewritten(self, loop: Loop) -> Body:
        """The loop; its turns must be independent, and those of a lane loop few and counted."""
        if self.to not in TO:
            raise self.refused(f"a loop is bound to one of {', '.join(TO)}, not {self.to}")
        if loop.kind != "parallel" or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}, not parallel")
        most = loop.extent if isinstance(loop.extent, int) else loop.limit
        if self.to == "lane" and (most is None or most > LANES):
            raise self.refused(f"a block has a known number of lanes, {LANES} at most")
        inside = {s.kind for s in statements(loop.body) if isinstance(s, Loop)}
        if not inside <= {"parallel", "serial", "lane", "vector"} - {self.to}:
            raise self.refused(f"loops inside are {', '.join(sorted(inside))}")
        if self.to == "block":
            return (replace(loop, kind="block", limit=None),)
        return (replace(loop, kind="lane", limit=None if most == loop.extent else most),)
