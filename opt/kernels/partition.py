"""Which operations become one kernel: one walk over a body that puts each into a group.

Movements are read through: a kernel finds their elements by an index map, so they belong to
whoever reads them, and are written to memory only where somebody needs them there. An
operation joins a group that it reads from where it fits and no cycle can arise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlvm.ir import TAPE, Function, Op, Value
from dlvm.ir.decisions import allowed
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import Broadcast, Constant, Gather, IndexMap, Permute, Reshape, Slice, Structured
from dlvm.ops.arrays.indexing import one_part
from dlvm.ops.arrays.overwriting import Overwriting
from dlvm.ops.arrays.sections import start_of_adjacent
from dlvm.ops.families import (
    Contraction,
    Creation,
    Elementwise,
    Factorisation,
    Ordering,
    Reduction,
    Running,
)
from dlvm.opt.facts import acts

from .filling import computed, filling, longer
from .groups import OUTSIDE, Group, Operand, Shared, as_one, fits

DEEPEST = 24
Joining = Elementwise | Reduction | Running | Gather | IndexMap
OperandPosition = tuple[Op, int]
Key = Value | Group


@dataclass
class ReadInPlace:
    """A value that kernels read through movements: what it is read from, and how much it is."""

    sources: tuple[Value, ...]
    size: int


@dataclass
class Partition:
    """The groups of one body, in the making.

    ``home`` is who computes a value, ``through`` how one is read that nobody computes; ``viewed``
    is what programs take views of, ``filled`` what products compute; ``stored`` says which operands
    of which operations are read from memory all the same, and who has written them there,
    ``written`` who has done so for everybody. Reductions in ``rowwise`` go in the order of rows.
    """

    rowwise: frozenset[Op] = frozenset()
    viewed: set[Value] = field(default_factory=set[Value])
    filled: set[Value] = field(default_factory=set[Value])
    home: dict[Value, Group] = field(default_factory=dict[Value, Group])
    through: dict[Value, ReadInPlace] = field(default_factory=dict[Value, ReadInPlace])
    written: dict[Value, Group] = field(default_factory=dict[Value, Group])
    stored: dict[OperandPosition, Group] = field(default_factory=dict["OperandPosition", Group])
    groups: list[Group] = field(default_factory=list[Group])
    last_acting: Group | None = None
    before: dict[Group, Group | None] = field(default_factory=dict[Group, "Group | None"])

    def place(self, op: Op, place: int) -> None:
        """Put one operation where it belongs; its operands have been placed."""
        if op.asks_python:
            self.stay_outside(op, place)
        elif (through := self.read_through(op)) is not None:
            self.through[op] = through
        elif isinstance(op, Overwriting):
            self.scatter(op, place)
        elif isinstance(op, Contraction):
            self.product(op, place)
        elif isinstance(op, Ordering | Factorisation):
            self.row_by_row(op, place)
        elif isinstance(op, Joining) and not op.alias:
            self.join(op, place)
        else:
            self.stay_outside(op, place)

    # -- movements ------------------------------------------------------------------------

    def read_through(self, op: Op) -> ReadInPlace | None:
        """How a movement, a number or a count is read, where it is not too much to repeat."""
        if isinstance(op, Elementwise) and op.result_types[0].shape and op not in self.filled:
            return None
        found = [self.through.get(x) for x in op.operands]
        sources = tuple(
            source
            for x, f in zip(op.operands, found, strict=True)
            for source in (f.sources if f is not None else (x,))
        )
        size = 1 + sum(f.size for f in found if f is not None)
        repeated = op in self.filled or _repeatable(op, sources, self.viewed)
        return ReadInPlace(sources, size) if repeated and size <= DEEPEST else None

    def sources(self, value: Value) -> tuple[Value, ...]:
        """What is in memory that a value is read from: itself, unless it is read through."""
        found = self.through.get(value)
        return (value,) if found is None else found.sources

    def homes(self, values: Iterable[Value]) -> tuple[Group, ...]:
        """The groups that compute some values, each once."""
        found = {self.home[v].final: None for v in values if v in self.home}
        return tuple(found)

    def operand(self, value: Value) -> Operand:
        """An operand as groups see it."""
        found = self.through.get(value)
        if found is None:
            return Operand(value, self.homes((value,)), True, isinstance(value, Broadcast))
        return Operand(value, self.homes(found.sources), False, self.plain(value))

    def plain(self, value: Value) -> bool:
        """Whether a value is a broadcast, window or part of something in memory, or one number.

        The elements of a row of it lie beside one another.
        """
        if isinstance(value, Slice):
            return value.x not in self.through and value.steps[-1:] == (1,)
        if isinstance(value, Gather):
            return strided(value, self.sources(value), rows=True)
        if not isinstance(value, Broadcast):
            return False
        read = self.through.get(value.x)
        return read is None or (not read.sources and not value.x.shape)

    def keys(self, group: Group) -> dict[Key, None]:
        """What a group reads from memory, in order of first use."""
        reads: dict[Key, None] = {}
        for op in group.members:
            for i, value in enumerate(op.operands):
                if (op, i) in self.stored:
                    reads[self.stored[op, i]] = None
                elif value in self.through:
                    reads.update(dict.fromkeys(self.through[value].sources))
                else:
                    reads[value] = None
        home = self.home
        own = [v for v in reads if v in home and home[v].final is group]
        for value in own:
            del reads[value]
        return reads

    def needs(self, group: Group, keys: Iterable[Key]) -> set[Group]:
        """The groups that must come before a group which reads some keys."""
        needs = {
            k if isinstance(k, Group) else self.home[k].final
            for k in keys
            if isinstance(k, Group) or k in self.home
        }
        before = self.before.get(group)
        return needs | ({before} if before is not None else set())

    # -- groups ---------------------------------------------------------------------------

    def new_group(self, family: str, needs: Sequence[Group], place: int) -> Group:
        """A group above all that it reads."""
        group = Group(family, 1 + max((n.level for n in needs), default=-1), place=place)
        self.groups.append(group)
        self.reads(group, needs)
        return group

    def reads(self, group: Group, needs: Iterable[Group]) -> None:
        """Note who reads whom, which bounds how far the levels below may rise."""
        for need in needs:
            if need is not group:
                need.ceiling = min(need.ceiling, group.level - 1)

    def put(self, op: Op, group: Group, place: int, shape: str = "frame") -> None:
        """Make an operation a member."""
        group.add(op, place, shape)
        group.rowwise |= op in self.rowwise
        for result in op.results:
            self.home[result] = group

    def in_memory(self, op: Op, i: int, place: int, own: bool = False) -> tuple[Group, ...]:
        """Who computes an operand, or has written it to memory where it is read through."""
        value = op.operands[i]
        if value not in self.through:
            return self.homes((value,))
        if own:
            self.stored[op, i] = self.writer(value, place)
        else:
            self.stored[op, i] = self.writer_for_all(value, place)
        return (self.stored[op, i],)

    def writer_for_all(self, value: Value, place: int) -> Group:
        """The one group that writes a value for everybody who needs it in memory."""
        if value not in self.written:
            self.written[value] = self.writer(value, place)
        return self.written[value]

    def writer(self, value: Value, place: int) -> Group:
        """A group that writes a value which otherwise is read through."""
        needs = self.homes(self.sources(value))
        constant = isinstance(value, Constant)
        group = self.new_group(OUTSIDE if constant else "loops", needs, place)
        group.frame = value.shape
        assert isinstance(value, Op)
        group.members.append(value)
        return group

    # -- the families ---------------------------------------------------------------------

    def stay_outside(self, op: Op, place: int) -> None:
        """Control, effects, tapes, aliases and large constants; what acts keeps its order.

        Each value that a loop starts from is written for it alone, for the loop overwrites it.
        """
        carried = op.carries if isinstance(op, Structured) else 0
        needs = [
            g for i in range(len(op.operands)) for g in self.in_memory(op, i, place, i < carried)
        ]
        if acts(op) and self.last_acting is not None:
            needs.append(self.last_acting)
        group = self.new_group(OUTSIDE, needs, place)
        self.put(op, group, place)
        if acts(op):
            self.before[group] = self.last_acting
            self.last_acting = group

    def product(self, op: Contraction, place: int) -> None:
        """A product starts a kernel; it reads through movements that leave a matrix a matrix.

        What is only there for products is computed in them.
        """
        needs: list[Group] = []
        for i, x in enumerate(op.operands):
            if x in self.through and (computed(x, self.filled) or strided(x, self.sources(x))):
                needs += self.homes(self.sources(x))
            else:
                needs += self.in_memory(op, i, place)
        group = self.new_group("product", needs, place)
        group.frame = op.result_types[0].shape
        self.put(op, group, place)

    def scatter(self, op: Overwriting, place: int) -> None:
        """An update is the root of a kernel, written into its first operand.

        Where that is read through, such as zeros, each update gets a copy of its own. What is
        read beside it must not be read through from the memory that is written.
        """
        needs = list(self.in_memory(op, 0, place, own=True))
        for i, x in enumerate(op.operands[1:], 1):
            aliased = x in self.through and op.x in self.sources(x)
            needs += self.in_memory(op, i, place) if aliased else self.homes(self.sources(x))
        group = self.new_group("scatter", needs, place)
        group.frame = op.x.shape
        self.put(op, group, place)

    def row_by_row(self, op: Ordering | Factorisation, place: int) -> None:
        """A kernel of its own, which reads through movements all that it reads only once."""
        needs: list[Group] = []
        for i, x in enumerate(op.operands):
            again = i in op.searched
            needs += self.in_memory(op, i, place) if again else self.homes(self.sources(x))
        group = self.new_group(_rows_of(op), needs, place)
        group.frame = op.result_types[0].shape
        self.put(op, group, place)

    def join(self, op: Op, place: int) -> None:
        """Put an operation into a group that it reads from, or into a new one."""
        operands = [self.operand(x) for x in op.operands]
        needs = tuple(dict.fromkeys(h for o in operands for h in o.homes))
        top = max((n.level for n in needs), default=-1)
        beside = tuple(n for n in needs if n.level == top)
        for chosen in self.candidates(beside, operands):
            shape = fits(op, operands, chosen)
            if isinstance(op, Reduction) and chosen.axes is not None:
                shape = shape if (op in self.rowwise) == chosen.rowwise else None
            if shape is None or not allowed(partition, chosen.members(op), "one kernel"):
                continue
            if self.raised(chosen, beside):
                group = chosen.merged()
                self.reads(group, needs)
                self.put(op, group, place, shape)
                return
        self.start(op, needs, place)

    def candidates(
        self, beside: tuple[Group, ...], operands: Sequence[Operand]
    ) -> Iterable[Shared]:
        """What an operation may join: all groups of the highest level as one, or one of them."""
        if not beside:
            return
        if len(beside) > 1 and (together := as_one(beside)) is not None:
            yield together
        for group in sorted(beside, key=_preference) if len(beside) > 1 else beside:
            if (alone := as_one((group,))) is not None:
                yield alone

    def raised(self, chosen: Shared, beside: tuple[Group, ...]) -> bool:
        """Whether the chosen groups are, or can be lifted, above the others of their level."""
        if all(g in chosen.groups for g in beside):
            return True
        (group,) = chosen.groups
        if group.ceiling <= group.level:
            return False
        group.level += 1
        return True

    def start(self, op: Op, needs: Sequence[Group], place: int) -> None:
        """A new group, whose frame is what the operation runs over."""
        group = self.new_group("loops", needs, place)
        reduction = isinstance(op, Reduction)
        group.frame = op.operands[0].shape if reduction else op.result_types[0].shape
        if reduction and not op.axes:
            group.family = "closed"
        if isinstance(op, Running):
            group.family = "running"
        self.put(op, group, place, "row" if reduction else "frame")


def _preference(group: Group) -> tuple[bool, int]:
    return (group.family != "product", -len(group.members))


def _rows_of(op: Ordering | Factorisation) -> str:
    """The family of a kernel that takes rows or matrices one by one."""
    return "ordering" if isinstance(op, Ordering) else "factorisation"


def _repeatable(op: Op, sources: tuple[Value, ...], viewed: set[Value]) -> bool:
    """Whether each kernel that reads a value finds its elements, or makes it, for itself."""
    match op:
        case Constant():
            return op.value.size == 1
        case Creation():
            return op.result_types[0].dtype != TAPE
        case Reshape(x):
            cut_out = isinstance(x, Slice) and x.x not in viewed
            return not sources or (cut_out and longer(x) == longer(op))
        case IndexMap():
            return op.everywhere
        case Elementwise():
            return not sources and op.results == (op,)
        case Gather():
            return one_part(op)
        case _:
            return False


def strided(x: Value, sources: tuple[Value, ...], rows: bool = False) -> bool:
    """Whether a matrix lies in memory as a part of a source, rows or columns beside one another.

    Permutations, slices, broadcasts and parts at an index give each axis a stride or none, as do
    reshapes that only add or take away axes of size 1. The last axis of the source, where
    neighbours are neighbours in memory, must be that of a row or of a column, or of ``rows`` alone.
    Products find a part only along an axis that is never empty.
    """
    axes: list[int | None] = list(range(x.type.rank))
    steps = [1] * x.type.rank
    source: list[int | None]
    while x not in sources:
        match x:
            case Permute(y, perm):
                source = [*perm]
            case Slice(y, _, _, strides):
                source = [*range(len(strides))]
                steps = _times(steps, axes, strides)
            case Broadcast(y, _, where):
                source = [where.index(a) if a in where else None for a in range(x.type.rank)]
            case Gather(y, _, along) if one_part(x) and (rows or at_least(y.shape[along], 1)):
                source = [a for a in range(y.type.rank) if a != along]
            case Reshape(y) if longer(x) == longer(y):
                long = iter(i for i, n in enumerate(y.type.shape) if n != 1)
                source = [None if n == 1 else next(long) for n in x.type.shape]
            case _:
                return False
        axes = [None if a is None else source[a] for a in axes]
        x = y
    last = x.type.rank - 1
    near = -1 if rows else -2
    return any(a == last and s == 1 for a, s in zip(axes[near:], steps[near:], strict=True))


def _times(steps: list[int], axes: list[int | None], strides: Sequence[int]) -> list[int]:
    pairs = zip(steps, axes, strict=True)
    return [s if a is None else s * strides[a] for s, a in pairs]


def viewed(fn: Function) -> set[Value]:
    """What is only used by windows of it that lie in one piece, which are views in any shape."""
    found = set[Value]()
    others = set(fn.results)
    for op in fn.ops:
        if isinstance(op, Slice) and start_of_adjacent(op) is not None:
            found.add(op.x)
        else:
            others.update(op.operands)
    return found - others


def partition(fn: Function, rowwise: frozenset[Op] = frozenset()) -> Partition:
    """The groups of a body; some of its reductions go in the order of rows."""
    found = Partition(rowwise, viewed(fn), filling(fn))
    for place, op in enumerate(fn.ops):
        found.place(op, place)
    for result in fn.results:
        if result in found.through:
            found.writer_for_all(result, len(fn.ops))
    return found


def of_family(groups: Partition, family: str) -> list[Group]:
    """The groups of a family, as they are by now."""
    return [g for g in _finals(groups) if g.family == family]


def readers(groups: Partition, fn: Function) -> dict[Group, set[Group | None]]:
    """Who reads what a group writes; None where the body gives it back."""
    found: dict[Group, set[Group | None]] = {}
    for group in _finals(groups):
        for need in groups.needs(group, groups.keys(group)):
            found.setdefault(need, set()).add(group)
    for home in groups.homes(fn.results):
        found.setdefault(home, set()).add(None)
    return found


def _finals(groups: Partition) -> list[Group]:
    return [g for g in dict.fromkeys(g.final for g in groups.groups) if g.members]
