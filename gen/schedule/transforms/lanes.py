"""The transform ``lanes``: the lanes of a block share the parallel loops of what the block does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

from dlvm.gen.loops.index import ceildiv, guarded
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    Barrier,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Product,
    Search,
    Sort,
    Statement,
    Store,
    Where,
    statements,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.dims import at_least, mod, symbol

from .bind import LANES

Touch: TypeAlias = Literal["nothing", "own", "read", "any"]
"""What lanes touch of what they share: nothing, each its own element, elements that they read,
or any."""


@register
@dataclass(frozen=True, slots=True)
class Lanes(Transform):
    """``width`` lanes run each block: a parallel loop inside becomes what its lanes do.

    All of them compute the statements outside of such loops, and the first one stores them. Arrays
    that several lanes touch are shared, with barriers where one needs what another wrote.
    """

    word: ClassVar[str] = "lanes"
    width: int

    def rewritten(self, loop: Loop) -> Body:
        """The block with a loop over its lanes."""
        if not 1 <= self.width <= LANES:
            raise self.refused(f"a block has 1 to {LANES} lanes, not {self.width}")
        if loop.kind != "block":
            raise self.refused(f"the turns of the loop are {loop.kind}, not blocks")
        for s in statements(loop.body):
            if isinstance(s, Product | Sort) or (
                isinstance(s, Let) and isinstance(s.scalar, Search)
            ):
                raise self.refused("only one lane can run the statements in the block")
            if isinstance(s, Loop) and s.kind not in ("parallel", "serial"):
                raise self.refused(f"the turns of {s.var} are {s.kind} already")
        shared = _shared(loop.body)
        name = f"{loop.var}.lane"
        team = _Team(symbol(name), self.width, {s.name for s in shared})
        body, _, _ = team.body(loop.body)
        arrays = (replace(s, shared=True) for s in shared)
        return (replace(loop, body=(*arrays, Loop(name, self.width, "lane", body))),)


def _shared(body: Body) -> list[Local]:
    """The arrays that are declared outside of parallel loops and touched inside of one."""
    touched = {
        memory.name
        for s in statements(body)
        if isinstance(s, Loop) and s.kind == "parallel"
        for memory in map(_memory, statements(s.body))
        if isinstance(memory, Local)
    }
    return [s for s in _outside(body) if isinstance(s, Local) and s.name in touched]


def _outside(body: Body) -> list[Statement]:
    """Statements outside of every parallel loop."""
    found: list[Statement] = []
    for s in body:
        found.append(s)
        if isinstance(s, Loop) and s.kind != "parallel":
            found += _outside(s.body)
    return found


def _memory(s: Statement) -> object:
    access = s.scalar if isinstance(s, Let) else s
    return access.memory if isinstance(access, Load | Store) else None


@dataclass
class _Team:
    """Statements of a block as those of each of its lanes."""

    lane: Dim
    width: int
    shared: set[str]
    loops: int = field(default=0)

    def body(self, body: Sequence[Statement]) -> tuple[Body, Touch, Touch]:
        """The statements, and what the first and the last of them touch of what is shared."""
        done: list[Statement] = []
        first: Touch = "nothing"
        last: Touch = "nothing"
        for s in body:
            if isinstance(s, Local) and s.name in self.shared:
                continue
            made, begin, end = self._statement(s)
            if _needs_barrier(last, begin):
                done.append(Barrier())
            done += made
            first = begin if first == "nothing" else first
            last = end if end != "nothing" else last
        return tuple(done), first, last

    def _statement(self, s: Statement) -> tuple[Body, Touch, Touch]:
        if isinstance(s, Loop) and s.kind == "parallel":
            made = self._turns(s)
            touch = self._touch(made)
            return made, touch, touch
        if isinstance(s, Loop):
            inside, first, last = self.body(s.body)
            if _needs_barrier(last, first):
                inside = (*inside, Barrier())  # before the next turn
                last = "nothing"
            return (replace(s, body=inside),), first, last
        if isinstance(s, Store) and (isinstance(s.memory, Buffer) or s.memory.name in self.shared):
            s = replace(s, where=guarded(s.where, -1 * self.lane))
        touch = self._touch((s,))
        return (s,), touch, touch

    def _turns(self, loop: Loop) -> Body:
        """The turns of a parallel loop that a lane does: one, or every ``width``-th."""
        n, most = loop.extent, loop.limit
        if at_least(self.width, n) or (most is not None and most <= self.width):
            guard: Where = () if n == self.width else (n - 1 - self.lane,)
            return Rewriting({loop.var: self.lane}, guard).body(loop.body)
        turn = f"{loop.var}.t"
        at = self.width * symbol(turn) + self.lane
        guard = () if mod(n, self.width) == 0 else (n - 1 - at,)
        body = Rewriting({}, guard).body(loop.body)
        index = Define(loop.var, at, n - 1, guard)
        return (Loop(turn, ceildiv(n, self.width), "serial", (index, *body)),)

    def _touch(self, body: Body) -> Touch:
        accesses = [s.scalar if isinstance(s, Let) else s for s in statements(body)]
        shared = [
            x for x in accesses if isinstance(x, Load | Store) and x.memory.name in self.shared
        ]
        if not shared:
            return "nothing"
        if all(x.offset == self.lane for x in shared):
            return "own"
        return "read" if all(isinstance(x, Load) for x in shared) else "any"


def _needs_barrier(before: Touch, after: Touch) -> bool:
    """Whether one lane may need what another one wrote, or write what another one reads."""
    return "nothing" not in (before, after) and {before, after} not in ({"own"}, {"read"})
