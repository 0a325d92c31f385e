"""Fusion: bodies become kernels, loops over one frame each, and what can't be one.

``partition`` decides which operations go together; here the groups are written as ``kernel``
operations in an order that respects who reads whom, close to the order of the body.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dlvm.cost import size_in_bytes
from dlvm.ir import Builder, Function, Module, Op, Param, TensorType, Value
from dlvm.ir.decisions import allowed
from dlvm.ir.rewrite import Env, map_regions
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import Contraction, Update, kernel_of, reads_in_place, written_over
from dlvm.ops.arrays.overwriting import Overwriting
from dlvm.passes import module_pass

from .filling import computed
from .fused_updates import chain_updates
from .groups import MOST_OPS, OUTSIDE, Group
from .horizontal_fusion import join_siblings
from .move_to_reader import rehome
from .partition import Key, Partition, of_family, partition, readers
from .turning import turn

ROWWISE = (4096, 32)
SEQUENTIAL = (4096, 1)
FEW = 4
LARGE = 1 << 17
"""Bytes of a product from which on it is sooner stored in a window tile by tile than read again."""


@module_pass
def fuse(module: Module) -> Module:
    """Gather the operations of every body into kernels, each one loop nest.

    Afterwards a body holds kernels, control operations, effects, tapes, reshapes (which alias)
    and constants. Movements are read through by index maps and repeated in each kernel that
    reads them; nothing else is computed twice. Folds of transposed operands go along memory
    (``turn``). An operation joins a kernel that it reads from
    where shapes and axes allow: see ``groups`` for the five families. The reduction tree
    follows from the frame and the axes alone: 32 accumulators along contiguous axes, one
    along others and in products.
    """
    return module.map(fused)


def fused(fn: Function) -> Function:
    """One body, and those inside, as kernels."""
    return KernelWriter(*turn(fn)).function()


@dataclass
class KernelWriter:
    """Writes the groups of one body as kernels."""

    fn: Function
    rowwise: frozenset[Op] = frozenset()
    groups: Partition = field(init=False)
    index: dict[Op, int] = field(init=False)
    exports: dict[Group, dict[Value, None]] = field(default_factory=dict[Group, dict[Value, None]])
    keys: dict[Group, dict[Key, None]] = field(default_factory=dict[Group, dict[Key, None]])
    outer: dict[Key, Value] = field(default_factory=dict[Key, Value])

    def __post_init__(self) -> None:
        self.groups = partition(self.fn, self.rowwise)
        self.index = {op: i for i, op in enumerate(self.fn.ops)}
        rehome(self.groups, self.fn)
        absorb_producers(self.groups, self.fn)
        chain_updates(self.groups, self.fn)
        join_siblings(self.groups, self.fn)
        finals = dict.fromkeys(g.final for g in self.groups.groups)
        self.order = [g for g in finals if g.members]
        for group in self.order:
            group.members.sort(key=self.index.__getitem__)
            self.keys[group] = self.groups.keys(group)
        self._export()

    def _export(self) -> None:
        for group in self.order:
            self.exports.setdefault(group, {})
            for key in self.keys[group]:
                self._needed(key)
            for op in group.members:
                if isinstance(op, Overwriting) and op.results[1:]:  # it finds what it wrote before
                    self._needed(op.results[0])
        for result in self.fn.results:
            self._needed(self.groups.written.get(result, result))

    def _needed(self, key: Key) -> None:
        if isinstance(key, Group):
            self.exports.setdefault(key, {})[key.members[0]] = None
        elif key in self.groups.home:
            self.exports.setdefault(self.groups.home[key].final, {})[key] = None

    def function(self) -> Function:
        """The body with its groups written in an order that respects who reads whom."""
        self.outer.update((p, p) for p in self.fn.params)
        with (builder := Builder()):
            for group in self._sorted():
                if group.family == OUTSIDE:
                    self._outside(group)
                elif self.exports[group]:
                    self._kernel(group)
        results = tuple(self.outer[self.groups.written.get(r, r)] for r in self.fn.results)
        return replace(self.fn, ops=tuple(builder.ops), results=results)

    def _sorted(self) -> list[Group]:
        """Groups before their readers, otherwise by the place of their last operation."""
        waiting: dict[Group, int] = {}
        readers: dict[Group, list[Group]] = {}
        for group in self.order:
            needs = self.groups.needs(group, self.keys[group])
            waiting[group] = len(needs)
            for need in needs:
                readers.setdefault(need, []).append(group)
        number = {g: i for i, g in enumerate(self.order)}
        ready = [(g.place, number[g]) for g in self.order if not waiting[g]]
        heapq.heapify(ready)
        done: list[Group] = []
        while ready:
            group = self.order[heapq.heappop(ready)[1]]
            done.append(group)
            for reader in readers.get(group, ()):
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready, (reader.place, number[reader]))
        return done

    def _outside(self, group: Group) -> None:
        (op,) = group.members
        keys = [self.groups.stored.get((op, i), x) for i, x in enumerate(op.operands)]
        operands = [self.outer[k] for k in keys]
        regions = {} if op.one_nest else map_regions(op, fused)
        new = op.rebuild(operands, **regions)
        self.outer.update(zip(op.results, new.results, strict=True))
        self.outer[group] = new

    def _kernel(self, group: Group) -> None:
        keys = self.keys[group]
        params: dict[Key, Param] = {k: Param(_type(k), f"x{i}") for i, k in enumerate(keys)}
        with (inside := Builder()):
            env = KernelBody(self.groups, params)
            for op in group.members:
                env.write(op)
        exports = [v for v in self._results(group) if v in self.exports[group]]
        results = tuple(env.values[v] for v in exports)
        body = Function("body", tuple(params.values()), tuple(inside.ops), results)
        family = "loops" if group.family == "closed" else group.family
        kernel = kernel_of(tuple(self.outer[k] for k in keys), body, family, tree_of(group))
        kernel.origin = group.members[-1].origin
        self.outer.update(zip(exports, kernel.results, strict=True))
        self.outer[group] = kernel.results[0]

    def _results(self, group: Group) -> list[Value]:
        return [r for op in group.members for r in op.results]


@dataclass
class KernelBody:
    """The body of one kernel while it is written."""

    groups: Partition
    params: dict[Key, Param]
    values: Env = field(default_factory=dict[Value, Value])

    def write(self, op: Op) -> None:
        """One operation, on operands of this body."""
        new = op.rebuild([self.operand(op, i) for i in range(len(op.operands))])
        self.values.update(zip(op.results, new.results, strict=True))

    def operand(self, op: Op, i: int) -> Value:
        """A parameter, a value computed here, or a movement of such, made here."""
        stored, value = self.groups.stored.get((op, i)), op.operands[i]
        if stored is not None:
            return self.params[stored]
        if value not in self.values and value in self.params:
            return self.params[value]
        if value not in self.values and isinstance(value, Op):
            self.write(value)
        return self.values[value]


def _type(key: Key) -> TensorType:
    return key.members[0].type if isinstance(key, Group) else key.type


def absorb_producers(groups: Partition, fn: Function) -> None:
    """Take what computes only the updates or the indices of a scatter into its kernel."""
    if scatters := of_family(groups, "scatter"):
        found = readers(groups, fn)
        for group in scatters:
            _absorb(groups, group, found, fn)


def _absorb(
    groups: Partition, group: Group, readers_of: dict[Group, set[Group | None]], fn: Function
) -> None:
    (op,) = group.members
    assert isinstance(op, Overwriting)
    for i, value in enumerate(op.operands[1:], 1):
        source = groups.home.get(value)
        producer = None if source is None else source.final
        if producer is None or producer is group or readers_of.get(producer) != {group}:
            continue
        most = MOST_OPS if i == len(op.operands) - 1 else FEW
        simple = producer.family == "loops" and producer.axes is None
        product = producer.family == "product" and isinstance(op, Update)
        between = fn.ops[producer.place + 1 : group.place] if product else ()
        if product and not _in_the_window(groups, op, producer, between):
            continue
        fits = len(producer.members) + len(group.members) <= most
        both = (*producer.members, *group.members)
        if (
            (simple or product)
            and fits
            and producer not in groups.homes((op.x,))
            and _apart(groups, op, producer)
            and allowed(absorb_producers, both, "one kernel")
        ):
            group.absorb(producer)
            group.family = producer.family if product else group.family


def _in_the_window(
    groups: Partition, op: Overwriting, producer: Group, between: Sequence[Op]
) -> bool:
    """Whether a product is finished in the kernel that writes the window.

    It reads all of its operands from memory. It reads what is updated; or it is large, and keeps
    no operand until the update, whose turn may come late: all are arguments, or nothing runs
    between the two.
    """
    products = [m for m in producer.members if isinstance(m, Contraction)]
    if any(computed(x, groups.filled) for m in products for x in m.operands):
        return False
    reads = groups.keys(producer)
    if op.x in reads:
        return True
    if not at_least(size_in_bytes(products[0].type), LARGE):
        return False
    return all(isinstance(k, Param) for k in reads) or all(o in groups.through for o in between)


def _apart(groups: Partition, op: Overwriting, producer: Group) -> bool:
    """Whether what a group reads is there until it has been read, if it is written over."""
    read = groups.keys(producer)
    if any(v in read for v in [*written_over(op)][1:]):
        return False
    if op.x not in read:
        return True

    def inside(value: Value) -> bool:
        home = groups.home.get(value)
        return value in groups.through or (home is not None and home.final is producer)

    return isinstance(op, Update) and reads_in_place(op, inside)


def tree_of(group: Group) -> tuple[int, int]:
    """The order of a kernel's reductions, from its frame and axes, or those it was turned from."""
    if group.family == "product":
        return SEQUENTIAL
    axes = group.axes or ()
    rows = group.rowwise or not axes or axes[-1] == len(group.frame) - 1
    return ROWWISE if rows else SEQUENTIAL
