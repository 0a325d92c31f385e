"""A third look at the groups: kernels that lie side by side and do better as one.

Groups of one level don't read one another, and a group may rise to a level above its own as long
as that is below all that read it. Two become one, which saves a launch and often reading a tensor
twice, if the one that would have run first may run with the other without a large tensor being
kept for it. Either both reduce the same frame along the same axes, as the sums over a batch do
that the gradients of a bias and of a scale are; or both are element-wise, over any frames, as
the updates of all parameters of a model are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from dlvm.ir import Function, Value
from dlvm.ir.decisions import allowed
from dlvm.ir.sizes.dims import Expr

from .groups import MOST_OPS, Group
from .partition import Key, Partition

SMALL_BYTES = 1 << 15
"""Bytes up to which it does not matter for how long a value is kept."""
MOST_BUFFERS = 64
"""Values that one kernel reads and writes in memory."""


def join_siblings(groups: Partition, fn: Function) -> None:
    """Merge the groups of a body that are side by side, from the lowest level up."""
    found = Siblings(groups, fn)
    latest: dict[Hashable, Group] = {}
    for group in found.candidates():
        trait = found.trait(group)
        other = latest.get(trait)
        if other is not None and found.agree(other, group):
            both = (*other.members, *group.members)
            if allowed(join_siblings, both, "one kernel"):
                found.join(other, group)
        latest[trait] = group


@dataclass
class Siblings:
    """What each group reads and writes in memory, and what of that lives anyhow."""

    groups: Partition
    fn: Function
    reads: dict[Group, dict[Key, None]] = field(default_factory=dict[Group, "dict[Key, None]"])
    writes: dict[Group, list[Value]] = field(default_factory=dict[Group, list[Value]])
    lasting: set[Key] = field(default_factory=set["Key"])

    def __post_init__(self) -> None:
        alive = [g for g in dict.fromkeys(g.final for g in self.groups.groups) if g.members]
        self.reads = {g: self.groups.keys(g) for g in alive}
        self.lasting = {*self.fn.params, *self.fn.results}
        read = {k for keys in self.reads.values() for k in keys} | set(self.fn.results)
        self.writes = {g: [v for v in (*g.whole, *g.rows) if v in read] for g in alive}

    def candidates(self) -> Iterator[Group]:
        """Kernels of loops that compute what is theirs, by level."""
        for group in sorted(self.reads, key=lambda g: g.level):
            own = (r in self.groups.home for op in group.members for r in op.results)
            if group.family == "loops" and all(own):
                yield group

    def trait(self, group: Group) -> Hashable:
        """What a group must have in common with another."""
        return "element-wise" if group.axes is None else (group.frame, group.axes, group.rowwise)

    def agree(self, lower: Group, upper: Group) -> bool:
        """Whether two groups, of which one is to rise to the other, can be and should be one."""
        if lower.ceiling < upper.level:
            return False
        buffers = sum(len(x[g]) for x in (self.reads, self.writes) for g in (lower, upper))
        if buffers > MOST_BUFFERS or len(lower.members) + len(upper.members) > MOST_OPS:
            return False
        early, late = sorted((lower, upper), key=lambda g: g.place)
        return all(self._free(key, late) for key in self.reads[early])

    def _free(self, key: Key, late: Group) -> bool:
        """Whether it costs no memory to read a value when a later group runs."""
        return key in self.lasting or key in self.reads[late] or not _large(key)

    def join(self, lower: Group, upper: Group) -> None:
        """Make the lower group a part of the upper one."""
        upper.absorb(lower)
        self.reads[upper] |= self.reads.pop(lower)
        self.writes[upper] += self.writes.pop(lower)


def _large(key: Key) -> bool:
    if isinstance(key, Group):
        return True
    size = key.type.size * key.dtype.bytes
    return isinstance(size, Expr) or size > SMALL_BYTES
