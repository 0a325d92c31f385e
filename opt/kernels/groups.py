"""Kernels in the making: what a group of operations is, and which operation may join it.

A group has a *frame*, the shape of its loops, and once it holds a reduction the *axes* that
all its reductions run along. Its values have the shape of the frame, or are *rows*: the frame
without the axes. The five families are the contract with gen/:

- ``product``: one matmul, then element-wise operations of its shape (the epilogue), which read
  broadcasts and windows of other parameters; at the root there may be an update, written into its
  first operand;
- ``scatter``: an update at the root, written into its first operand, or several in a row, each of
  which replaces a window of what the one before has left;
- ``running``: scans one way along an axis, with element-wise operations of their shape, or one
  scan alone where it goes along elements that lie beside one another;
- ``ordering``: a sort or a search alone, row by row;
- ``loops``: everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dlvm.ir import Dim, Op, Value
from dlvm.ops import Broadcast, Gather
from dlvm.ops.families import Elementwise, Reduction, Running, rearranges

MOST_OPS = 200
SWEEPS = 2  # as in a layer norm: the mean, then the squares around it
OUTSIDE = "outside"
Shape = tuple[Dim, ...]


@dataclass(eq=False)
class Group:
    """Some operations that become one kernel, or one operation that stays outside.

    ``level`` grows strictly from a group to all that read it, so the groups have no cycle;
    it may be raised up to ``ceiling`` without passing a reader. The reductions of a group have one
    order too: that of rows (``rowwise``) although its axes are not the last ones, or not.
    """

    family: str
    level: int
    frame: Shape = ()
    axes: tuple[int, ...] | None = None
    rowwise: bool = False
    members: list[Op] = field(default_factory=list[Op])
    whole: set[Value] = field(default_factory=set[Value])
    rows: set[Value] = field(default_factory=set[Value])
    ceiling: float = float("inf")
    place: int = 0
    joined: Group | None = None

    @property
    def final(self) -> Group:
        """The group that this one has become part of."""
        group = self
        while group.joined is not None:
            group = group.joined
        if self.joined is not None:
            self.joined = group
        return group

    def add(self, op: Op, place: int, shape: str) -> None:
        """One more member, whose results have the shape of the ``frame`` or of a ``row``."""
        self.members.append(op)
        self.place = max(self.place, place)
        (self.rows if shape == "row" else self.whole).update(op.results)
        if shape == "row" and isinstance(op, Reduction):
            self.axes = op.axes
        if isinstance(op, Running) and self.family == "loops":
            self.family = "running"

    def absorb(self, other: Group, rows: bool = False) -> None:
        """Take over the members of another group, whose values may all be rows here."""
        self.members += other.members
        self.place = max(self.place, other.place)
        self.ceiling = min(self.ceiling, other.ceiling)
        self.rows |= other.rows | (other.whole if rows else set())
        self.whole |= set() if rows else other.whole
        self.axes = other.axes if self.axes is None else self.axes
        self.rowwise |= other.rowwise
        other.joined = self


def without(shape: Shape, axes: Sequence[int]) -> Shape:
    """A shape without some of its axes."""
    return tuple(d for i, d in enumerate(shape) if i not in axes)


@dataclass
class Shared:
    """Several groups of one level, looked at as if they were one; ``narrow`` ones are rows."""

    groups: tuple[Group, ...]
    frame: Shape
    axes: tuple[int, ...] | None
    narrow: tuple[Group, ...] = ()

    @property
    def rowwise(self) -> bool:
        """Whether the reductions go in the order of rows, whatever their axes."""
        return any(g.rowwise for g in self.groups)

    def is_row(self, value: Value, home: Group) -> bool:
        """Whether a value is computed in these groups and has the shape of a row."""
        return value in home.rows or (home in self.narrow and value in home.whole)

    def members(self, op: Op) -> Iterator[Op]:
        """What they hold, and an operation that is to join them."""
        yield from (m for group in self.groups for m in group.members)
        yield op

    def merged(self) -> Group:
        """The groups made one."""
        first, *others = sorted(self.groups, key=lambda g: g in self.narrow)
        for other in others:
            first.absorb(other, rows=other in self.narrow)
        return first


def as_one(groups: tuple[Group, ...]) -> Shared | None:
    """Groups seen as one, where their frames and axes allow."""
    if len(groups) == 1:
        return Shared(groups, groups[0].frame, groups[0].axes)
    if any(g.family != "loops" for g in groups):
        return None
    if sum(len(g.members) for g in groups) >= MOST_OPS:
        return None
    widest = max(groups, key=lambda g: len(g.frame))
    wide = tuple(g for g in groups if g.frame == widest.frame)
    orders = {(g.axes, g.rowwise) for g in wide if g.axes is not None}
    if len(orders) > 1:
        return None
    along = orders.pop()[0] if orders else None
    narrow = tuple(g for g in groups if g not in wide)
    row = None if along is None else without(widest.frame, along)
    if any(g.frame != row or g.axes is not None for g in narrow):
        return None
    return Shared(groups, widest.frame, along, narrow)


@dataclass(frozen=True)
class Operand:
    """An operand as a group sees it: its value, and the homes of all that it is read from.

    ``direct`` ones are in memory or computed in a group; the others are read through
    movements. A ``plain`` one is a broadcast or window of what is in memory, or one number
    throughout.
    """

    value: Value
    homes: tuple[Group, ...]
    direct: bool
    plain: bool


def fits(op: Op, operands: Sequence[Operand], group: Shared) -> str | None:
    """As what an operation may join: ``frame``, ``row``, or not at all."""
    if sum(len(g.members) for g in group.groups) >= MOST_OPS:
        return None
    family = group.groups[0].family
    if family == "product":
        return "frame" if _is_epilogue(op, operands, group) else None
    if family not in ("loops", "running") or along_rows(group.groups[0].members):
        return None
    if isinstance(op, Running):
        return "frame" if _runs_along(op, operands, group) else None
    if isinstance(op, Reduction):
        return "row" if family == "loops" and _reduces(op, operands, group) else None
    if isinstance(op, Gather):
        return "frame" if _picks_each(op, operands, group) else None
    if not isinstance(op, Elementwise):
        return None
    shape = op.result_types[0].shape
    if shape == group.frame and all(_at_frame(o, group) for o in operands):
        return "frame"
    row = None if group.axes is None else without(group.frame, group.axes)
    return "row" if shape == row and all(_at_row(o, group) for o in operands) else None


def _picks_each(op: Gather, operands: Sequence[Operand], group: Shared) -> bool:
    """An element is picked for each of the frame, at an index that the group computes."""
    array, indices = operands
    same = op.indices.shape == op.shape == group.frame and not op.may_raise
    there = array.direct and not any(home in group.groups for home in array.homes)
    return same and there and _at_frame(indices, group)


def along_rows(ops: Iterable[Op]) -> bool:
    """Whether a scan goes along elements that lie beside one another: no lanes are free."""
    scans = (op for op in ops if isinstance(op, Running))
    return any(all(d == 1 for d in op.shape[op.axis + 1 :]) for op in scans)


def _runs_along(op: Running, operands: Sequence[Operand], group: Shared) -> bool:
    """The scans of a kernel go the same way along the same axis, with vectors across it."""
    (one, *more) = group.groups
    if more or along_rows((op,)) or group.axes is not None or op.shape != group.frame:
        return False
    scans = (m for m in one.members if isinstance(m, Running))
    same = all((m.axis, m.reverse) == (op.axis, op.reverse) for m in scans)
    return same and all(_at_frame(o, group) for o in operands)


def _reduces(op: Reduction, operands: Sequence[Operand], group: Shared) -> bool:
    along = group.axes in (None, op.axes) and bool(op.axes)
    shaped = all(o.value.shape == group.frame for o in operands)
    if not (along and shaped and all(_at_frame(o, group) for o in operands)):
        return False
    return group.axes is None or sweeps(op, group) <= SWEEPS


def sweeps(op: Op, group: Shared) -> int:
    """How many loops over the frame a reduction would need, one after the other.

    Each loop computes again what it reads of the frame, so a long chain of reductions in one
    kernel would cost the square of its length.
    """
    found: dict[Value, int] = {}
    for member in (*(m for g in group.groups for m in g.members), op):
        before = max((found.get(_source(v, found), 0) for v in member.operands), default=0)
        found.update(dict.fromkeys(member.results, before + isinstance(member, Reduction)))
    return max(found[r] for r in op.results)


def _source(value: Value, known: dict[Value, int]) -> Value:
    """What a value is read from through movements."""
    while value not in known and rearranges(value):
        (value,) = value.operands
    return value


def _at_frame(operand: Operand, group: Shared) -> bool:
    """Outside of the group, or a value of the frame in it, or a row of it along the axes."""
    inside = [home for home in operand.homes if home in group.groups]
    if not inside:
        return True
    if operand.direct:
        return not group.is_row(operand.value, inside[0])
    return is_row_along(operand.value, operand.homes, group)


def is_row_along(value: Value, homes: tuple[Group, ...], group: Shared) -> bool:
    """Whether a value is a row of the group, repeated along the axes of the group."""
    if group.axes is None or not isinstance(value, Broadcast) or len(homes) != 1:
        return False
    kept = tuple(i for i in range(len(group.frame)) if i not in group.axes)
    placed = value.shape == group.frame and value.axes == kept
    return placed and group.is_row(value.x, homes[0])


def _at_row(operand: Operand, group: Shared) -> bool:
    inside = [home for home in operand.homes if home in group.groups]
    return not inside or (operand.direct and group.is_row(operand.value, inside[0]))


def _is_epilogue(op: Op, operands: Sequence[Operand], group: Shared) -> bool:
    """Element-wise, reading the product and broadcasts and windows of what is in memory."""
    if not isinstance(op, Elementwise):
        return False
    types = (*op.result_types, *(o.value.type for o in operands))
    if any(t.shape != group.frame for t in types):
        return False
    outside = (not any(h in group.groups for h in o.homes) for o in operands if not o.direct)
    return all(outside) and all(o.direct or o.plain for o in operands)
