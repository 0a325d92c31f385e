"""Places branches, loops, calls, recursion, recomputation and tapes, with their regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dlvm import ops
from dlvm.ir import (
    BOOL,
    I64,
    Declaration,
    Function,
    FunctionRef,
    Op,
    TensorType,
    Value,
    literal,
)
from dlvm.ir.core import Builder, Param
from dlvm.ir.rewrite import types_of
from dlvm.ir.sizes import dims

from .drafts import Draft
from .families import MAX_DEPTH, place, places


def captured(d: Draft) -> tuple[Value, ...]:
    """Some values for a body to use."""
    return tuple(d.value() for _ in range(d.integer(0, 2)))


def body_of(
    d: Draft,
    name: str,
    params: Sequence[TensorType],
    results: Sequence[TensorType] | None,
    extra: int = 1,
) -> Function:
    """A region, with operations of its own unless it is nested too deep."""
    return d.region(name, params, results, place if d.depth < MAX_DEPTH else None, extra)


@places(ops.Cond)
def _cond(d: Draft, cls: Any) -> Op:
    condition, values = d.like(TensorType(BOOL)), captured(d)
    if d.integer(0, 2) == 2:  # inside it is known
        values = (condition, *values)
    then = body_of(d, "then", types_of(values), None, extra=2)
    otherwise = body_of(d, "otherwise", types_of(values), types_of(then.results))
    return cls(condition, values, then, otherwise)


@places(ops.While)
def _while(d: Draft, cls: type[ops.While]) -> Op:
    """Places a loop that counts its first carried value up to at most four."""
    limit = d.integer(0, 4)
    carried, values = captured(d), captured(d)
    init = (ops.Constant(literal(0, I64)), *carried)
    params = [Param(v.type, f"x{i}") for i, v in enumerate((*init, *values))]
    with Builder() as b:
        test = ops.Less(params[0], ops.Constant(literal(limit, I64)))
    condition = Function("condition", tuple(params), tuple(b.ops), (test,))
    body = body_of(d, "body", types_of((*init, *values)), types_of(carried))
    with Builder(body.ops) as b:
        following = ops.Add(body.params[0], ops.Constant(literal(1, I64)))
    body = Function("body", body.params, tuple(b.ops), (following, *body.results))
    return cls(init, values, condition, body)


@places(ops.Scan)
def _scan(d: Draft, cls: type[ops.Scan]) -> Op | None:
    """Places a scan over values, or over the numbers of its trips, each of which reads a row."""
    x = d.value(rank=1)
    init, values = captured(d), captured(d)
    xs = (x,) if d.flag() else ()
    counts = d.integer(0, 2) == 2
    if counts:
        xs, values = (*xs, ops.Iota(x.shape[0])), (x, *values)
    slices = [v.type.with_shape(v.shape[1:]) for v in xs]
    stacked = [d.value().type for _ in range(d.integer(0, 1))]
    results = [*types_of(init), *(t for t in stacked if d.small((x.shape[0], *t.shape)))]
    body = body_of(d, "body", [*types_of(init), *slices, *types_of(values)], results)
    if counts:
        taken = len(init) + len(xs)
        with Builder(body.ops) as b:
            row = ops.Gather(body.params[taken], body.params[taken - 1], 0)
        body = Function(body.name, body.params, tuple(b.ops), (*body.results, row))
    return cls(init, xs, values, body, x.shape[0], d.flag())


@places(ops.Checkpoint)
def _checkpoint(d: Draft, cls: type[ops.Checkpoint]) -> Op:
    xs = captured(d)
    return cls(xs, body_of(d, "body", types_of(xs), None, extra=2))


@places(ops.Recompute)
def _recompute(d: Draft, cls: type[ops.Recompute]) -> Op:
    xs = captured(d)
    return cls(xs, (d.value(),), body_of(d, "body", types_of(xs), None, extra=2))


@places(ops.Kernel)
def _kernel(d: Draft, cls: type[ops.Kernel]) -> Op:
    xs = captured(d)
    return cls(xs, d.region("body", types_of(xs), None, None), "map")


@places(ops.Call)
def _call(d: Draft, cls: type[ops.Call]) -> Op | None:
    """Places a call of a new function, whose parameters must bind all of its sizes."""
    if d.integer(0, 2) == 2:
        return _recursion(d)
    made = _callee(d)
    return cls(made[0], FunctionRef(made[1].name), types_of(made[1].results)) if made else None


@places(ops.CustomVjp)
def _custom_vjp(d: Draft, cls: type[ops.CustomVjp]) -> Op | None:
    """Places a function with its own derivative as rule; the residuals are the arguments."""
    made = _callee(d)
    if made is None:
        return None
    xs, fn = made
    wrt = tuple(i for i, x in enumerate(xs) if x.dtype.is_float)
    forward = replace(fn, name=f"{fn.name}_forward", results=(*fn.results, *fn.params))
    backward = Declaration("adjoint", f"{fn.name}_backward", fn.name, wrt, seeded=True)
    d.functions += [forward, backward]
    refs = (FunctionRef(forward.name), FunctionRef(backward.name))
    return cls(xs, FunctionRef(fn.name), types_of(fn.results), (), *refs)


@places(ops.CustomJvp)
def _custom_jvp(d: Draft, cls: type[ops.CustomJvp]) -> Op | None:
    """Places a function with its own tangent as rule."""
    made = _callee(d)
    if made is None:
        return None
    xs, fn = made
    wrt = tuple(i for i, x in enumerate(xs) if x.dtype.is_float)
    keep = tuple(range(len(fn.results)))
    d.functions.append(Declaration("tangent", f"{fn.name}_rule", fn.name, wrt, keep))
    rule = FunctionRef(f"{fn.name}_rule")
    return cls(xs, FunctionRef(fn.name), types_of(fn.results), (), rule)


def _callee(d: Draft) -> tuple[tuple[Value, ...], Function] | None:
    """Arguments, and a new function for them."""
    if d.depth:
        return None
    xs = captured(d)
    inner = _alone(d, xs)
    if inner is None:
        return None
    inner.grow(d.integer(0, 3), place)
    with inner.builder:
        results = [inner.value() for _ in range(d.integer(1, 2))]
    callee = inner.finish(f"f{len(d.functions)}", results)
    d.functions.append(callee)
    return xs, callee


def _alone(d: Draft, xs: Sequence[Value]) -> Draft | None:
    """A function with parameters for these values, if they bind all of their symbols."""
    alone = {str(s) for x in xs for s in x.shape if not isinstance(s, int)}
    used = {s for x in xs for size in x.shape for s in dims.symbols(size)}
    if not used <= alone:
        return None
    sizes = [s for s in d.sizes if set(dims.symbols(s)) <= used]
    inner = Draft(d.dice, d.dtypes, sizes, d.ops, 1, d)
    for x in xs:
        inner.param(x.type)
    return inner


def _recursion(d: Draft) -> Op | None:
    """Places a function that calls itself as often as its first argument says."""
    carried, values = (d.value(), *captured(d)), captured(d)
    xs = (ops.Constant(literal(d.integer(0, 3), I64)), *carried, *values)
    outer = _alone(d, xs) if not d.depth else None
    if outer is None:
        return None
    name, types = FunctionRef(f"f{len(d.functions)}"), types_of(carried)
    last = Draft(d.dice, d.dtypes, outer.sizes, d.ops, 2, d)
    kept = [last.param(x.type) for x in xs][1 : 1 + len(carried)]
    with outer.builder:
        again = ops.Less(ops.Constant(literal(0, I64)), outer.params[0])
        branches = _deeper(outer, xs, name, types), last.finish("otherwise", kept)
        found = ops.Cond(again, tuple(outer.params), *branches)
    d.functions.append(outer.finish(name.name, found.results))
    return ops.Call(xs, name, types)


def _deeper(d: Draft, xs: Sequence[Value], name: FunctionRef, types: Sequence[TensorType]) -> Any:
    """The branch with the call: operations before it and after."""
    inner = Draft(d.dice, d.dtypes, d.sizes, d.ops, 2, d)
    count, *rest = (inner.param(x.type) for x in xs)
    inner.grow(d.integer(0, 2), place)
    with inner.builder:
        fewer = ops.Sub(count, ops.Constant(literal(1, I64)))
        call = ops.Call((fewer, *map(inner.like, types), *rest[len(types) :]), name, tuple(types))
    inner.pool.extend(call.results)
    inner.grow(d.integer(0, 2), place)
    with inner.builder:
        results = [inner.like(t) for t in types]
    return inner.finish("then", results)


@places(ops.Push, ops.Pop, ops.EmptyTape)
def _tape(d: Draft, cls: type[Op]) -> Op:
    """Places a tape that is written and read back, sometimes once more than it was written."""
    values = captured(d)
    full = ops.Push(ops.EmptyTape(), values)
    types = (full.type, *types_of(values))
    found = ops.Pop(full, types)
    return ops.Pop(found.results[0], types) if d.integer(0, 3) == 0 else found
