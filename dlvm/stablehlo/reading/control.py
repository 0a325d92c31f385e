"""Calls, branches and loops of StableHLO.

A loop that counts to a number that is known becomes a scan: rows that it reads by its counter are
the slices of the scan, and rows that it writes by it are stacked. That is how JAX writes its scans,
and the derivative of a scan needs no tape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlvm import ops
from dlvm.base.errors import UserError
from dlvm.ir import Builder, Function, Op, Param, Value, splat
from dlvm.ir.rewrite import copy_ops, mapped
from dlvm.ops import scalar_value

from .table import READERS, Env, Place, Results, reads, reshaped, root
from .tree import Block, Node, Tree, unreadable

IDENTITIES = ("Sharding", "annotate_device_placement", "sharding", "SPMDFullToShardShape")


class Reading:
    """Reads blocks into operations of the language, written with the active builder."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.counted: list[Counted] = []

    def run(self, block: Block, arguments: Sequence[Value], outer: Env) -> tuple[Value, ...]:
        """The results of a block on these arguments; ``outer`` are values around it."""
        env: Env = {**outer, **dict(zip(block.params, arguments, strict=True))}
        for node in block.nodes:
            env.update(zip(node.results, self._checked(node, env), strict=True))
        if any(v not in env for v in block.returned):
            raise unreadable("a block", "it returns a value that is not there")
        return tuple(env[v] for v in block.returned)

    def _checked(self, node: Node, env: Env) -> tuple[Value, ...]:
        """What is read of an operation, or an error if its parts don't fit."""
        try:
            found = self._read(node, [env[v] for v in node.operands], env)
        except UserError:
            raise
        except Exception as error:
            raise unreadable(node.name, "its operands, attributes and types don't fit") from error
        if (types := tuple(v.type for v in found)) != node.types:
            stated, made = (", ".join(map(str, ts)) for ts in (node.types, types))
            raise unreadable(node.name, f"its results are stated as {stated}, and are {made}")
        return found

    def _read(self, node: Node, xs: Sequence[Value], env: Env) -> tuple[Value, ...]:
        for loop in reversed(self.counted):
            if (found := loop.row(node, xs)) is not None:
                return (found,)
        if node.name == "func.call":
            return self.run(self.tree.functions[node.attributes["callee"]], xs, {})
        if node.name == "stablehlo.while":
            return self._while(node, xs, env)
        if node.name not in READERS:
            raise unreadable(node.name)
        found = READERS[node.name](node, xs, Place(self, env))
        return found if isinstance(found, tuple) else (found,)

    def _while(self, node: Node, xs: Sequence[Value], env: Env) -> tuple[Value, ...]:
        if (count := counter(node, xs)) is not None:
            for optimistic in (True, False):
                found = self._scan(node, xs, env, count, optimistic)
                if found is not None:
                    return found
        return self._loop(node, xs, env)

    def _loop(self, node: Node, xs: Sequence[Value], env: Env) -> tuple[Value, ...]:
        """A loop with a test."""
        regions: list[Region] = []
        for block in node.regions:
            params = [Param(x.type, f"c{i}") for i, x in enumerate(xs)]
            with (builder := Builder()):
                out = self.run(block, params, env)
            regions.append(Region(params, builder.ops, out))
        (test, body), captured = closed(regions)
        return ops.While(tuple(xs), captured, test, body).results

    def _scan(
        self, node: Node, xs: Sequence[Value], env: Env, count: Count, optimistic: bool
    ) -> tuple[Value, ...] | None:
        """A loop that counts; None where rows that it writes are used otherwise as well."""
        block = node.regions[1]
        loop = Counted(block, xs, count, optimistic)
        with (builder := Builder()):
            self.counted.append(loop)
            try:
                out = self.run(block, loop.given, env)
            finally:
                self.counted.pop()
        return loop.scan(builder.ops, out)


# -- loops that count -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Count:
    """A counter: which of the carried values it is, where it starts and how often it goes on."""

    position: int
    start: int
    trips: int


