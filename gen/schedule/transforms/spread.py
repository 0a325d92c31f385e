"""The transform ``spread``: chunks of a fold in any order, and then what they give, in theirs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.simplify import used
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    Scalar,
    Store,
    accesses,
    scalars,
    statements,
)
from dlvm.gen.schedule.chunks import cut_chunk
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import TensorType
from dlvm.ir.sizes.dims import symbol, symbols


@register
@dataclass(frozen=True, slots=True)
class Spread(Transform):
    """Turns of a loop that each fold into arrays of their own and add what comes out to a total.

    They are independent but for that: what comes out is written to memory first, and the loop
    ``.sum`` adds it turn by turn, as before.
    """

    word: ClassVar[str] = "spread"
    makes_memory: ClassVar[bool] = True

    def rewritten(self, loop: Loop) -> Body:
        """A loop of independent turns, and the loop that adds what they give."""
        made = spread(loop)
        if made is None:
            raise self.refused("its turns are no chunks of a fold, each of which adds to a total")
        return made


def spread(loop: Loop) -> Body | None:
    """The two loops in the place of one, if that can be."""
    head, tail = cut_chunk(loop)
    own = {s.name for s in statements(head) if isinstance(s, Local)}
    given = [s.scalar for s in tail if isinstance(s, Let) and _is_of(s.scalar, own)]
    known = loop.kind == "serial" and not any(n.startswith("%") for n in symbols(loop.extent))
    if not given or not known or not _is_all(head, tail, own):
        return None
    rooms = [
        Buffer(f"{loop.var[1:]}.{j}", TensorType(x.dtype, (loop.extent,)), "scratch")
        for j, x in enumerate(given)
    ]
    stores = [Store(b, symbol(loop.var), x) for b, x in zip(rooms, given, strict=True)]
    chunks = replace(loop, kind="parallel", body=(*head, *map(Let, given), *stores))
    name = f"{loop.var}.sum"
    loads: dict[Scalar, Scalar] = {
        x: Load(x.dtype, b, symbol(name)) for x, b in zip(given, rooms, strict=True)
    }
    adds = Rewriting({loop.var: symbol(name)}).body(renamed(tail, loads))
    return (chunks, replace(loop, var=name, body=used(adds)))


def _is_of(x: Scalar, own: set[str]) -> bool:
    return isinstance(x, Load) and x.memory.name in own


def _is_all(head: Body, tail: Body, own: set[str]) -> bool:
    """Whether the tail needs nothing of the head but what is given, and the head nothing of it."""
    made = {s.scalar for s in statements(head) if isinstance(s, Let)}
    plain = all(isinstance(s, Let | Store) for s in tail)
    alone = not any(x in made for s in tail for x in scalars(s))
    totals = {x.memory.name for x in accesses(tail) if isinstance(x, Store)}
    read = {x.memory.name for x in accesses(head)}
    return plain and alone and own.isdisjoint(totals) and read.isdisjoint(totals)
