"""The program of each rank: local sizes, and what ranks exchange between operations.

Each operation is written for the pieces that a rank has. Which axes its ranks share is chosen by
the seconds that it takes to move operands there and results to where they are to lie. An axis that
does not divide has a tail of anything on the last ranks, which is masked before a fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm.ir import Builder, Dim, Function, Module, Op, Param, TensorType, Value, literal, zeros
from dlvm.ir.sharding.factors import Factors
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding, current
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.types import U8
from dlvm.ir.unify import solvable
from dlvm.ops import Constant, Outgoing, Shard
from dlvm.ops.elements.casting import converted
from dlvm.ops.flow.collectives import GatherRows
from dlvm.ops.flow.ranked import MaskShard, Ranked
from dlvm.ops.flow.structured import Structured
from dlvm.opt.regions.inlining import keep_reachable

from .joins import join, join_again, join_pieces
from .moves import local_bytes, moving, seconds
from .packing import packed
from .propagation import sharding_of
from .values import Chosen, Local, Values, cut


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


class _Writer:
    """Writes one function or region."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.values = Values(mesh)

    def function(
        self, fn: Function, results: Sequence[Sharding], given: Sequence[Sharding]
    ) -> Function:
        """The function on pieces, whose parameters and results have these shardings."""
        params: list[Param] = []
        with (builder := Builder()):
            for p, found in zip(fn.params, given, strict=True):
                shape = self.mesh.locally(p.type.shape, found)
                params.append(Param(p.type.with_shape(shape), p.name, p.donated, p.origin))
                self.values.env[p] = Local(p.type, params[-1], found)
            for op in fn.ops:
                builder.origin, before = op.origin, len(builder.ops)
                self._operation(op)
                for new in builder.ops[before:]:
                    if isinstance(new, Ranked):
                        new.asked = _reason(op, new.axes)
            builder.origin = None
            out = tuple(self.values.at(r, s) for r, s in zip(fn.results, results, strict=True))
        return Function(fn.name, tuple(params), tuple(builder.ops), out)

    # -- operations ------------------------------------------------------------------------------

    def _operation(self, op: Op) -> None:
        if isinstance(op, Shard):
            want = sharding_of(op)
            self.values.env[op] = Local(op.type, self.values.at(op.x, want), want)
        elif isinstance(op, Structured):
            self._structured(op)
        elif isinstance(op, Outgoing) and op.ranks:
            every, piece = tuple(self.mesh.sizes), self.values.env[op.x].value
            op.rebuild(GatherRows(every, str(self.mesh), (piece,)).results)
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
                given.append(self.values.whole(value))
                continue
            j = i - seen.start
            given.append(
                self.values.at(value, ((), *inside[j]) if first <= j < last else inside[j])
            )
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
            self.values.env[value] = Local(value.type, piece, sharding_of(value))

    def _plain(self, op: Op) -> None:
        rule = op.factors()
        chosen = self._chosen(op, rule)
        given: list[Value] = []
        for i, (value, places) in enumerate(zip(op.operands, rule.operands, strict=True)):
            want = cut(places, chosen)
            if i == rule.start and _folded(rule, chosen):
                local = value.type.with_shape(self.mesh.locally(value.shape, want))
                given.append(zeros(local))
            else:
                given.append(self._masked(self.values.at(value, want), value, i, rule, chosen))
        shapes = [
            self.mesh.locally(t.shape, cut(places, chosen))
            for t, places in zip(op.result_types, rule.results, strict=True)
        ]
        for i, (piece, sharding) in enumerate(self._written(op, rule, chosen, given, shapes)):
            result = op.results[i]
            if rule.start is not None and _folded(rule, chosen):
                piece = self.values.at(op.operands[rule.start], sharding) + piece
            self.values.give(result, piece, sharding)

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
        lying = [cut(places, chosen) for places in rule.results]
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
                piece, here = join(self.mesh, partial, word, axes, here, want)
                found, lying = (piece,), [here]
        dtypes = (t.dtype for t in op.result_types)
        return [(converted(x, t), s) for x, t, s in zip(found, dtypes, lying, strict=True)]

    # -- choices ---------------------------------------------------------------------------------

    def _chosen(self, op: Op, rule: Factors) -> Chosen:
        """The axes of the mesh that share each factor, in the way that takes least time."""
        have = [
            (places, self.values.env[v].sharding)
            for v, places in zip(op.operands, rule.operands, strict=True)
        ]
        want = [
            (places, sharding_of(v)) for v, places in zip(op.results, rule.results, strict=True)
        ]
        if not any(any(sharding) for _, sharding in (*have, *want)):
            return {}
        orders = ((*have, *want), (*want, *have), (*reversed(have), *want))
        offers = [self.values.offered(rule, order, op) for order in orders]
        different = [c for i, c in enumerate(offers) if c not in offers[:i]]
        if len(different) == 1:
            return different[0]
        return min(different, key=lambda chosen: self._seconds(op, rule, chosen))

    def _seconds(self, op: Op, rule: Factors, chosen: Chosen) -> float:
        mesh, total = self.mesh.logical, 0.0
        for v, places in zip(op.operands, rule.operands, strict=True):
            total += self.values.price(v, cut(places, chosen))
        axes = tuple(a for f in rule.folds for a in chosen.get(f, ()))
        for v, places in zip(op.results, rule.results, strict=True):
            here, want = cut(places, chosen), sharding_of(v)
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


def _folded(rule: Factors, chosen: Chosen) -> bool:
    return any(chosen.get(f) for f in rule.folds)
