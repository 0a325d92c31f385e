"""The transform ``vectorize``: the turns of a loop as the lanes of vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.statements import (
    Barrier,
    Bind,
    Body,
    Define,
    Let,
    Loop,
    Product,
    Search,
    Sort,
    Statement,
    statements,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import symbols

WIDEST = 512
"""Lanes that one vector may have; each takes registers, and code of its own where there is none."""


@register
@dataclass(frozen=True, slots=True)
class Vectorize(Transform):
    """Several turns at once: ``width``, or (0) as many as the target's registers hold.

    With a ``strip``, that number of turns is taken at once while as many are left.
    """

    word: ClassVar[str] = "vectorize"
    width: int = 0
    strip: int = 0

    def rewritten(self, loop: Loop) -> Body:
        """The loop as one of vectors: its turns must be independent, and none be one already."""
        if not all(0 <= n <= WIDEST for n in (self.width, self.strip)):
            raise self.refused(f"a vector has at most {WIDEST} lanes")
        if loop.kind != "parallel":
            raise self.refused(f"the turns of the loop are {loop.kind}, not parallel")
        for s in statements(loop.body):
            if holds_no_lanes(s):
                raise self.refused("the loop holds a statement that takes one turn at a time")
            if isinstance(s, Loop) and s.kind == "vector":
                raise self.refused(f"the loop {s.var} in it has vectors already")
        if (uneven := loop_of_uneven_turns(loop)) is not None:
            raise self.refused(f"lanes need different numbers of turns of the loop {uneven.var}")
        width = self.width or loop.width
        return (replace(loop, kind="vector", width=width, strip=self.strip),)


def holds_no_lanes(s: Statement) -> bool:
    """Whether a statement takes one turn at a time: a product, a sort, a search, a barrier."""
    alone = isinstance(s, Let) and isinstance(s.scalar, Search)
    return alone or isinstance(s, Product | Sort | Barrier)


def loop_of_uneven_turns(loop: Loop) -> Loop | None:
    """The first loop inside that may need another number of turns in each turn of ``loop``.

    The lanes of a vector run every loop inside together, so its extent must be one number. An
    extent that depends on the variable of ``loop``, or on an index that its body reads, is not.
    """
    own = {loop.var}
    for s in statements(loop.body):
        if isinstance(s, Bind) or (isinstance(s, Define) and not own.isdisjoint(symbols(s.dim))):
            own.add(s.name)
        if isinstance(s, Loop) and not own.isdisjoint(symbols(s.extent)):
            return s
    return None
