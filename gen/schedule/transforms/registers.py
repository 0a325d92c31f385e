"""The transform ``registers``: turns side by side, whose sums registers hold together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Body, Check, Loop, Statement, statements
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import floordiv, mod, symbol

from .unroll import MOST_STATEMENTS


@register
@dataclass(frozen=True, slots=True)
class Registers(Transform):
    """Each turn of the loop ``.u`` does ``count`` turns statement by statement; ``.r`` the rest.

    The loops inside are shared by these turns, so what several of them read is read once, and
    each has a sum of its own on the way. Turns are independent, so each fold keeps its order.
    """

    word: ClassVar[str] = "registers"
    alone: ClassVar[bool] = True
    count: int

    def against(self, loop: Loop) -> str:
        """Why this can't be done with a loop; nothing if it can."""
        inside = list(statements(loop.body))
        size = self.count * len(inside)
        if self.count < 1:
            return f"a turn does 1 turn or more, not {self.count}"
        if loop.kind != "parallel" or loop.grain != 0:
            return f"the turns of the loop are {loop.kind}, not parallel"
        if any(isinstance(s, Check) for s in inside):
            return "which of its turns fails first is asked for"
        if size > MOST_STATEMENTS:
            return f"{size} statements, where {MOST_STATEMENTS} are allowed"
        return ""

    def rewritten(self, loop: Loop) -> Body:
        """The loop over so many turns at once, and one over those that are left."""
        if reason := self.against(loop):
            raise self.refused(reason)
        whole, rest = floordiv(loop.extent, self.count), mod(loop.extent, self.count)
        name = f"{loop.var}.u"
        copies = [
            Rewriting({loop.var: self.count * symbol(name) + turn}, suffix=f".{turn}").body(
                loop.body
            )
            for turn in range(self.count)
        ]
        done: list[Statement] = []
        if whole != 0:
            body = together(copies)
            done.append(replace(loop, var=name, extent=whole, body=body, limit=None))
        if rest != 0:
            last = Rewriting({loop.var: loop.extent - rest + symbol(f"{loop.var}.r")}, suffix=".r")
            body = last.body(loop.body)
            done.append(replace(loop, var=f"{loop.var}.r", extent=rest, body=body, limit=None))
        return tuple(done)


def together(copies: Sequence[Body]) -> Body:
    """Copies of one body, statement by statement; loops of one length are one loop."""
    done: list[Statement] = []
    for turns in zip(*copies, strict=True):
        first = turns[0]
        loops = [s for s in turns if isinstance(s, Loop)]
        if isinstance(first, Loop) and all(s.extent == first.extent for s in loops):
            same = [
                Rewriting({s.var: symbol(first.var)}).body(s.body) if s is not first else s.body
                for s in loops
            ]
            done.append(replace(first, body=together(same)))
        else:
            done += turns
    return tuple(done)
