"""Batching: one function on many inputs at once, along a new first axis.

There is one rule for each family of operations. An operation that depends on no batched input is
unchanged; a leaf operation gets a first axis on every operand, and its class says which attributes
change (``batched``). Products, gathers and scatters have rules that leave an unbatched operand
alone if they can. Control operations have their rules in ``batch_control`` and ``lanes``. A tape
counts as batched, because everything that is pushed is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from dlvm.base.errors import UserError
from dlvm.ir import (
    BOOL,
    I32,
    Builder,
    Declaration,
    Dim,
    Function,
    FunctionRef,
    Op,
    Param,
    TensorType,
    Value,
    zeros,
)
from dlvm.ir.rewrite import Env, mapped
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import (
    And,
    Assert,
    Broadcast,
    Cast,
    Cond,
    Effect,
    EmptyTape,
    Gather,
    IndexMap,
    Less,
    Matmul,
    Max,
    Not,
    Permute,
    Pop,
    Push,
    Reshape,
    Scan,
    Scatter,
    SearchSorted,
    Select,
)
from dlvm.ops.arrays.maps import as_gathers

from .activity import Flags, is_tape
from .live import live
from .reverse import Engine

Lanes = tuple[Sequence[Value], Flags]
Rule = Callable[["Batch", Op, Sequence[Value], Flags], Lanes]
BATCHED: dict[type[Op], Rule] = {}


@dataclass(frozen=True)
class Batch:
    """The number of lanes, and the writing of code for all of them.

    If the lanes take different branches, ``mask`` says which lanes are active in the code being
    written. The mask matters to loops and recursive calls, which might never end in an inactive
    lane, to operations that can raise an error, and to effects.
    """

    engine: Engine
    size: Dim
    mask: Value | None = None

    def guard(self, op: Op) -> tuple[Value, ...]:
        """The mask, if the regions of the control operation need it; else nothing."""
        return (self.mask,) if self.mask is not None and needs_mask(self.engine, (op,)) else ()

    def type(self, t: TensorType) -> TensorType:
        """The type of all lanes together."""
        return t if is_tape(t) else t.with_shape((self.size, *t.shape))

    def spread(self, x: Value, batched: bool = False) -> Value:
        """The value broadcast to all lanes, unless it is batched already."""
        if batched or is_tape(x.type):
            return x
        return Broadcast(x, (self.size, *x.shape), tuple(range(1, x.type.rank + 1)))

    def spread_all(self, xs: Sequence[Value], flags: Flags) -> list[Value]:
        """The values, all batched."""
        return [self.spread(x, f) for x, f in zip(xs, flags, strict=True)]

    def write(self, fn: Function, xs: Sequence[Value], flags: Flags) -> Lanes:
        """Writes a body here on these arguments; returns results, and which are batched."""
        env: Env = dict(zip(fn.params, xs, strict=True))
        lanes: set[Value] = set()
        lanes.update(p for p, f in zip(fn.params, flags, strict=True) if f or is_tape(p.type))
        for op in fn.ops:
            found, batched = self._step(op, mapped(op.operands, env), lanes)
            env.update(zip(op.results, found, strict=True))
            lanes.update(r for r, f in zip(op.results, batched, strict=True) if f)
        return mapped(fn.results, env), tuple(r in lanes for r in fn.results)

    def _step(self, op: Op, xs: Sequence[Value], lanes: set[Value]) -> Lanes:
        flags = tuple(v in lanes for v in op.operands)
        masked = self.mask is not None and needs_mask(self.engine, (op,))
        if not any(flags) and not masked and not isinstance(op, EmptyTape):
            return op.rebuild(xs).results, (False,) * len(op.results)
        rule = next((BATCHED[c] for c in type(op).__mro__ if c in BATCHED), leaf)
        return rule(self, op, xs, flags)

    def body(self, fn: Function, flags: Flags, masked: bool = False) -> Body:
        """A region for all lanes, written once for each choice of batched parameters.

        A masked region has a last parameter, the mask of the lanes that are active in it.
        """

        def make() -> Body:
            params = tuple(
                Param(self.type(p.type), p.name) if f else p
                for p, f in zip(fn.params, flags, strict=True)
            )
            mask = Param(TensorType(BOOL, (self.size,)), "lanes") if masked else None
            with Builder() as builder:
                results, batched = replace(self, mask=mask).write(fn, params, flags)
            ops = live(builder.ops, results)
            every = (*params, *((mask,) if mask else ()))
            return Body(Function(fn.name, every, ops, tuple(results)), batched)

        return self.engine.once(("batched", fn, flags, self.size, masked), make)

    def spread_results(self, body: Body, wanted: Flags) -> Function:
        """The region with its wanted results batched in any case."""
        fn = body.fn
        with Builder(fn.ops) as builder:
            rows = zip(fn.results, body.batched, wanted, strict=True)
            out = [self.spread(r, b) if w else r for r, b, w in rows]
        return Function(fn.name, fn.params, tuple(builder.ops), tuple(out))


def inside(engine: Engine, ops: Iterable[Op]) -> Iterator[Op]:
    """The operations, and all operations in their regions and callees."""
    pending, seen = list(ops), set[str]()
    while pending:
        op = pending.pop()
        yield op
        bodies = list(op.regions.values())
        if op.called is not None:
            refs = {v.name for v in op.attributes.values() if isinstance(v, FunctionRef)} - seen
            seen |= refs
            bodies = [engine.without_donation(name) for name in sorted(refs)]
        pending += (inner for body in bodies for inner in body.ops)


def can_raise(op: Op) -> bool:
    """Whether the operation itself can end the call with an error."""
    return op.may_raise and not op.regions


def needs_mask(engine: Engine, ops: Iterable[Op]) -> bool:
    """Whether any operation, nested ones included, must know which lanes are active."""
    found = inside(engine, ops)
    return any(
        isinstance(op, Effect)
        or (op.dataflow is not None and op.dataflow.endless)
        or can_raise(op)
        or any(is_tape(t) for t in op.result_types)
        or enters_again(engine, op)
        for op in found
    )


def enters_again(engine: Engine, op: Op) -> bool:
    """Whether the operation itself calls a recursive function."""
    return op.called is not None and engine.recursive(op.called.name)


@dataclass(frozen=True)
class Body:
    """A batched region, and which of its results are batched."""

    fn: Function
    batched: Flags


def leaf(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Every operand gets the batch axis; the class of the operation knows its new attributes."""
    operands = b.spread_all(xs, flags)
    if isinstance(op, IndexMap) and type(op).batched is Op.batched:
        return _gathers(b, op, operands)
    return _all(op.rebuild(operands, **op.batched(b.size)))