def counter(node: Node, xs: Sequence[Value]) -> Count | None:
    """The counter of a loop that goes by one from a known number to below another."""
    test, body = node.regions
    last = root(test)
    if last is None or last.name != "stablehlo.compare":
        return None
    if last.attributes["comparison_direction"] != "LT" or last.operands[0] not in test.params:
        return None
    position = test.params.index(last.operands[0])
    end = _constant(test, last.operands[1])
    step = next((n for n in body.nodes if body.returned[position] in n.results), None)
    if end is None or step is None or step.name != "stablehlo.add":
        return None
    by = [v for v in step.operands if v != body.params[position]]
    start = scalar_value(xs[position])
    if len(by) != 1 or _constant(body, by[0]) != 1 or start is None:
        return None
    return Count(position, int(start), max(end - int(start), 0))


def _constant(block: Block, value: int) -> int | None:
    node = next((n for n in block.nodes if value in n.results), None)
    if node is None or node.name != "stablehlo.constant":
        return None
    return int(node.attributes["value"])


@dataclass
class Counted:
    """The body of a loop that counts, while it is read as that of a scan."""

    block: Block
    init: Sequence[Value]
    count: Count
    optimistic: bool
    given: list[Value] = field(default_factory=list[Value])
    rows: dict[Value, Param] = field(default_factory=dict[Value, Param])
    """For each array that is read by the counter, the slice that stands for its row."""
    written: dict[Value, tuple[Value, Value]] = field(
        default_factory=dict[Value, "tuple[Value, Value]"]
    )
    """For each value that stands for an array with a row written, that array and the row."""

    def __post_init__(self) -> None:
        kept = zip(self.block.params, self.block.returned, strict=True)
        self.still = [p == r for p, r in kept]
        for i, x in enumerate(self.init):
            self.given.append(x if self.still[i] else Param(x.type, f"c{i}"))
        self.place = self.given[self.count.position]

    def row(self, node: Node, xs: Sequence[Value]) -> Value | None:
        """The result of reading or writing a row by the counter; None for anything else."""
        writes = node.name == "stablehlo.dynamic_update_slice"
        if not (writes or node.name == "stablehlo.dynamic_slice") or not self._whole(xs[0]):
            return None
        starts = xs[2 if writes else 1 :]
        if starts[0] is not self.place or any(scalar_value(s) != 0 for s in starts[1:]):
            return None
        part = xs[1].type if writes else node.types[0]
        if part.shape != (1, *xs[0].shape[1:]):
            return None
        return self._written(xs[0], xs[1]) if writes else self._read(xs[0])

    def _whole(self, x: Value) -> bool:
        """Whether the loop goes once over all rows of an array."""
        return self.count.start == 0 and x.type.rank > 0 and x.shape[0] == self.count.trips

    def _read(self, x: Value) -> Value | None:
        fixed = x in self.init and self.still[list(self.init).index(x)]
        if not fixed:
            return None
        inner = x.type.with_shape(x.shape[1:])
        row = self.rows.setdefault(x, Param(inner, f"x{len(self.rows)}"))
        return reshaped(row, (1, *inner.shape))

    def _written(self, x: Value, row: Value) -> Value | None:
        if not self.optimistic or x not in self.given or x in self.init:
            return None
        stands = Param(x.type, "written")
        self.written[stands] = (x, row)
        return stands

    def scan(self, body: Sequence[Op], out: Sequence[Value]) -> tuple[Value, ...] | None:
        """The scan, and its results in the order of the loop's."""
        with (more := Builder(body)):
            stacked: dict[int, Value] = {}
            for i, value in enumerate(out):
                if value in self.written:
                    whole, row = self.written[value]
                    if whole is not self.given[i]:
                        return None
                    stacked[i] = reshaped(row, row.shape[1:])
        special = {self.given[i] for i in stacked} | {*self.written}
        if any(v in special for op in more.ops for v in op.operands):
            return None
        if len(stacked) != len(self.written):
            return None
        return self._finished(more.ops, out, stacked)

    def _finished(
        self, body: Sequence[Op], out: Sequence[Value], stacked: Mapping[int, Value]
    ) -> tuple[Value, ...]:
        at = self.count.position
        places = range(len(self.given))
        carried = [i for i in places if not self.still[i] and i not in stacked and i != at]
        place = self.place
        assert isinstance(place, Param)
        params = [self._param(i) for i in carried]
        results = [out[i] for i in carried] + [*stacked.values()]
        region = Region([*params, place, *self.rows.values()], body, tuple(results))
        (step,), captured = closed([region])
        trips = self.count.trips
        counts = ops.Iota(trips, place.type.dtype)
        if self.count.start:
            counts = counts + splat(self.count.start, counts.type)
        init = tuple(self.init[i] for i in carried)
        scan = ops.Scan(init, (counts, *self.rows), captured, step, trips)
        found = dict(zip([*carried, *stacked], scan.results, strict=True))
        found[at] = splat(self.count.start + trips, place.type)
        return tuple(found.get(i, self.init[i]) for i in places)

    def _param(self, i: int) -> Param:
        found = self.given[i]
        assert isinstance(found, Param)
        return found


