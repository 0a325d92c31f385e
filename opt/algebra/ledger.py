"""What a change of a program saves: users are counted, and what nobody uses any more is free.

A law of linear algebra pays only if what it makes idle costs more than what it adds. A product
that somebody else reads stays, and a value that is there already costs nothing a second time. The
ledger knows both: it counts the uses of every value, and finds operations by what they compute.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm import cost
from dlvm.cost import Work, work
from dlvm.ir import Builder, Op, Part, Value
from dlvm.ir.rewrite import Env, renewed
from dlvm.ops import Add, Assume, Mul, Neg, Permute, Sub
from dlvm.ops.families import Contraction
from dlvm.opt.beforehand import is_prepared
from dlvm.opt.facts import pure


@dataclass(frozen=True, slots=True)
class Proposal:
    """A value in place of an operation, the operations to be added, and both sides' costs."""

    value: Value
    ops: tuple[Op, ...]
    before: Work
    after: Work
    gone: Work
    """The cost of what is replaced by nothing of its kind and cost."""

    @property
    def saved(self) -> Work:
        """What is saved."""
        return self.before - self.after

    @property
    def gain(self) -> int:
        """Picoseconds that are saved."""
        return self.saved.time

    @property
    def pays(self) -> bool:
        """Whether it saves a large enough part of what goes, and does not come again."""
        return self.gain * cost.WORTH > self.gone.time


PASSING = Permute | Neg | Add | Sub | Mul | Assume
"""Operations through which a product is a part of a longer one."""


class Ledger:
    """The uses of every value while operations are rewritten, all of which are needed."""

    def __init__(self, ops: Sequence[Op], results: Iterable[Value]) -> None:
        self.uses: dict[Value, int] = defaultdict(int)
        self.idle: set[Op] = set()
        self._twins: dict[Any, Op] = {}
        self._work: dict[Op, Work] = {}
        self._factors: set[Value] = set()
        for op in reversed(ops):
            if isinstance(op, Contraction) or (op in self._factors and isinstance(op, PASSING)):
                self._factors.update(op.operands)
        for v in (*(v for op in ops for v in op.operands), *results):
            self.uses[v] += 1

    def alone(self, value: Value) -> bool:
        """Whether a value has a single user."""
        return self.uses[value] == 1

    def inside(self, value: Value) -> bool:
        """Whether a value is only a part of a longer product, or of a sum that is multiplied."""
        return value in self._factors and self.alone(value)

    def keep(self, op: Op) -> None:
        """An operation stands where it is: what computes the same later costs nothing."""
        if not op.holds_regions and pure(op):
            self._twins.setdefault(op.key(), op)

    def renew(self, old: Op, new: Op) -> None:
        """An operation on substituted operands takes the place of the one before."""
        for before, after in zip(old.results, new.results, strict=True):
            self.uses[after] = self.uses.pop(before, 0)
            if before in self._factors:
                self._factors.add(after)

    def propose(self, op: Op, make: Callable[[Op], Value | None]) -> Proposal | None:
        """What a law makes of an operation, with its price; None where it does not apply."""
        builder = Builder()
        builder.origin = op.origin
        with builder:
            value = make(op)
        if value is None or value is op:
            return None
        ops, value = self._without_twins(builder.ops, value)
        changes = self._book(op, ops, value)
        idle = self._idle_after(op, changes)
        self._undo(changes)
        before, after = self._counted(idle), self._counted(ops)
        works = (Work.sum(w for _, w in c.elements()) for c in (before, after, before - after))
        return Proposal(value, ops, *works)

    def accept(self, op: Op, chosen: Proposal) -> None:
        """Books a proposal; what became idle is found in ``idle``."""
        self.idle.update(self._idle_after(op, self._book(op, chosen.ops, chosen.value)))
        if op in self._factors:
            self._factors.add(chosen.value)
        for new in chosen.ops:
            self._factors.update(new.operands if isinstance(new, Contraction) else ())

    def work(self, op: Op) -> Work:
        """The cost of an operation, with usual numbers for open sizes; none if it is prepared."""
        if (found := self._work.get(op)) is None:
            found = self._work[op] = Work() if is_prepared(op) else work(op)
        return found

    def _counted(self, ops: Iterable[Op]) -> Counter[tuple[type[Op], Work]]:
        """How often each kind of operation occurs, with its cost."""
        return Counter((type(op), self.work(op)) for op in ops)

    def _without_twins(self, built: Sequence[Op], value: Value) -> tuple[tuple[Op, ...], Value]:
        """The operations that a value needs and that are not there yet."""
        env: Env = {}
        new: dict[Any, Op] = {}
        for op in built:
            here = renewed(op, env)
            key = here.key() if pure(here) and not here.holds_regions else here
            twin = self._twins.get(key)
            if twin is None or twin in self.idle:
                twin = new.setdefault(key, here)
            if twin is not op:
                env.update(zip(op.results, twin.results, strict=True))
        value = env.get(value, value)
        return _needed(tuple(new.values()), value), value

    def _book(self, op: Op, ops: Iterable[Op], value: Value) -> list[tuple[Value, int]]:
        """Counts what is added, and moves the users of an operation to a value."""
        users = self.uses[op]
        changes = [(v, 1) for new in ops for v in new.operands]
        changes += [(value, users), (op, -users)]
        for v, by in changes:
            self.uses[v] += by
        return changes

    def _undo(self, changes: Iterable[tuple[Value, int]]) -> None:
        for v, by in changes:
            self.uses[v] -= by

    def _idle_after(self, op: Op, changes: list[tuple[Value, int]]) -> list[Op]:
        """The operations that nobody uses once this one is not used; books that, too."""
        idle: list[Op] = []
        pending = [op]
        while pending:
            gone = pending.pop()
            if gone in self.idle or gone in idle or any(self.uses[r] for r in gone.results):
                continue
            if not pure(gone):
                continue
            idle.append(gone)
            for v in gone.operands:
                self.uses[v] -= 1
                changes.append((v, -1))
                if (maker := _maker(v)) is not None:
                    pending.append(maker)
        return idle


def _maker(value: Value) -> Op | None:
    if isinstance(value, Part):
        return value.op
    return value if isinstance(value, Op) else None


def _needed(ops: Sequence[Op], value: Value) -> tuple[Op, ...]:
    """Those of some operations that a value is computed from."""
    wanted: set[Value] = {value}
    found: list[Op] = []
    for op in reversed(ops):
        if not wanted.isdisjoint(op.results):
            wanted.update(op.operands)
            found.append(op)
    return tuple(reversed(found))
