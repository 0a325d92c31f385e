"""The transform ``unroll``: several turns of a loop written one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Body, Loop, statements
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv, mod, symbol

MOST_STATEMENTS = 2048
"""Statements that one unrolled loop may have, so that no schedule compiles for minutes."""


@register
@dataclass(frozen=True, slots=True)
class Unroll(Transform):
    """Each turn of the loop ``.u`` does ``factor`` turns; the loop ``.r`` does the rest."""

    word: ClassVar[str] = "unroll"
    factor: int

    def rewritten(self, loop: Loop) -> Body:
        """Loops of the same kind; none where there are as many turns as the factor."""
        if self.factor < 1:
            raise self.refused(f"a turn does 1 turn or more, not {self.factor}")
        if loop.kind not in ("parallel", "serial") or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}")
        size = self.factor * len(list(statements(loop.body)))
        if size > MOST_STATEMENTS:
            raise self.refused(f"{size} statements, where {MOST_STATEMENTS} are allowed")
        rest = mod(loop.extent, self.factor)
        whole = floordiv(loop.extent, self.factor)
        unrolled = () if whole == 0 else self._unrolled(loop, whole, known=whole == 1)
        return unrolled if rest == 0 else (*unrolled, self._rest(loop, loop.extent - rest, rest))

    def _unrolled(self, loop: Loop, turns: Dim, known: bool) -> Body:
        """As many turns written out as the factor, in a loop unless there are no more."""
        name = f"{loop.var}.u"
        first = 0 if known else self.factor * symbol(name)
        copies = (
            Rewriting({loop.var: first + turn}, suffix=f".{turn}").body(loop.body)
            for turn in range(self.factor)
        )
        body = tuple(s for copy in copies for s in copy)
        return body if known else (replace(loop, var=name, extent=turns, body=body, limit=None),)

    def _rest(self, loop: Loop, first: Dim, turns: Dim) -> Loop:
        """What is left, turn by turn."""
        name = f"{loop.var}.r"
        copy = Rewriting({loop.var: first + symbol(name)}, suffix=".r").body(loop.body)
        return replace(loop, var=name, extent=turns, body=copy, limit=None)