# -- regions --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Region:
    """A body as it was read: it may use values of the function around it."""

    params: Sequence[Param]
    ops: Sequence[Op]
    results: Sequence[Value]


def closed(regions: Sequence[Region]) -> tuple[list[Function], tuple[Value, ...]]:
    """The regions as closed functions, and the values from outside that all of them take."""
    free: dict[Value, None] = {}
    for region in regions:
        inner: set[Value] = {*region.params, *(r for op in region.ops for r in op.results)}
        used = (*(v for op in region.ops for v in op.operands), *region.results)
        free.update(dict.fromkeys(v for v in used if v not in inner))
    return [_closed(region, free) for region in regions], tuple(free)


def _closed(region: Region, free: Mapping[Value, None]) -> Function:
    captured = {v: Param(v.type, f"k{i}") for i, v in enumerate(free)}
    env: dict[Value, Value] = dict(captured)
    with (builder := Builder()):
        copy_ops(region.ops, env)
    params = (*region.params, *captured.values())
    return Function("body", params, tuple(builder.ops), tuple(mapped(region.results, env)))


# -- branches and calls of other code -------------------------------------------------------------


@reads("stablehlo.case", "stablehlo.if")
def case(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """One of several bodies; an index that is outside takes the last."""
    (index,) = xs
    return _chosen(node.regions, index, 0, place)


def _chosen(blocks: Sequence[Block], index: Value, first: int, place: Place) -> tuple[Value, ...]:
    if len(blocks) == 1:
        return place.blocks.run(blocks[0], (), place.env)
    bool_ = index.type.dtype.kind == "b"
    here = index if bool_ else ops.Equal(index, splat(first, index.type))
    with (then := Builder()):
        chosen = place.blocks.run(blocks[0], (), place.env)
    with (rest := Builder()):
        others = _chosen(blocks[1:], index, first + 1, place)
    regions = [Region((), then.ops, chosen), Region((), rest.ops, others)]
    (one, other), captured = closed(regions)
    return ops.Cond(here, captured, one, other).results


@reads("stablehlo.custom_call")
def custom_call(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """A call of other code: of those that place data, nothing is left."""
    target = node.attributes.get("call_target_name", "")
    if target in IDENTITIES:
        return tuple(xs)
    raise unreadable(f"{node.name} @{target}")


@reads("stablehlo.composite")
def composite(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """The operation of CHLO that it stands for, or what it decomposes into."""
    name = node.attributes.get("name")
    if name in READERS:
        return READERS[name](replace(node, name=name), xs, place)
    return place.blocks.run(place.blocks.tree.functions[node.attributes["decomposition"]], xs, {})
