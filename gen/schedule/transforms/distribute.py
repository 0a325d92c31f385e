"""The transform ``distribute``: a loop around several loops as several, each around one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.simplify import used
from dlvm.gen.loops.statements import Bind, Body, Define, Let, Loop, Statement
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import symbol


@register
@dataclass(frozen=True, slots=True)
class Distribute(Transform):
    """One loop for each of the loops inside, with ``.0``, ``.1`` and so on behind their names.

    Scalars before them are computed in each that uses them.
    """

    word: ClassVar[str] = "distribute"

    def rewritten(self, loop: Loop) -> Body:
        """The loops; the turns must be independent, and hold nothing but loops and scalars."""
        if loop.kind != "parallel" or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}, not parallel")
        if not all(isinstance(s, Loop | Let | Define | Bind) for s in loop.body):
            raise self.refused("it holds more than loops and scalars")
        done: list[Statement] = []
        before: list[Statement] = []
        for s in loop.body:
            if not isinstance(s, Loop):
                before.append(s)
                continue
            suffix = f".{len(done)}"
            name = f"{loop.var}{suffix}"
            copy = Rewriting({loop.var: symbol(name)}, suffix=suffix)
            done.append(replace(loop, var=name, body=used(copy.body((*before, s)))))
        return tuple(done)
