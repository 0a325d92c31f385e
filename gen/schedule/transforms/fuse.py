"""The transform ``fuse``: loops right inside one another as one loop over all their turns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import Bind, Body, Define, Let, Loop, Statement
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import product, symbol, symbols
from dlvm.ir.sizes.positions import split


@register
@dataclass(frozen=True, slots=True)
class Fuse(Transform):
    """``levels`` loops become one, called by the name of the outermost and ``.f``.

    Between them may stand what computes scalars, which each turn then does.
    """

    word: ClassVar[str] = "fuse"
    levels: int = 2

    def rewritten(self, loop: Loop) -> Body:
        """The one loop; the turns of all must be independent, and none ask for another's."""
        chain, between = self._chain(loop)
        sizes = tuple(s.extent for s in chain)
        name = f"{loop.var}.f"
        index = split(symbol(name), sizes)
        values = {s.var: at for s, at in zip(chain, index, strict=True)}
        body = Rewriting(values).body((*between, *chain[-1].body))
        return (replace(loop, var=name, extent=product(sizes), body=body, limit=None, width=0),)

    def _chain(self, loop: Loop) -> tuple[list[Loop], list[Statement]]:
        """The loops, outermost first, and the statements between them."""
        chain = nested(loop)[: self.levels]
        if loop.kind != "parallel" or self.levels < 1 or len(chain) < self.levels:
            raise self.refused(
                f"{len(chain) if loop.kind == 'parallel' else 0} loops stand right inside one "
                "another whose turns are independent"
            )
        return chain, [t for s in chain[:-1] for t in s.body[:-1]]


def nested(loop: Loop) -> list[Loop]:
    """A loop and those right inside it, behind nothing but scalars, that are as independent."""
    chain = [loop]
    while True:
        *before, last = chain[-1].body
        plain = all(isinstance(s, Let | Define | Bind) for s in before)
        same = isinstance(last, Loop) and last.kind == "parallel" and last.limit is None
        if not (plain and same and isinstance(last, Loop)):
            return chain
        if {s.var for s in chain} & set(symbols(last.extent)):
            return chain
        chain.append(last)
