"""The order of operations, which decides how much memory is alive at once."""

from __future__ import annotations

import heapq
from bisect import bisect
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from dlvm.cost import size_in_bytes, typical
from dlvm.ir import TAPE, Function, Module, Op, Param, TensorType, Value
from dlvm.ir.decisions import allowed, listens
from dlvm.ir.rewrite import Env, map_regions, mapped, transform
from dlvm.ops import Constant, Kernel, Structured
from dlvm.ops.flow.kernels import OWN
from dlvm.opt.facts import acts
from dlvm.passes import module_pass

Owned = dict[Value, Param]
FEW = 32


@module_pass
def order(module: Module) -> Module:
    """Order each body so that little memory is alive at once.

    The body is scheduled from its end: of the operations all of whose readers stand already,
    the one that leaves the fewest bytes alive above it comes next, else the last in the old
    order. So everything is computed as late as its memory allows, recomputation above all.
    What acts or may raise keeps its order. The old order stays where it is no worse; unknown
    sizes count as 64. Memory that the body may overwrite, of donated parameters and of what a
    loop carries, counts as long as it is read: so it is read before its new value is made.
    """
    return module.map(lambda fn: ordered(fn, donations(fn)))


def donations(fn: Function) -> Owned:
    """Which result takes the memory of which donated parameter."""
    return {fn.results[j]: fn.params[i] for j, i in fn.donations().items()}


def ordered(fn: Function, owned: Owned) -> Function:
    """One body, which may overwrite some parameters, and those inside in a better order."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if op.one_nest or not op.holds_regions:
            return None
        count = op.carries if isinstance(op, Structured) else 0
        changed = map_regions(op, lambda region: ordered(region, _carried(region, count)))
        return op.rebuild(mapped(op.operands, env), **changed).results if changed else None

    fn = readers_first(transform(fn, visit), owned)
    later = ListScheduler(fn, owned).latest_first()[::-1]
    better = peak(fn, later, owned.values()) < peak(fn, fn.ops, owned.values())
    return replace(fn, ops=tuple(_allowed(fn.ops, later))) if better else fn


def _allowed(old: Sequence[Op], new: Sequence[Op]) -> Sequence[Op]:
    """The new order from its end on, as far as anybody allows, and the old one above that.

    Each operation is asked for that is to stand below one that it stood above.
    """
    if not listens():
        return new
    left = dict.fromkeys(old)
    for i, op in zip(range(len(new))[::-1], reversed(new), strict=True):
        last = next(reversed(left))
        if op is not last and not allowed(order.run, (op, last), "the first goes below the second"):
            return [*left, *new[i + 1 :]]
        del left[op]
    return new


def _carried(region: Function, count: int) -> Owned:
    pairs = zip(region.params[:count], region.results, strict=False)
    return {r: p for p, r in pairs if p.type == r.type}


def overwritten(op: Op, owned: Owned) -> list[Value]:
    """The values in whose memory an operation would best leave its results."""
    replaced: list[Value] = [owned[r] for r in op.results if r in owned]
    if isinstance(op, Kernel):
        replaced += [op.xs[i] for i in op.over if i != OWN]
    return replaced


def readers_first(fn: Function, owned: Owned) -> Function:
    """Whatever overwrites memory after what else reads it, so that it may do so.

    A reader moves up with what it needs, if that is little and none of it acts or needs the
    scatter; what may raise does not pass what acts.
    """
    maker = {r: op for op in fn.ops for r in op.results}
    readers: dict[Value, list[Op]] = {}
    for op in fn.ops:
        for value in dict.fromkeys(op.operands):
            readers.setdefault(value, []).append(op)
    index = {op: i for i, op in enumerate(fn.ops)}
    acting = [i for i, op in enumerate(fn.ops) if acts(op)]
    placed: dict[Op, None] = {}
    for op in fn.ops:
        for target in overwritten(op, owned):
            for reader in readers.get(target, ()):
                moved = _closure(reader, op, placed, maker, index, acting)
                if moved and allowed(readers_first, (*moved, op), "the last goes below the others"):
                    placed.update(dict.fromkeys(moved))
        placed[op] = None
    ops = tuple(placed)
    return fn if ops == fn.ops else replace(fn, ops=ops)


def _closure(
    reader: Op,
    before: Op,
    placed: dict[Op, None],
    maker: dict[Value, Op],
    index: dict[Op, int],
    acting: Sequence[int],
) -> list[Op]:
    """A reader and what it needs that is not placed yet, in order; nothing if it can't move."""
    needed: set[Op] = set()
    pending = [reader]
    while pending:
        op = pending.pop()
        if op in placed or op in needed:
            continue
        crossed = bisect(acting, index[op]) - bisect(acting, index[before])
        if op is before or acts(op) or len(needed) == FEW or (op.may_raise and crossed):
            return []
        needed.add(op)
        pending.extend(maker[v] for v in op.operands if v in maker)
    return sorted(needed, key=index.__getitem__)


