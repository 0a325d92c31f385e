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
from dlvm.ops import Constant, Shard
from dlvm.ops.elements.casting import converted
from dlvm.ops.flow.collectives import MaskShard
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
        _Writer(mesh).function(
            fn, *([sharding_of(v) for v in vs] for vs in (fn.results, fn.params))
        )
        for fn in module.functions
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


class _Writer:
    """Writes one function or region."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.env: dict[Value, _Local] = {}

    def function(
        self, fn: Function, results: Sequence[Sharding], given: Sequence[Sharding]
    ) -> Function:
        """The function on pieces, whose parameters and results have these shardings."""
        params: list[Param] = []
        with (builder := Builder()):
            for p, found in zip(fn.params, given, strict=True):
                shape = self.mesh.locally(p.type.shape, found)
                params.append(Param(p.type.with_shape(shape), p.name, p.donated, p.origin))
                self.env[p] = _Local(p.type, params[-1], found)
            for op in fn.ops:
                builder.origin = op.origin
                self._operation(op)
            builder.origin = None
            out = tuple(self._in(r, s) for r, s in zip(fn.results, results, strict=True))
        return Function(fn.name, tuple(params), tuple(builder.ops), out)

    # -- values ----------------------------------------------------------------------------------

    def _in(self, value: Value, want: Sharding) -> Value:
        """The piece of a value in another sharding."""
        local = self.env[value]
        if local.sharding == want:
            return local.value
        if want not in local.others:
            local.others[want] = moved(
                self.mesh, local.value, local.type.shape, local.sharding, want
            )
        return local.others[want]

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
        else:
            self._plain(op)

    def _structured(self, op: Structured) -> None:
        given: list[Value] = []
        seen = range(*op.seen.indices(len(op.operands)))
        first, last = op.carries, op.carries + op.slices
        (body, *_) = op.giving  # the parameters of others may lie elsewhere, where axes compete
        inside = [sharding_of(v) for v in (*op.results[:first], *body.params[first:])]
        for i, value in enumerate(op.operands):
            if i not in seen:
                given.append(self._whole(value))
                continue
            j = i - seen.start
            given.append(self._in(value, ((), *inside[j]) if first <= j < last else inside[j]))
        stacked = bool(op.dataflow.length)
        results = [
            s[1:] if stacked and i >= op.carries else s
            for i, s in enumerate(map(sharding_of, op.results))
        ]
        bodies = op.dataflow.bodies
        regions = {
            name: _Writer(self.mesh).function(region, results if name in bodies else [()], inside)
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
            (places, self.env[v].sharding, v.shape)
            for v, places in zip(op.operands, rule.operands, strict=True)
        ]
        want = [
            (places, sharding_of(v), v.shape)
            for v, places in zip(op.results, rule.results, strict=True)
        ]
        if not any(any(sharding) for _, sharding, _ in (*have, *want)):
            return {}
        orders = ((*have, *want), (*want, *have), (*reversed(have), *want))
        offers = [self._offered(rule, order) for order in orders]
        different = [c for i, c in enumerate(offers) if c not in offers[:i]]
        if len(different) == 1:
            return different[0]
        return min(different, key=lambda chosen: self._seconds(op, rule, chosen))

    def _offered(
        self, rule: Factors, order: Sequence[tuple[Places, Sharding, Sequence[Dim]]]
    ) -> dict[int, Axes]:
        found: dict[int, Axes] = {}
        used: set[str] = set()
        for places, sharding, _ in order:
            for factor, axes in zip(places, sharding, strict=True):
                if factor is not None and axes and factor not in found and not used & {*axes}:
                    found[factor] = axes
                    used.update(axes)
        for factor in rule.even & found.keys():
            sizes = (
                size
                for places, _, shape in order
                for size, f in zip(shape, places, strict=True)
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
            total += moving(mesh, v.type, self.env[v].sharding, _cut(places, chosen))
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


def _cut(places: Places, chosen: Chosen) -> Sharding:
    return tuple(chosen.get(f, ()) if f is not None else () for f in places)


def _folded(rule: Factors, chosen: Chosen) -> bool:
    return any(chosen.get(f) for f in rule.folds)
