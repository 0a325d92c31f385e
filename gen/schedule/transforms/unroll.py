"""The transform ``unroll``: several turns of a loop written one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.index import ceildiv
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Body, Loop, statements
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.dims import mod, symbol

MOST_STATEMENTS = 2048
"""Statements that one unrolled loop may have, so that no schedule compiles for minutes."""


@register
@dataclass(frozen=True, slots=True)
class Unroll(Transform):
    """Each turn of the loop ``.u`` does ``factor`` turns, which divides their number."""

    word: ClassVar[str] = "unroll"
    factor: int

    def rewritten(self, loop: Loop) -> Body:
        """One loop of the same kind; all turns in one where there are as many as the factor."""
        if self.factor < 1 or mod(loop.extent, self.factor) != 0:
            raise self.refused(f"it is not known that {self.factor} divides {loop.extent}")
        if loop.kind not in ("parallel", "serial") or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}")
        size = self.factor * len(list(statements(loop.body)))
        if size > MOST_STATEMENTS:
            raise self.refused(f"{size} statements, where {MOST_STATEMENTS} are allowed")
        name = f"{loop.var}.u"
        extent = ceildiv(loop.extent, self.factor)
        first = 0 if extent == 1 else self.factor * symbol(name)
        copies = (
            Rewriting({loop.var: first + turn}, suffix=f".{turn}").body(loop.body)
            for turn in range(self.factor)
        )
        body = tuple(s for copy in copies for s in copy)
        return body if extent == 1 else (replace(loop, var=name, extent=extent, body=body),)
