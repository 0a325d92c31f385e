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
from dlvm.ir.dims import at_least, mod, substitute, symbol

from .bind import LANES

Touch: TypeAlias = Literal["own", "read", "any"]
"""What lanes touch of an array: each elements of its own, elements that they read, or any."""
Touches: TypeAlias = "dict[str, Touch]"
"""What is touched of each array that lanes share."""


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
        body = team.body(loop.body).body
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
class _Done:
    """Statements of a lane, and what they touch before their first barrier and after their last.

    A barrier is one for some arrays; each array is looked at by itself.
    """

    body: Body
    first: Touches
    last: Touches


@dataclass
class _Team:
    """Statements of a block as those of each of its lanes."""

    lane: Dim
    width: int
    shared: set[str]
    indices: dict[str, Dim] = field(default_factory=dict[str, Dim])

    def body(self, body: Sequence[Statement]) -> _Done:
        """The statements, with a barrier where a lane needs what another one wrote."""
        done: list[Statement] = []
        first: Touches = {}
        last: Touches = {}
        passed: set[str] = set()
        for s in body:
            if isinstance(s, Local) and s.name in self.shared:
                continue
            made = self._statement(s)
            if arrays := _clashes(last, made.first):
                done.append(Barrier(arrays))
                passed |= {*arrays}
                for name in arrays:
                    del last[name]
            done += made.body
            for name, touch in made.first.items():
                if name not in passed:
                    first[name] = _both(first.get(name), touch)
            passed |= {name for name in made.first if name not in made.last}
            for name, touch in made.last.items():
                last[name] = _both(last.get(name), touch)
        return _Done(tuple(done), first, last)

    def _statement(self, s: Statement) -> _Done:
        if isinstance(s, Loop) and s.kind == "parallel":
            return self._alone(self._turns(s))
        if isinstance(s, Loop):
            inside = self.body(s.body)
            body, last = inside.body, dict(inside.last)
            if arrays := _clashes(last, inside.first):
                body = (*body, Barrier(arrays))  # before the next turn
                some = at_least(s.extent, 1)
                for name in arrays if some else ():
                    del last[name]
            return _Done((replace(s, body=body),), inside.first, last)
        if isinstance(s, Store) and (isinstance(s.memory, Buffer) or s.memory.name in self.shared):
            s = replace(s, where=guarded(s.where, -1 * self.lane))
        return self._alone((s,))

    def _alone(self, body: Body) -> _Done:
        """Statements without a barrier."""
        touches = self._touches(body)
        return _Done(body, touches, touches)

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

    def _touches(self, body: Body) -> Touches:
        found: Touches = {}
        for s in statements(body):
            if isinstance(s, Define):
                self.indices[s.name] = substitute(s.dim, self.indices)
            x = s.scalar if isinstance(s, Let) else s
            if isinstance(x, Load | Store) and x.memory.name in self.shared:
                far = substitute(x.offset, self.indices) - self.lane
                other: Touch = "read" if isinstance(x, Load) else "any"
                touch: Touch = "own" if mod(far, self.width) == 0 else other
                found[x.memory.name] = _both(found.get(x.memory.name), touch)
        return found


def _both(before: Touch | None, after: Touch) -> Touch:
    """What is touched by two accesses."""
    return after if before in (None, after) else "any"


def _clashes(before: Touches, after: Touches) -> tuple[str, ...]:
    """Arrays of which a lane may need what another one wrote, or write what another one reads."""
    fine = ({"own"}, {"read"})
    return tuple(n for n, t in before.items() if n in after and {t, after[n]} not in fine)
