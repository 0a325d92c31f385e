"""Batching: the same function on many inputs at once, along a new first axis.

One rule for each family. What depends on no batched input stays as it is; a leaf operation
gives its operands a first axis each and asks its class which attributes change (``batched``).
Products, gathers and scatters have rules that leave an unbatched operand alone where they can.
Control operations have theirs next door. A tape counts as batched: all that is pushed is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

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
from dlvm.ir.dims import at_least
from dlvm.ir.rewrite import Env, mapped
from dlvm.ops import (
    And,
    Assert,
    Broadcast,
    Call,
    Cast,
    Cond,
    Effect,
    EmptyTape,
    Gather,
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
    While,
)

from .activity import Flags, is_tape
from .live import live
from .reverse import Engine

Lanes = tuple[Sequence[Value], Flags]
Rule = Callable[["Batch", Op, Sequence[Value], Flags], Lanes]
BATCHED: dict[type[Op], Rule] = {}


@dataclass(frozen=True)
class Batch:
    """How many lanes there are, and how code is written for all of them.

    Where lanes go different ways, ``mask`` says which of them are on the way being written:
    loops and functions that call themselves ask, which may never end in a lane that is
    elsewhere, operations that can end the
    call with an error, and effects.
    """

    engine: Engine
    size: Dim
    mask: Value | None = None

    def guard(self, op: Op) -> tuple[Value, ...]:
        """The mask, where a control operation must hand it on to its regions."""
        return (self.mask,) if self.mask is not None and needs_mask(self.engine, (op,)) else ()

    def type(self, t: TensorType) -> TensorType:
        """The type of all lanes together."""
        return t if is_tape(t) else t.with_shape((self.size, *t.shape))

    def spread(self, x: Value, batched: bool = False) -> Value:
        """The same value in every lane, if it is not batched yet."""
        if batched or is_tape(x.type):
            return x
        return Broadcast(x, (self.size, *x.shape), tuple(range(1, x.type.rank + 1)))

    def every(self, xs: Sequence[Value], flags: Flags) -> list[Value]:
        """All values batched."""
        return [self.spread(x, f) for x, f in zip(xs, flags, strict=True)]

    def write(self, fn: Function, xs: Sequence[Value], flags: Flags) -> Lanes:
        """Write a body here on these arguments; its results, and which of them are batched."""
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
        """A region for all lanes, written once for each choice of what is batched.

        A masked one has a last parameter that says which lanes are on this way.
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

    def demand(self, body: Body, wanted: Flags) -> Function:
        """The region with the results flagged batched in any case."""
        fn = body.fn
        with Builder(fn.ops) as builder:
            rows = zip(fn.results, body.batched, wanted, strict=True)
            out = [self.spread(r, b) if w else r for r, b, w in rows]
        return Function(fn.name, fn.params, tuple(builder.ops), tuple(out))


def inside(engine: Engine, ops: Iterable[Op]) -> Iterator[Op]:
    """Operations and all that they hold or call."""
    pending, seen = list(ops), set[str]()
    while pending:
        op = pending.pop()
        yield op
        bodies = list(op.regions.values())
        if isinstance(op, Call):
            refs = {v.name for v in op.attributes.values() if isinstance(v, FunctionRef)} - seen
            seen |= refs
            bodies = [engine.lent(name) for name in sorted(refs)]
        pending += (inner for body in bodies for inner in body.ops)


def can_raise(op: Op) -> bool:
    """Whether the operation itself can end the call with an error."""
    return op.may_raise and not op.regions


def needs_mask(engine: Engine, ops: Iterable[Op]) -> bool:
    """Whether anything inside must know which lanes are on its way."""
    found = inside(engine, ops)
    return any(
        isinstance(op, While | Effect)
        or can_raise(op)
        or any(is_tape(t) for t in op.result_types)
        or enters_again(engine, op)
        for op in found
    )


def enters_again(engine: Engine, op: Op) -> bool:
    """Whether the operation itself calls a function that calls itself."""
    return isinstance(op, Call) and engine.recursive(op.callee.name)


@dataclass(frozen=True)
class Body:
    """A batched region, and which of its results are batched."""

    fn: Function
    batched: Flags


