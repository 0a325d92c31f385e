"""The transform ``interchange``: a loop and the one right inside it change places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import Bind, Body, Define, Let, Loop
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import symbols


@register
@dataclass(frozen=True, slots=True)
class Interchange(Transform):
    """The loop inside becomes the outer one.

    Between the two may stand what computes scalars, which each turn then does.
    """

    word: ClassVar[str] = "interchange"
    alone: ClassVar[bool] = True

    def rewritten(self, loop: Loop) -> Body:
        """The two loops in the other order; the turns of both must be independent."""
        *between, inner = loop.body
        if not (
            isinstance(inner, Loop) and all(isinstance(s, Let | Define | Bind) for s in between)
        ):
            raise self.refused("it holds more than one loop and scalars before it")
        if loop.kind != "parallel" or inner.kind != "parallel" or loop.grain != 0:
            raise self.refused(f"the turns of the loops are {loop.kind} and {inner.kind}")
        names = {loop.var, *(s.name for s in between if isinstance(s, Define | Bind))}
        if names & set(symbols(inner.extent)):
            raise self.refused(f"how long {inner.var} is depends on the turn of {loop.var}")
        return (replace(inner, body=(replace(loop, body=(*between, *inner.body)),)),)