def _gathers(b: Batch, op: IndexMap, xs: Sequence[Value]) -> Lanes:
    """An index map whose class says nothing of batches: the gathers that it stands for, of all."""
    params = tuple(Param(x.type) for x in op.operands)
    with Builder():
        alone = cast(IndexMap, op.rebuild(params))
    with (builder := Builder()):
        result = as_gathers(alone)
    body = Function("map", params, tuple(builder.ops), (result,))
    found, lanes = b.write(body, list(xs), (True,) * len(xs))
    return tuple(b.spread(y, flag) for y, flag in zip(found, lanes, strict=True)), (True,)


def _all(op: Op) -> Lanes:
    return op.results, (True,) * len(op.results)


def _whole(y: Value) -> Lanes:
    return (y,), (True,)


def effect(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Performs the effect once for each active lane, from the first lane to the last."""
    if b.mask is None and not any(flags):
        return _all(op.rebuild(xs))
    slices = b.spread_all(xs, flags)
    if b.mask is not None:
        slices.append(b.mask)
    params = tuple(Param(x.type.with_shape(x.shape[1:]), "x") for x in slices)
    with Builder() as builder:
        _on_its_way(op, params)
    step = Function("body", params, tuple(builder.ops), ())
    return Scan((), tuple(slices), (), step, b.size).results, ()


def _on_its_way(op: Op, xs: Sequence[Value]) -> None:
    """The effect of one lane, under the condition that may follow the operands."""
    count = len(op.operands)
    if len(xs) == count:
        op.rebuild(xs)
        return
    there, elsewhere = (tuple(Param(x.type, "x") for x in xs[:count]) for _ in range(2))
    with Builder() as builder:
        op.rebuild(there)
    then = Function("then", there, tuple(builder.ops), ())
    Cond(xs[count], tuple(xs[:count]), then, Function("otherwise", elsewhere, (), ()))


def check(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """One assertion for all active lanes."""
    assert isinstance(op, Assert)
    failed = Not(b.spread(xs[0], flags[0]))
    if b.mask is not None:
        failed = And(failed, b.mask)
    return Assert(Not(any_of(failed)), op.message, op.remedy).results, ()


# -- products --------------------------------------------------------------------------------------


def _permuted(x: Value, order: tuple[int, ...]) -> Value:
    return x if order == tuple(range(x.type.rank)) else Permute(x, order)


def matmul(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Lanes of one operand only become more rows, or more columns, of a single product."""
    assert isinstance(op, Matmul)
    if all(flags):
        return leaf(b, op, xs, flags)
    x, y = xs
    r = op.type.rank
    batch, (rows, inner), columns = op.shape[: r - 2], op.x.shape[r - 2 :], op.shape[r - 1]
    before = tuple(range(1, r - 1))
    if flags[0]:
        tall = Reshape(_permuted(x, (*before, 0, r - 1, r)), (*batch, b.size * rows, inner))
        split = Reshape(Matmul(tall, y), (*batch, b.size, rows, columns))
        return _whole(_permuted(split, (r - 2, *range(r - 2), r - 1, r)))
    wide = Reshape(_permuted(y, (*before, r - 1, 0, r)), (*batch, inner, b.size * columns))
    split = Reshape(Matmul(x, wide), (*batch, rows, b.size, columns))
    return _whole(_permuted(split, (r - 1, *range(r - 1), r)))


# -- gather and scatter ----------------------------------------------------------------------------


def indexed(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Only active lanes can be out of range: the indices of the others are set to 0."""
    assert isinstance(op, Gather | Scatter)
    if b.mask is None or op.mode != "error":
        return moved(b, op, xs, flags)
    indices = b.spread(xs[1], flags[1])
    here = Broadcast(b.mask, indices.shape, (0,))
    safe = Select(here, indices, zeros(indices.type))
    rule = moved if at_least(op.x.shape[op.axis], 1) else _if_any_lane
    return rule(b, op, (xs[0], safe, *xs[2:]), (flags[0], True, *flags[2:]))


def _if_any_lane(b: Batch, op: Gather | Scatter, xs: Sequence[Value], flags: Flags) -> Lanes:
    """An axis that may be empty has no index 0, so it is read only if some lane is active."""
    assert b.mask is not None
    params = [tuple(Param(v.type, f"x{i}") for i, v in enumerate(xs)) for _ in range(2)]
    with Builder() as there:
        found, _ = moved(b, op, params[0], flags)
    with Builder() as nowhere:
        x = () if isinstance(op, Gather) else (b.spread(params[1][0], flags[0]),)
        read = (zeros(r.type) for r in found[len(x) :])
        nothing = (*x, *read)
    then = Function("then", params[0], tuple(there.ops), tuple(found))
    otherwise = Function("otherwise", params[1], tuple(nowhere.ops), nothing)
    return _all(Cond(any_of(b.mask), tuple(xs), then, otherwise))


def moved(b: Batch, op: Gather | Scatter, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Gathers or scatters, with a batch axis only on operands that need one."""
    return gather(b, op, xs, flags) if isinstance(op, Gather) else scatter(b, op, xs, flags)


def any_of(lanes: Value) -> Value:
    """Whether any lane is set."""
    return Less(zeros(TensorType(I32)), Max(Cast(lanes, I32), (0,)))


def gather(b: Batch, op: Gather, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Lanes of one operand only need no batch axis in the gather."""
    x, indices = xs
    if op.batch or all(flags):
        return leaf(b, op, xs, flags)
    if flags[0]:
        return _all(Gather(x, indices, op.axis + 1, 0, op.mode))
    found = Gather(x, indices, op.axis, 0, op.mode)
    rest = (a for a in range(found.type.rank) if a != op.axis)
    return _whole(_permuted(found, (op.axis, *rest)))


def scatter(b: Batch, op: Scatter, xs: Sequence[Value], flags: Flags) -> Lanes:
    """If all lanes share the indices, one scatter on the next axis serves them all."""
    if op.batch or flags[1]:
        return leaf(b, op, xs, flags)
    x, updates = b.spread(xs[0], flags[0]), b.spread(xs[2], flags[2])
    return _all(op.rebuild((x, xs[1], updates), axis=op.axis + 1))


# -- searching -------------------------------------------------------------------------------------


def searched(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A sorted row that all lanes share is searched once for the elements of all lanes."""
    assert isinstance(op, SearchSorted)
    if flags[0] or op.a.type.rank > 1:
        return leaf(b, op, xs, flags)
    return _all(op.rebuild(xs))


# -- tapes -----------------------------------------------------------------------------------------


def empty_tape(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A tape counts as batched from the start."""
    return _all(op.rebuild(xs))


def push(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Everything that is pushed is batched."""
    return _all(op.rebuild(b.spread_all(xs, flags)))


def pop(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Everything that is popped is batched."""
    assert isinstance(op, Pop)
    return _all(Pop(xs[0], tuple(b.type(t) for t in op.types)))


BATCHED.update(
    {
        Effect: effect,
        Assert: check,
        Matmul: matmul,
        Gather: indexed,
        Scatter: indexed,
        SearchSorted: searched,
        EmptyTape: empty_tape,
        Push: push,
        Pop: pop,
    }
)


def batched(engine: Engine, d: Declaration) -> Function:
    """The function that the declaration of a batched form stands for."""
    fn = engine.without_donation(d.of)
    b = Batch(engine, d.size)
    flags = tuple(axis is not None for axis in d.axes)
    params: list[Param] = []
    with Builder() as builder:
        xs: list[Value] = []
        for p, axis in zip(fn.params, d.axes, strict=True):
            x, param = _lanes_first(b, p, axis)
            params.append(param)
            xs.append(x)
        results, found = b.write(fn, xs, flags)
        for i in d.keep:
            _check_same(d, i, found[i])
        rows = enumerate(zip(results, found, strict=True))
        out = tuple(r if i in d.keep else b.spread(r, f) for i, (r, f) in rows)
    return Function(d.name, tuple(params), live(builder.ops, out), out)


def _check_same(d: Declaration, i: int, batched: bool) -> None:
    if batched:
        raise UserError(
            f"vmap of {d.of}: result {i} depends on a batched argument; out_axes=None for it "
            "means that it is the same in every lane",
            remedy="give the position of its batch axis instead, such as out_axes=0",
        )


def _lanes_first(b: Batch, p: Param, axis: int | None) -> tuple[Value, Param]:
    if axis is None:
        return p, p
    param = Param(p.type.with_shape((*p.shape[:axis], b.size, *p.shape[axis:])), p.name)
    order = (axis, *(a for a in range(param.type.rank) if a != axis))
    return (Permute(param, order) if axis else param), param
