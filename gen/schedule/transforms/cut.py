"""The transform ``cut``: a loop as two, one behind the other, each without what it decides."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.proofs import Facts
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Body, Loop
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import symbol, symbols


@register
@dataclass(frozen=True, slots=True)
class Cut(Transform):
    """The turns before ``at``, and those from there on, whose loops end in ``.0`` and ``.1``.

    Where a guard holds in all turns of one of the two, or in none, it is decided there:
    ``simplify`` takes it out.
    """

    word: ClassVar[str] = "cut"
    at: Dim

    def rewritten(self, loop: Loop) -> Body:
        """Both loops, with names of their own inside."""
        facts = Facts().given(loop.extent - 1)
        within = facts.nonnegative(self.at) and facts.nonnegative(loop.extent - self.at)
        if not within or any(n.startswith("%") for n in symbols(self.at)):
            raise self.refused(f"it is not known that {self.at} lies in 0..{loop.extent}")
        if loop.kind not in ("parallel", "serial") or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}")
        return (*self._part(loop, 0, self.at, ".0"), *self._part(loop, self.at, loop.extent, ".1"))

    def _part(self, loop: Loop, begin: Dim, end: Dim, suffix: str) -> Body:
        """The turns from one to before another."""
        name = f"{loop.var}{suffix}"
        copy = Rewriting({loop.var: begin + symbol(name)}, suffix=suffix)
        return (replace(loop, var=name, extent=end - begin, body=copy.body(loop.body)),)
