"""A second look at the groups: what only one later kernel reads is computed there.

The first walk puts an operation where its operands are. A short element-wise chain whose only
reader is another kernel does better there: one tensor less is written and kept until it is
read, as ``1 - tanh(x)**2`` from the forward half of a gradient for its backward half.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dlvm.ir import Function, Op, Value
from dlvm.ir.decisions import allowed
from dlvm.ops.families import Elementwise, Reduction

from .groups import MOST_OPS, Group, as_one, fits
from .partition import Partition

LONGEST = 8
JOINABLE = ("loops", "product")


def rehome(groups: Partition, fn: Function) -> None:
    """Move element-wise chains to their only reader, where that saves a tensor in memory."""
    uses = Uses(groups, fn)
    for op in reversed(fn.ops):
        if isinstance(op, Elementwise) and op.results == (op,) and op in groups.home:
            reader = uses.only_reader(op)
            chain = [] if reader is None else uses.chain(op, reader)
            if reader and chain and allowed(rehome, (*chain, *reader.members), "one kernel"):
                uses.move(chain, reader)


@dataclass
class Uses:
    """Who reads each value of a partition: its operations, and groups through movements."""

    groups: Partition
    fn: Function
    direct: dict[Value, list[Op]] = field(default_factory=dict[Value, list[Op]])
    elsewhere: set[Value] = field(default_factory=set[Value])

    def __post_init__(self) -> None:
        self.elsewhere.update(self.fn.results)
        for op in self.fn.ops:
            for i, x in enumerate(op.operands):
                if x in self.groups.through or (op, i) in self.groups.stored:
                    self.elsewhere.update(self.groups.sources(x))
                elif op in self.groups.through or not op.results:
                    self.elsewhere.add(x)
                else:
                    self.direct.setdefault(x, []).append(op)

    def home(self, op: Op) -> Group:
        """The group that an operation is in."""
        return self.groups.home[op.results[0]].final

    def readers(self, value: Value) -> list[Op]:
        """The operations that read a value as it is."""
        return self.direct.get(value, [])

    def only_reader(self, op: Op) -> Group | None:
        """The one other group that reads a value, element by element, if nobody else does."""
        readers = self.readers(op)
        if op in self.elsewhere or not all(isinstance(r, Elementwise | Reduction) for r in readers):
            return None
        homes = {self.home(r) for r in readers}
        group = homes.pop() if len(homes) == 1 else None
        if group is None or group is self.home(op) or group.family not in JOINABLE:
            return None
        return group if self.home(op).family in JOINABLE else None

    def exported(self, value: Value) -> bool:
        """Whether a value is in memory whatever happens to one of its readers."""
        if value not in self.groups.home or value in self.elsewhere:
            return True
        group = self.groups.home[value].final
        return any(self.home(r) is not group for r in self.readers(value))

    def chain(self, op: Op, reader: Group) -> list[Op]:
        """The operations to move along with one, or none where nothing is saved."""
        group, chosen, borders = self.home(op), [op], dict[Value, None]()
        for member in chosen:
            for x in member.operands:
                if x in self.groups.through:
                    if not all(map(self.exported, self.groups.sources(x))):
                        return []
                elif self._borrowed(x, group):
                    borders[x] = None
                elif isinstance(x, Op) and self._follows(x, chosen):
                    chosen += () if x in chosen else (x,)
                else:
                    return []
        held = set(chosen)
        inside = all(set(self.readers(x)) <= held for x in chosen[1:])
        return chosen if inside and self._saves(op, chosen, borders, reader) else []

    def _borrowed(self, x: Value, group: Group) -> bool:
        return (
            x not in self.groups.home
            or self.groups.home[x].final is not group
            or (self.exported(x))
        )

    def _follows(self, x: Op, chosen: Iterable[Op]) -> bool:
        simple = isinstance(x, Elementwise) and x.results == (x,)
        return simple and len(list(chosen)) < LONGEST

    def _saves(self, op: Op, chosen: list[Op], borders: Iterable[Value], reader: Group) -> bool:
        if len(reader.members) + len(chosen) > MOST_OPS:
            return False
        read = {x for m in reader.members for x in m.operands}
        fresh = [x for x in borders if x not in read and x.shape == op.shape]
        seen = as_one((reader,))
        if len(fresh) > 1 or seen is None:
            return False
        return all(fits(m, [self.groups.operand(x) for x in m.operands], seen) for m in chosen)

    def move(self, chosen: list[Op], reader: Group) -> None:
        """Change the home of some operations."""
        group = self.home(chosen[0])
        for op in chosen:
            shape = "frame" if op.result_types[0].shape == reader.frame else "row"
            group.members.remove(op)
            for result in op.results:
                group.whole.discard(result)
                group.rows.discard(result)
                self.groups.home[result] = reader
            reader.add(op, reader.place, shape)
