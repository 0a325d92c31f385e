"""The transform ``split``: a loop as a loop over pieces, and one over the turns of a piece."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.index import ceildiv, piece
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Body, Define, Loop
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import mod, symbol

TAILS = ("cut", "mask")


@register
@dataclass(frozen=True, slots=True)
class Split(Transform):
    """Pieces of ``size`` turns: the loop ``.o`` over pieces, and in it the loop ``.i``.

    The last piece may be shorter. Where the ``tail`` is cut, the inner loop has fewer turns then;
    where it is a mask, it has as many, and those too many touch nothing.
    """

    word: ClassVar[str] = "split"
    size: int
    tail: str = "cut"

    def rewritten(self, loop: Loop) -> Body:
        """Two loops of the kind that the one was."""
        if self.size < 1:
            raise self.refused(f"a piece has 1 turn or more, not {self.size}")
        if self.tail not in TAILS:
            raise self.refused(f"the tail is one of {', '.join(TAILS)}, not {self.tail}")
        if loop.kind not in ("parallel", "serial") or loop.grain != 0:
            raise self.refused(f"the turns of the loop are {loop.kind}")
        outer, inner = f"{loop.var}.o", f"{loop.var}.i"
        at, last = self.size * symbol(outer) + symbol(inner), loop.extent - 1
        whole = mod(loop.extent, self.size) == 0
        masked = self.tail == "mask" and not whole
        guard = (last - at,) if masked else ()
        index = Define(loop.var, at, last, guard)
        count = self.size if masked else piece(self.size, loop.extent, symbol(outer))
        body = (index, *Rewriting({}, guard).body(loop.body))
        within = replace(loop, var=inner, extent=count, body=body, limit=self.size)
        return (
            replace(
                within,
                var=outer,
                extent=ceildiv(loop.extent, self.size),
                body=(within,),
                limit=None,
            ),
        )
