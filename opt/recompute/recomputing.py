"""Recomputation until a body meets a budget of memory: kernels are run again, not kept.

Seen after fusion and ordering, when what is kept is known: each value that is alive where too
much is alive, and read later, may be computed again just before it is read, from what is alive
there. The one is taken that saves the most for its operations; a step must lower the excess,
the bytes above the budget summed over the body.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from dlvm import cost
from dlvm.cost import size_in_bytes, sum_of, time, typical
from dlvm.ir import Function, Op, Param, Value
from dlvm.ir.rewrite import Env, mapped
from dlvm.ops import Kernel
from dlvm.opt.facts import pure

from .ordering import StorageRoots, alive_inside, overwritten, overwritten_bytes

MOST_RECOMPUTED = 400
TRIED = 4
LARGEST = 48
"""How many operations may be run again for one value."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value to be computed again before the operation at a place, by running some again."""

    value: Value
    place: int
    again: tuple[Op, ...]
    work: int
    score: float


class Lives:
    """What is alive at each operation of a body; results lie in memory of the caller's.

    ``again`` says which operations are there to compute something again, ``known`` what was asked
    of operations before, most of which stay from one attempt to the next.
    """

    def __init__(
        self, fn: Function, again: Sequence[bool], known: dict[Op, int | None] | None = None
    ) -> None:
        self.fn, self.again = fn, again
        self.known = {} if known is None else known
        self.storage, self.written = _in_place(fn)
        self.maker = {r: op for op in fn.ops for r in op.results}
        self.index = {op: i for i, op in enumerate(fn.ops)}
        self.results = set(self.storage.roots(fn.results))
        self.uses: dict[Value, list[int]] = {}
        for i, op in enumerate(fn.ops):
            for root in self.storage.roots(op.operands):
                self.uses.setdefault(root, []).append(i)
        self.alive = self._alive()

    def bytes(self, root: Value) -> int:
        """The memory that a value takes of ours."""
        return 0 if root in self.results else self.storage.bytes.get(root, 0)

    def last(self, root: Value) -> int:
        """Where a value is read last, or made if it is not."""
        if root in self.results or isinstance(root, Param):
            return len(self.fn.ops)
        return self.uses.get(root, [self.index[self.maker[root]]])[-1]

    def _alive(self) -> list[int]:
        change = [0] * (len(self.fn.ops) + 2)
        ending: dict[int, list[Value]] = {}
        for root in dict.fromkeys(self.storage.root.values()):
            if root in self.maker and (size := self.bytes(root)):
                change[self.index[self.maker[root]]] += size
                change[self.last(root) + 1] -= size
                ending.setdefault(self.last(root), []).append(root)
        found: list[int] = []
        now = 0
        for i, op in enumerate(self.fn.ops):
            now += change[i]
            found.append(now + alive_inside(op) - overwritten_bytes(op, ending.get(i, ())))
        return found

    def work(self, op: Op) -> int | None:
        """What it costs to run an operation again; None where it may not."""
        if op not in self.known:
            self.known[op] = _time(op) if pure(op) and not op.may_raise else None
        return self.known[op]

    def excess(self, budget: int) -> int:
        """How much too much is alive, summed over the operations and what runs again for each."""
        total = most = 0
        for alive, again in zip(self.alive, self.again, strict=True):
            most = max(most, alive - budget)
            if not again:
                total, most = total + most, 0
        return total


def _in_place(fn: Function) -> tuple[StorageRoots, set[Value]]:
    """The memory of values, and what is written over there.

    A scatter writes into its operand if nobody reads that later.
    """
    storage, written = StorageRoots(fn, ()), set[Value]()
    last: dict[Value, int] = {}
    for i, op in enumerate(fn.ops):
        last.update(dict.fromkeys(storage.roots(op.operands), i))
    last.update(dict.fromkeys(storage.roots(fn.results), len(fn.ops)))
    for i, op in enumerate(fn.ops):
        for target in overwritten(op, {}):
            root = storage.of(target)
            new = next((r for r in op.results if r.type == target.type), None)
            if new is not None and last.get(root) == i and not isinstance(root, Param):
                last[root] = last.get(new, i)
                written.add(root)
                storage.root.update({v: root for v, r in storage.root.items() if r is new})
    return storage, written


def within(fn: Function, budget: int) -> Function:
    """The body with recomputation until no more than ``budget`` bytes are alive, if that can be."""
    lives = Lives(fn, (False,) * len(fn.ops))
    for _ in range(MOST_RECOMPUTED):
        excess = lives.excess(budget)
        if not excess:
            break
        found = _best(lives, budget, excess)
        if found is None:
            break
        lives = found
    return lives.fn


def _best(lives: Lives, budget: int, excess: int) -> Lives | None:
    """What follows from the choice that saves most for its operations; None where none saves.

    The estimates say which to try first, and when no other can be better.
    """
    best, most = None, 0.0
    for choice in nlargest(TRIED, _choices(lives, budget), key=lambda c: c.score):
        if choice.score <= most:
            break
        new = Lives(*_applied(lives, choice), lives.known)
        saved = (excess - new.excess(budget)) / choice.work
        if saved > most:
            best, most = new, saved
    return best