class StorageRoots:
    """Which values are memory of their own, and how much."""

    def __init__(self, fn: Function, owned: Iterable[Param]) -> None:
        self.root: dict[Value, Value] = {}
        self.bytes: dict[Value, int] = {p: typical_bytes(p.type) for p in owned}
        for op in fn.ops:
            for result in op.results:
                self.root[result] = self.of(op.operands[0]) if op.alias else result
                if not op.alias and not isinstance(op, Constant):
                    self.bytes[result] = typical_bytes(result.type)

    def of(self, value: Value) -> Value:
        """The value in whose memory a value lies."""
        return self.root.get(value, value)

    def roots(self, values: Iterable[Value]) -> dict[Value, int]:
        """The memories that some values lie in, with their sizes; what others own weighs 0."""
        found = dict.fromkeys(map(self.of, values))
        return {v: self.bytes.get(v, 0) for v in found}


@lru_cache(4096)
def typical_bytes(t: TensorType) -> int:
    """The memory of a value when every unknown size is 64."""
    if t.dtype == TAPE:
        return 0
    return typical(size_in_bytes(t))


class ListScheduler:
    """Greedy scheduling of a body from its end."""

    def __init__(self, fn: Function, owned: Owned) -> None:
        self.ops, self.owned = fn.ops, owned
        self.index = {op: i for i, op in enumerate(fn.ops)}
        self.storage = StorageRoots(fn, owned.values())
        self.live: set[Value] = set(self.storage.roots(fn.results))
        self.readers: dict[Value, list[Op]] = {}
        self.above: dict[Op, list[Op]] = {op: [] for op in fn.ops}
        self.waiting: dict[Op, int] = dict.fromkeys(fn.ops, 0)
        self._connect()

    def _connect(self) -> None:
        maker = {r: op for op in self.ops for r in op.results}
        last: Op | None = None
        for op in self.ops:
            before = dict.fromkeys(maker[v] for v in op.operands if v in maker)
            if acts(op) or op.may_raise:
                before |= {last: None} if last is not None else {}
                last = op
            for target in overwritten(op, self.owned):
                before |= dict.fromkeys(self.readers.get(self.storage.of(target), ()))
            self.above[op] = list(before)
            for made in before:
                self.waiting[made] += 1
            for root in self.storage.roots(op.operands):
                self.readers.setdefault(root, []).append(op)

    def latest_first(self) -> list[Op]:
        """The operations, the last one first."""
        ready = {op for op in self.ops if not self.waiting[op]}
        heap = [self._entry(op) for op in ready]
        heapq.heapify(heap)
        done: list[Op] = []
        while heap:
            cost, _, i = heapq.heappop(heap)
            op = self.ops[i]
            if op not in ready or cost != self._cost(op):
                continue
            ready.remove(op)
            done.append(op)
            for changed in self._schedule(op, ready):
                heapq.heappush(heap, self._entry(changed))
        return done

    def _entry(self, op: Op) -> tuple[int, int, int]:
        i = self.index[op]
        return (self._cost(op), -i, i)

    def _cost(self, op: Op) -> int:
        """By how much an operation changes what is alive, seen from below it to above it."""
        made = self.storage.roots(op.results)
        needed = self.storage.roots(op.operands)
        new = sum(size for v, size in needed.items() if v not in self.live and v not in made)
        return new - sum(size for v, size in made.items() if v in self.live and v not in needed)

    def _schedule(self, op: Op, ready: set[Op]) -> list[Op]:
        """Place an operation; those that become ready or cheaper."""
        changed: dict[Op, None] = {}
        needed = self.storage.roots(op.operands)
        self.live.difference_update(v for v in self.storage.roots(op.results) if v not in needed)
        for value in needed:
            if value not in self.live:
                self.live.add(value)
                changed.update((r, None) for r in self.readers[value] if r in ready)
        for made in self.above[op]:
            self.waiting[made] -= 1
            if not self.waiting[made]:
                ready.add(made)
                changed[made] = None
        return list(changed)


def peak(fn: Function, ops: Sequence[Op], owned: Iterable[Param]) -> int:
    """The most bytes alive at once in some order, those inside of regions included.

    A result weighs nothing that overwrites an operand of its type, which nobody reads after.
    """
    storage = StorageRoots(fn, owned)
    last: dict[Value, int] = dict.fromkeys(storage.roots(fn.results), len(ops))
    for i, op in enumerate(ops):
        for v in (*storage.roots(op.operands), *storage.roots(op.results)):
            last[v] = max(last.get(v, i), i)
    dying: dict[int, list[Value]] = {}
    for v, i in last.items():
        dying.setdefault(i, []).append(v)
    alive = most = sum(storage.bytes.get(p, 0) for p in owned)
    for i, op in enumerate(ops):
        ending = dying.get(i, ())
        if not op.alias:
            alive += sum(storage.roots(op.results).values())
        most = max(most, alive + alive_inside(op) - overwritten_bytes(op, ending))
        alive -= sum(storage.bytes.get(v, 0) for v in ending)
    return most


def overwritten_bytes(op: Op, ending: Sequence[Value]) -> int:
    """The bytes of results that lie where an operand lay that ends here."""
    free = [v.type for v in op.operands if v in ending]
    saved = 0
    for t in op.result_types if isinstance(op, Kernel) else ():
        if t in free:
            free.remove(t)
            saved += typical_bytes(t)
    return saved


def alive_inside(op: Op) -> int:
    """The most bytes alive at once in the regions of an operation."""
    if op.one_nest:
        return 0
    return max((peak(r, r.ops, ()) for r in op.regions.values()), default=0)
