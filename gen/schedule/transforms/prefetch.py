"""The transform ``prefetch``: the next row asked for while the last one is read again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import Bind, Body, Buffer, Define, Let, Load, Loop, statements
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute, symbols


@register
@dataclass(frozen=True, slots=True)
class Prefetch(Transform):
    """In the second sweep over what a turn reads, the same of the next turn is brought near."""

    word: ClassVar[str] = "prefetch"

    def rewritten(self, loop: Loop) -> Body:
        """The loop, marked: threads take many turns of it, in which a row is read twice."""
        if loop.grain == 0:
            raise self.refused("threads do not share its turns")
        if not reads_again(loop):
            raise self.refused("no turn reads a row of an operand twice")
        return (replace(loop, ahead=True),)


def reads_again(loop: Loop) -> bool:
    """Whether a turn of the innermost shared loop reads elements of a buffer in two sweeps.

    Sweeps over one row differ in the loops that they take, and begin at the same element.
    """
    inside = [*statements(loop.body)]
    row = loop.chain[-1].var
    defines = {s.name: s.dim for s in inside if isinstance(s, Define)}
    moving = {s.var for s in inside if isinstance(s, Loop)} | {loop.var}
    moving |= {s.name for s in inside if isinstance(s, Bind)}
    sweeps: defaultdict[tuple[str, Dim], set[Dim]] = defaultdict(set)
    for s in inside:
        if isinstance(s, Let) and isinstance(load := s.scalar, Load):
            offset = load.offset
            while any(name in defines for name in symbols(offset)):
                offset = substitute(offset, defines)
            if isinstance(load.memory, Buffer) and row in symbols(offset):
                start = substitute(offset, dict.fromkeys(moving - {row}, 0))
                sweeps[load.memory.name, start].add(offset)
    return any(len(found) > 1 for found in sweeps.values())
