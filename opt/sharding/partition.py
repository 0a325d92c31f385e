"""The program of each rank: local sizes, and what ranks exchange between operations.

Each operation is written for the pieces that a rank has. Which axes its ranks share is chosen by
the seconds that it takes to move operands there and results to where they are to lie. An axis that
does not divide has a tail of anything on the last ranks, which is masked before a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dlvm.ir import Builder, Dim, Function, Module, Op, Param, TensorType, Value, literal, zeros
from dlvm.ir.sharding.factors import Factors, Places
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding, current
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.types import U8
from dlvm.ir.unify import solvable
from dlvm.ops import Constant, Outgoing, Reshape, Shard
from dlvm.ops.elements.casting import converted
from dlvm.ops.families import IndexMap
from dlvm.ops.flow.collectives import AllGather, MaskShard, Ranked
from dlvm.ops.flow.structured import Structured
from dlvm.opt.regions.inlining import keep_reachable

from .joins import join, join_again, join_pieces
from .moves import local_bytes, moved, moving, seconds
from .packing import packed
from .propagation import sharding_of

Chosen = Mapping[int, Axes]


def partition(module: Module) -> Module:
    """The program of each rank of the mesh, with local sizes and exchanges.

    It is no pass: parameters and results of functions are pieces.
    """
    mesh, module = current(), keep_reachable.run(module)
    written = [
        _Writer(mesh).function(fn, tuple(map(sharding_of, fn.results))) for fn in module.functions
    ]
    main, *others = written
    return Module((_closed(main, module.main), *others)).map(packed)


def _closed(local: Function, whole: Function) -> Function:
    """The function with a parameter more, which binds sizes that no other one tells.

    It is an array without elements, one axis for each of the sizes.
    """
    told = solvable([p.type for p in local.params])
    used = {s: None for p in whole.params for d in p.type.shape for s in symbols(d)}
    if not (loose := [s for s in used if s not in told]):
        return local
    carrier = Param(TensorType(U8, (*map(symbol, loose), 0)), "sizes")
    return Function(local.name, (*local.params, carrier), local.ops, local.results)


@dataclass
class _Local:
    """What a rank has of a value: its piece, and other pieces that were made of it."""

    type: TensorType
    value: Value
    sharding: Sharding
    others: dict[Sharding, Value] = field(default_factory=dict[Sharding, Value])


@dataclass(frozen=True, slots=True)
class _Again:
    """A movement of elements that is written once more, and how its operands lie there."""

    op: IndexMap
    operands: Sequence[Sharding]


DEPTH = 4
"""How many movements of elements, one of another, are looked through."""


class _Writer:
    """Writes one function or region."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.env: dict[Value, _Local] = {}

    def function(self, fn: Function, results: Sequence[Sharding]) -> Function:
        """The function on pieces, which gives its results in these shardings."""
        params: list[Param] = []
        with (builder := Builder()):
            for p in fn.params:
                found = sharding_of(p)
                shape = self.mesh.locally(p.type.shape, found)
                params.append(Param(p.type.with_shape(shape), p.name, p.donated, p.origin))
                self.env[p] = _Local(p.type, params[-1], found)
            for op in fn.ops:
                builder.origin, before = op.origin, len(builder.ops)
                self._operation(op)
                for new in builder.ops[before:]:
                    if isinstance(new, Ranked):
                        new.asked = _reason(op, new.axes)
            builder.origin = None
            given = tuple(self._in(r, s) for r, s in zip(fn.results, results, strict=True))
        return Function(fn.name, tuple(params), tuple(builder.ops), given)

    # -- values ----------------------------------------------------------------------------------

    def _in(self, value: Value, want: Sharding) -> Value:
        """The piece of a value in another sharding."""
        local = self.env[value]
        if local.sharding == want:
            return local.value
        if want not in local.others:
            again = self._again(value, want)
            if again is not None and self._through(again) < self._directly(value, want):
                local.others[want] = self._rebuilt(again, want)
            else:
                local.others[want] = moved(
                    self.mesh, local.value, local.type.shape, local.sharding, want
                )
        return local.others[want]

    def _again(self, value: Value, want: Sharding) -> _Again | None:
        """How a movement of elements is written once more for another sharding of its result."""
        if not isinstance(value, IndexMap):
            return None
        rule = value.factors()
        chosen = self._offered(rule, [(rule.results[0], want)], value)
        if _cut(rule.results[0], chosen) != want:
            return None
        return _Again(value, [_cut(places, chosen) for places in rule.operands])

    def _rebuilt(self, again: _Again, want: Sharding) -> Value:
        op = again.op
        given = [self._in(v, s) for v, s in zip(op.operands, again.operands, strict=True)]
        return op.rebuild(given, **op.resized(self.mesh.locally(op.shape, want))).results[0]

    def _price(self, value: Value, want: Sharding, depth: int = DEPTH) -> float:
        """The seconds until a value lies in another sharding, in the quicker of two ways."""
        local = self.env[value]
        if want == local.sharding or want in local.others:
            return 0.0
        direct = self._directly(value, want)
        again = self._again(value, want) if depth else None
        return direct if again is None else min(direct, self._through(again, depth))

    def _directly(self, value: Value, want: Sharding) -> float:
        return moving(self.mesh.logical, value.type, self.env[value].sharding, want)

    def _through(self, again: _Again, depth: int = DEPTH) -> float:
        pairs = zip(again.op.operands, again.operands, strict=True)
        return sum(self._price(v, s, depth - 1) for v, s in pairs)

    def _whole(self, value: Value) -> Value:
        return self._in(value, ((),) * value.type.rank)

    def _give(self, value: Value, piece: Value, sharding: Sharding) -> None:
        """Note the piece of a value, moved to where the value is to lie."""
        self.env[value] = _Local(value.type, piece, sharding)
        want = sharding_of(value)
        if want != sharding:
            self.env[value] = _Local(value.type, self._in(value, want), want, {sharding: piece})

    # -- operations ------------------------------------------------------------------------------

    def _operation(self, op: Op) -> None:
        if isinstance(op, Shard):
            want = sharding_of(op)
            self.env[op] = _Local(op.type, self._in(op.x, want), want)
        elif isinstance(op, Structured):
            self._structured(op)
        elif isinstance(op, Outgoing) and op.ranks:
            first = Reshape(self.env[op.x].value, (1, *self.env[op.x].value.shape))
            every = tuple(self.mesh.sizes)
            gathered = AllGather(every, str(self.mesh), (first,), (0,), (self.mesh.size,))
            op.rebuild(gathered.results)
        else:
            self._plain(op)

    def _structured(self, op: Structured) -> None:
        given: list[Value] = []
        seen = range(*op.seen.indices(len(op.operands)))
        first, last = op.carries, op.carries + op.slices
        (body, *_) = op.giving
        for i, value in enumerate(op.operands):
            if i not in seen:
                given.append(self._whole(value))
                continue
            j = i - seen.start
            inside = sharding_of(body.params[j])
            given.append(self._in(value, ((), *inside) if first <= j < last else inside))
        stacked = bool(op.dataflow.length)
        results = [
            s[1:] if stacked and i >= op.carries else s
            for i, s in enumerate(map(sharding_of, op.results))
        ]
        bodies = op.dataflow.bodies
        regions = {
            name: _Writer(self.mesh).function(region, results if name in bodies else [()])
            for name, region in op.regions.items()
        }
        new = op.rebuild(given, **regions)
        for value, piece in zip(op.results, new.results, strict=True):
            self.env[value] = _Local(value.type, piece, sharding_of(value))

    def _plain(self, op: Op) -> None:
        rule = op.factors()
        chosen = self._chosen(op, rule)
        given: list[Value] = []
        for i, (value, places) in enumerate(zip(op.operands, rule.operands, strict=True)):
            want = _cut(places, chosen)
            if i == rule.start and _folded(rule, chosen):
                local = value.type.with_shape(self.mesh.locally(value.shape, want))
                given.append(zeros(local))
            else:
                given.append(self._masked(self._in(value, want), value, i, rule, chosen))
        shapes = [
            self.mesh.locally(t.shape, _cut(places, chosen))
            for t, places in zip(op.result_types, rule.results, strict=True)
        ]
        for i, (piece, sharding) in enumerate(self._written(op, rule, chosen, given, shapes)):
            result = op.results[i]
            if rule.start is not None and _folded(rule, chosen):
                piece = self._in(op.operands[rule.start], sharding) + piece
            self._give(result, piece, sharding)

    def _masked(self, x: Value, of: Value, i: int, rule: Factors, chosen: Chosen) -> Value:
        """An operand whose tails change nothing: neither a fold nor whether there is an error."""
        for axis, factor in enumerate(rule.operands[i]):
            axes = chosen.get(factor, ()) if factor is not None else ()
            if not axes or self.mesh.full(of.shape[axis], axes):
                continue
            fill = rule.fills[i] if factor in rule.folds else None
            if i in rule.cleared:
                fill = 0
            if fill is not None:
                scalar = Constant(literal(fill, x.dtype))
                x = MaskShard(axes, str(self.mesh), axis, x, scalar, of.shape[axis])
        return x

    def _written(
        self,
        op: Op,
        rule: Factors,
        chosen: Chosen,
        given: Sequence[Value],
        shapes: Sequence[tuple[Dim, ...]],
    ) -> Iterable[tuple[Value, Sharding]]:
        """The results, with what ranks have folded joined, and how each lies."""
        folded = {f: chosen[f] for f in rule.folds if chosen.get(f)}
        lying = [_cut(places, chosen) for places in rule.results]
        if not folded:
            new = op.rebuild(given, **op.resized(*shapes))
            return zip(new.results, lying, strict=True)
        exact = not op.regions
        wide = [converted(x, x.dtype.compute) if exact else x for x in given]
        words = {rule.folds[f] for f in folded}
        (word,) = words
        pieced = [f for f in folded if self.mesh.pieced(folded[f])]
        if pieced:
            found = join_pieces(self.mesh, op, rule, folded, wide, shapes, word)
        else:
            axes = tuple(a for f in folded for a in folded[f])
            new = op.rebuild(wide, **op.resized(*shapes))
            if word == "again":
                found = join_again(self.mesh, op, new, axes)
            else:
                (want,) = map(sharding_of, op.results)
                ((partial,), (here,)) = (new.results, lying)
                piece, here = join(self.mesh, partial, op.type, word, axes, here, want)
                found, lying = (piece,), [here]
        dtypes = (t.dtype for t in op.result_types)
        return [(converted(x, t), s) for x, t, s in zip(found, dtypes, lying, strict=True)]

    # -- choices ---------------------------------------------------------------------------------

    def _chosen(self, op: Op, rule: Factors) -> Chosen:
        """The axes of the mesh that share each factor, in the way that takes least time."""
        have = [
            (places, self.env[v].sharding)
            for v, places in zip(op.operands, rule.operands, strict=True)
        ]
        want = [
            (places, sharding_of(v)) for v, places in zip(op.results, rule.results, strict=True)
        ]
        if not any(any(sharding) for _, sharding in (*have, *want)):
            return {}
        orders = ((*have, *want), (*want, *have), (*reversed(have), *want))
        offers = [self._offered(rule, order, op) for order in orders]
        different = [c for i, c in enumerate(offers) if c not in offers[:i]]
        if len(different) == 1:
            return different[0]
        return min(different, key=lambda chosen: self._seconds(op, rule, chosen))

    def _offered(
        self, rule: Factors, order: Sequence[tuple[Places, Sharding]], op: Op
    ) -> dict[int, Axes]:
        """The first axes that are offered for each factor, as far as they can be shared."""
        found: dict[int, Axes] = {}
        used: set[str] = set()
        for places, sharding in order:
            for factor, axes in zip(places, sharding, strict=True):
                if factor is not None and axes and factor not in found and not used & {*axes}:
                    found[factor] = axes
                    used.update(axes)
        values = (*op.operands, *op.results)
        for factor in rule.even & found.keys():
            sizes = (
                size
                for value, places in zip(values, rule.places, strict=True)
                for size, f in zip(value.shape, places, strict=True)
                if f == factor
            )
            if not all(self.mesh.even(n, found[factor]) for n in sizes):
                del found[factor]
        words = [rule.folds[f] for f in found if f in rule.folds]
        return (
            found if len({*words}) < 2 else {f: a for f, a in found.items() if f not in rule.folds}
        )

    def _seconds(self, op: Op, rule: Factors, chosen: Chosen) -> float:
        mesh, total = self.mesh.logical, 0.0
        for v, places in zip(op.operands, rule.operands, strict=True):
            total += self._price(v, _cut(places, chosen))
        axes = tuple(a for f in rule.folds for a in chosen.get(f, ()))
        for v, places in zip(op.results, rule.results, strict=True):
            here, want = _cut(places, chosen), sharding_of(v)
            size = local_bytes(mesh, v.type, here)
            if axes and axes in want:
                total += seconds(mesh, "scatter", size, axes)
            elif axes:
                total += seconds(mesh, "reduce", size, axes) + moving(mesh, v.type, here, want)
            else:
                total += moving(mesh, v.type, here, want)
        return total


def _reason(op: Op, axes: Axes) -> str:
    """Why ranks exchange something along axes for an operation."""
    said: list[str] = []
    rule = None if op.holds_regions else op.factors()
    for i, value in enumerate((*op.operands, *op.results)):
        for axis, names in enumerate(value.sharding or ()):
            if not set(names) & set(axes):
                continue
            if rule is not None and rule.places[i][axis] is None:
                said.insert(0, f"{op.name} needs all of axis {axis}")
            said += value.sharded_by[axis : axis + 1]
    return ", ".join(dict.fromkeys(filter(None, said)))


def _cut(places: Places, chosen: Chosen) -> Sharding:
    return tuple(chosen.get(f, ()) if f is not None else () for f in places)


def _folded(rule: Factors, chosen: Chosen) -> bool:
    return any(chosen.get(f) for f in rule.folds)