def leaf(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """All operands get the axis; the class of the operation knows the rest."""
    return _all(op.rebuild(b.every(xs, flags), **op.batched(b.size)))


def _all(op: Op) -> Lanes:
    return op.results, (True,) * len(op.results)


def _whole(y: Value) -> Lanes:
    return (y,), (True,)


def effect(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """One effect for each lane that comes there, from the first lane to the last."""
    if b.mask is None and not any(flags):
        return _all(op.rebuild(xs))
    slices = b.every(xs, flags)
    if b.mask is not None:
        slices.append(b.mask)
    params = tuple(Param(x.type.with_shape(x.shape[1:]), "x") for x in slices)
    with Builder() as builder:
        _on_its_way(op, params)
    step = Function("body", params, tuple(builder.ops), ())
    return Scan((), tuple(slices), (), step, b.size).results, ()


def _on_its_way(op: Op, xs: Sequence[Value]) -> None:
    """The effect of one lane; a last value, if there is one more, says whether it comes there."""
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
    """One check that every lane which comes there passes."""
    assert isinstance(op, Assert)
    failed = Not(b.spread(xs[0], flags[0]))
    if b.mask is not None:
        failed = And(failed, b.mask)
    return Assert(Not(any_of(failed)), op.message).results, ()


# -- products --------------------------------------------------------------------------------------


def _permuted(x: Value, order: tuple[int, ...]) -> Value:
    return x if order == tuple(range(x.type.rank)) else Permute(x, order)


def matmul(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Lanes of one operand only are more rows, or more columns, of one product."""
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
    """Only lanes that are on this way can be out of range: in the others indices are 0."""
    assert isinstance(op, Gather | Scatter)
    if b.mask is None or op.mode != "error":
        return moved(b, op, xs, flags)
    indices = b.spread(xs[1], flags[1])
    here = Broadcast(b.mask, indices.shape, (0,))
    safe = Select(here, indices, zeros(indices.type))
    rule = moved if at_least(op.x.shape[op.axis], 1) else _if_any_lane
    return rule(b, op, (xs[0], safe, *xs[2:]), (flags[0], True, *flags[2:]))


def _if_any_lane(b: Batch, op: Gather | Scatter, xs: Sequence[Value], flags: Flags) -> Lanes:
    """An axis that may be empty has no index 0: it is read only if some lane comes here."""
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
    """What the indices name is moved, with a batch axis only where it must have one."""
    return gather(b, op, xs, flags) if isinstance(op, Gather) else scatter(b, op, xs, flags)


def any_of(lanes: Value) -> Value:
    """Whether there is a lane."""
    return Less(zeros(TensorType(I32)), Max(Cast(lanes, I32), (0,)))


def gather(b: Batch, op: Gather, xs: Sequence[Value], flags: Flags) -> Lanes:
    """Lanes of one operand only move along: no batch axis is needed."""
    x, indices = xs
    if op.batch or all(flags):
        return leaf(b, op, xs, flags)
    if flags[0]:
        return _all(Gather(x, indices, op.axis + 1, 0, op.mode))
    found = Gather(x, indices, op.axis, 0, op.mode)
    rest = (a for a in range(found.type.rank) if a != op.axis)
    return _whole(_permuted(found, (op.axis, *rest)))


def scatter(b: Batch, op: Scatter, xs: Sequence[Value], flags: Flags) -> Lanes:
    """The same indices in every lane are one scatter, one axis further."""
    if op.batch or flags[1]:
        return leaf(b, op, xs, flags)
    x, updates = b.spread(xs[0], flags[0]), b.spread(xs[2], flags[2])
    return _all(op.rebuild((x, xs[1], updates), axis=op.axis + 1))


# -- searching -------------------------------------------------------------------------------------


def searched(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """One row for all lanes is searched for all their elements."""
    assert isinstance(op, SearchSorted)
    if flags[0] or op.a.type.rank > 1:
        return leaf(b, op, xs, flags)
    return _all(op.rebuild(xs))


# -- tapes -----------------------------------------------------------------------------------------


def empty_tape(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """A tape counts as batched from the start."""
    return _all(op.rebuild(xs))


def push(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """All that is pushed is batched."""
    return _all(op.rebuild(b.every(xs, flags)))


def pop(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """All that is popped is batched."""
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
    """The function that a declaration of a batched form asks for."""
    fn = engine.lent(d.of)
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
            f"vmap of {d.of}: result {i} differs from lane to lane, so its out_axes can't be None",
            remedy="give the axis that is to hold the batch, such as out_axes=0",
        )


def _lanes_first(b: Batch, p: Param, axis: int | None) -> tuple[Value, Param]:
    if axis is None:
        return p, p
    param = Param(p.type.with_shape((*p.shape[:axis], b.size, *p.shape[axis:])), p.name)
    order = (axis, *(a for a in range(param.type.rank) if a != axis))
    return (Permute(param, order) if axis else param), param
