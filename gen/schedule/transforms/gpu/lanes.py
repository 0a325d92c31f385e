"""The transform ``lanes``: the lanes of a block share the parallel loops of what the block does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, TypeAlias

from dlvm.gen.loops.index import ceildiv, guarded
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    WARP,
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
    accesses,
    statements,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least, mod, substitute, symbol

from .bind import LANES

Touch: TypeAlias = Literal["seen", "own", "read", "any"]
"""What lanes touch of an array.

Each reads elements of its own (``seen``), or writes them as well (``own``); or lanes read elements
of any lane (``read``), or may touch them in any way (``any``).
"""
FINE: tuple[frozenset[Touch], ...] = (frozenset({"own", "seen"}), frozenset({"read", "seen"}))
"""Touches that need no barrier between: nobody needs what another lane wrote."""
Touches: TypeAlias = "dict[str, Touch]"
"""What is touched of each array that lanes share."""


@register
@dataclass(frozen=True, slots=True)
class Lanes(Transform):
    """``width`` lanes run each block: a parallel loop inside becomes what its lanes do.

    All of them compute the statements outside of such loops, and the first one stores them. Arrays
    that several lanes touch are shared, and buffers are that are read and written, with barriers
    where one needs what another wrote.

    With several ``warps`` there are ``width`` lanes in each. A parallel loop with parallel loops
    inside is then one over what warps do, whose lanes share the loops inside; all lanes of the
    block share the others.
    """

    word: ClassVar[str] = "lanes"
    width: int
    warps: int = 1

    def rewritten(self, loop: Loop) -> Body:
        """The block with a loop over its lanes."""
        count = self.width * self.warps
        if min(self.width, self.warps) < 1 or count > LANES:
            raise self.refused(f"a block has 1 to {LANES} lanes, not {count}")
        if self.warps > 1 and self.width != WARP:
            raise self.refused(f"each of several warps has {WARP} lanes, not {self.width}")
        if loop.kind != "block":
            raise self.refused(f"the turns of the loop are {loop.kind}, not blocks")
        for s in statements(loop.body):
            if isinstance(s, Product | Sort) or (
                isinstance(s, Let) and isinstance(s.scalar, Search)
            ):
                raise self.refused("only one lane can run the statements in the block")
            if isinstance(s, Loop) and s.kind not in ("parallel", "serial", "vector"):
                raise self.refused(f"the turns of {s.var} are {s.kind} already")
        shared, worked_on = _shared(loop.body), rewritten_buffers(loop.body)
        arrays = (replace(s, shared=True) for s in shared)
        if self.warps > 1 and worked_on:
            raise self.refused("several warps read what others write to memory")
        if self.warps > 1:
            return (replace(loop, body=(*arrays, self._in_warps(loop, shared))),)
        lane = f"{loop.var}.lane"
        names = {s.name for s in shared} | {b.name for b in worked_on}
        team = _Team(symbol(lane), self.width, names)
        body = team.body(loop.body).body
        return (replace(loop, body=(*arrays, Loop(lane, self.width, "lane", body))),)

    def _in_warps(self, loop: Loop, shared: list[Local]) -> Loop:
        """The loop over warps, each with the arrays that only its own lanes share."""
        lane, warp = f"{loop.var}.lane", f"{loop.var}.warp"
        at = self.width * symbol(warp) + symbol(lane)
        names = {s.name for s in shared}
        warps = _Warps(symbol(lane), self.width, symbol(warp), self.warps)
        body = _Team(at, self.width * self.warps, names, warps).body(loop.body).body
        own = (replace(s, shared=True) for s in _shared_by_warps(loop.body))
        return Loop(warp, self.warps, "lane", (*own, Loop(lane, self.width, "lane", body)))


def rewritten_buffers(body: Body) -> set[Buffer]:
    """The buffers that are read, and written, so that lanes must wait for one another."""
    read, written = set[Buffer](), set[Buffer]()
    for x in accesses(body):
        if isinstance(x.memory, Buffer):
            (read if isinstance(x, Load) else written).add(x.memory)
    return read & written


def _is_of_warps(s: Statement) -> bool:
    """Whether the turns of a loop are dealt to warps."""
    inside = statements(s.body) if isinstance(s, Loop) and s.kind == "parallel" else ()
    return any(isinstance(t, Loop) and t.kind == "parallel" for t in inside)


def _shared_by_warps(body: Body) -> list[Local]:
    """The arrays that the lanes of one warp share."""
    loops = (s for s in _outside(body) if isinstance(s, Loop) and _is_of_warps(s))
    return [array for s in loops for array in _shared(s.body)]


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


@dataclass(frozen=True, slots=True)
class _Warps:
    """A lane in its warp of so many, and the warp in the block, which has ``count``."""

    lane: Dim
    width: int
    warp: Dim
    count: int

    def turns(self, loop: Loop, body: Body) -> Body:
        """The turns of a loop that a warp does: every ``count``-th."""
        turn = f"{loop.var}.t"
        index = Define(loop.var, self.count * symbol(turn) + self.warp, loop.extent - 1)
        extent = ceildiv(loop.extent - self.warp, self.count)
        return (Loop(turn, extent, "serial", (index, *body)),)


@dataclass
class _Team:
    """Statements of a block as those of each of its lanes; of several ``warps``, if it has them."""

    lane: Dim
    width: int
    shared: set[str]
    warps: _Warps | None = None
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
        if isinstance(s, Loop) and self.warps is not None and _is_of_warps(s):
            return self._alone(self._of_warps(s, self.warps))
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
            s = replace(s, where=guarded(s.where, *self._first()))
        return self._alone((s,))

    def _first(self) -> Where:
        """What holds in the first lane."""
        if self.warps is None:
            return (-1 * self.lane,)
        return (-1 * self.warps.lane, -1 * self.warps.warp)

    def _of_warps(self, loop: Loop, warps: _Warps) -> Body:
        """A loop whose turns are those of warps: each lane does a part of the loops inside.

        What a turn stores outside of these, the first lane of its warp stores.
        """
        own = {s.name for s in _shared(loop.body)}
        inside = _Team(warps.lane, warps.width, own | self.shared).body(loop.body)
        again = tuple(n for n in _clashes(inside.last, inside.first) if n in own)
        wait = (Barrier(again),) if again else ()  # before the next turn
        return warps.turns(loop, (*inside.body, *wait))

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
                mine, other = _OF_LOAD if isinstance(x, Load) else _OF_STORE
                touch = mine if mod(far, self.width) == 0 else other
                found[x.memory.name] = _both(found.get(x.memory.name), touch)
        return found


_OF_LOAD: tuple[Touch, Touch] = ("seen", "read")
_OF_STORE: tuple[Touch, Touch] = ("own", "any")


def _both(before: Touch | None, after: Touch) -> Touch:
    """What is touched by two accesses."""
    if before in (None, after):
        return after
    fine = any({before, after} <= f for f in FINE)
    return ("own" if "own" in (before, after) else "read") if fine else "any"


def _clashes(before: Touches, after: Touches) -> tuple[str, ...]:
    """Arrays of which a lane may need what another one wrote, or write what another one reads."""
    return tuple(
        n for n, t in before.items() if n in after and not any({t, after[n]} <= f for f in FINE)
    )