def _choices(lives: Lives, budget: int) -> Iterator[Choice]:
    columns = zip(lives.alive, lives.again, strict=True)
    over = [i for i, (alive, again) in enumerate(columns) if alive > budget and not again]
    for root, uses in lives.uses.items():
        size, op = lives.bytes(root), lives.maker.get(root)
        if not size or op is None or root in lives.written or lives.work(op) is None:
            continue
        places = [*dict.fromkeys(uses)]
        for before, place in zip([lives.index[op], *places], places, strict=False):
            held = bisect_left(over, place) - bisect_left(over, before + 1)
            if held <= 0:
                continue
            again = _needed(lives, root, place)
            if again is not None:
                work = 1 + sum(lives.work(op) or 0 for op in again)
                yield Choice(root, place, again, work, size * held / work)


def _needed(lives: Lives, root: Value, place: int) -> tuple[Op, ...] | None:
    """What must run again so that a value is there, from what is alive at a place anyway."""
    again: set[Op] = set()
    pending = [lives.maker[root]]
    while pending:
        op = pending.pop()
        if op in again:
            continue
        if lives.work(op) is None or len(again) == LARGEST:
            return None
        again.add(op)
        for value in op.operands:
            held = lives.storage.of(value)
            if held in lives.maker and lives.last(held) < place:
                pending.append(lives.maker[value])
    return tuple(sorted(again, key=lives.index.__getitem__))


def _time(op: Op) -> int:
    """About how long an operation takes whose operands are read from memory."""
    read = cost.STEP * sum_of(size_in_bytes(v.type) for v in op.operands)
    return typical(read + time(op))


def _applied(lives: Lives, choice: Choice) -> tuple[Function, list[bool]]:
    """The body in which operations run again at a place, for what is read from there on."""
    fn, env = lives.fn, Env()
    ops: list[Op] = list(fn.ops[: choice.place])
    flags = list(lives.again[: choice.place])
    wanted = {choice.value, *(v for op in choice.again for v in op.operands)}
    for op in choice.again:
        new = _narrowed(op, wanted, env)
        ops.append(new[0])
        env.update(new[1])
    flags += (True,) * len(choice.again)
    for op, again in zip(fn.ops[choice.place :], lives.again[choice.place :], strict=True):
        stale = {v for v in op.operands if v not in env and lives.storage.of(v) is choice.value}
        for view in sorted(stale, key=lambda v: lives.index[lives.maker[v]]):
            ops += (views := _viewed(lives, view, env))
            flags += (True,) * len(views)
        flags.append(again)
        if env.keys().isdisjoint(op.operands):
            ops.append(op)
            continue
        new_op = op.rebuild(mapped(op.operands, env))
        env.update(zip(op.results, new_op.results, strict=True))
        ops.append(new_op)
    results = tuple(mapped(fn.results, env))
    return replace(fn, ops=tuple(ops), results=results), flags


def _viewed(lives: Lives, view: Value, env: Env) -> list[Op]:
    """The reshapes between what was computed again and a view of it."""
    chain: list[Op] = []
    while view not in env:
        op = lives.maker[view]
        chain.append(op)
        view = op.operands[0]
    new: list[Op] = []
    for op in reversed(chain):
        new.append(op.rebuild(mapped(op.operands, env)))
        env.update(zip(op.results, new[-1].results, strict=True))
    return new


def _narrowed(op: Op, wanted: set[Value], env: Env) -> tuple[Op, Env]:
    """An operation again; a kernel of plain loops with the results that are wanted only."""
    operands = mapped(op.operands, env)
    keep = [i for i, r in enumerate(op.results) if r in wanted]
    if not (isinstance(op, Kernel) and op.family == "loops" and 0 < len(keep) < len(op.results)):
        new = op.rebuild(operands)
        return new, dict(zip(op.results, new.results, strict=True))
    results = tuple(op.body.results[i] for i in keep)
    ops, read = needed(op.body.ops, results)
    used = [i for i, p in enumerate(op.body.params) if p in read]
    params = tuple(op.body.params[i] for i in used)
    body = Function(op.body.name, params, ops, results)
    new = Kernel(tuple(operands[i] for i in used), body, op.family, op.tree)
    new.origin = op.origin
    return new, dict(zip((op.results[i] for i in keep), new.results, strict=True))


def needed(ops: Sequence[Op], results: Sequence[Value]) -> tuple[tuple[Op, ...], set[Value]]:
    """The operations that some results need, and all values that these and the results read."""
    read: set[Value] = set(results)
    kept: list[Op] = []
    for op in reversed(ops):
        if any(r in read for r in op.results):
            kept.append(op)
            read.update(op.operands)
    return tuple(reversed(kept)), read
