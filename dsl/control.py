"""Branches and loops with JAX's signatures: real loops in a trace, Python's own outside.

A body is written once, in a scope of its own; what it uses from outside becomes an explicit
operand. Carried values keep their types, and assigning into a box from outside is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dlvm.errors import ShapeError, TraceError, UserError
from dlvm.ir import BOOL, Dim, Value
from dlvm.ops import Cond, Scan, While

from .namespace import xp
from .operands import element, fresh, here, is_weak, staged
from .scopes import Scope, current, user_origin
from .tensor import Tensor
from .tracing import Input, Written, inputs_of, write
from .trees import Spec, flatten, labels, paths, shown, unflatten


class Body(Protocol):
    """Any function of staged values that gives a tree."""

    def __call__(self, *args: Any) -> Any:
        """Its results."""
        ...


def in_trace() -> bool:
    """Whether operations are being written."""
    return current() is not None


def region(name: str, inputs: Sequence[Input], body: Callable[[list[Tensor]], Any]) -> Written:
    """Write a region of the operation that is about to be made."""
    scope = here()
    return write(Scope(scope.trace, scope, name), inputs, body)


def operands(leaves: Sequence[Any]) -> tuple[Value, ...]:
    """Leaves as values of the scope that is being written."""
    return tuple(staged(x).read() for x in leaves)


def union(*written: Written) -> list[Value]:
    """What several regions capture together, each value once."""
    return list(dict.fromkeys(v for w in written for v in w.scope.lifted))


# -- branches ------------------------------------------------------------------------------------


def cond(pred: Any, true_fun: Body, false_fun: Body, *args: Any) -> Any:
    """``true_fun(*args)`` where ``pred`` holds, else ``false_fun(*args)``; only one runs."""
    if not isinstance(pred, Tensor):
        return (true_fun if pred else false_fun)(*args)
    if pred.shape:
        raise ShapeError(
            f"cond: expected one truth value, found {pred.type}",
            origin=user_origin(),
            remedy="use dlvm.where to choose element by element",
        )
    leaves, tree = flatten(args)
    inputs = inputs_of(leaves, tree, "x")
    branches = [
        region(name, inputs, lambda xs, fn=fn: fn(*unflatten(tree, xs)))
        for name, fn in (("then", true_fun), ("otherwise", false_fun))
    ]
    then, otherwise = agreeing(branches)
    captured = union(then, otherwise)
    op = Cond(
        element(pred, BOOL),
        (*operands(leaves), *captured),
        then.region("then", captured),
        otherwise.region("otherwise", captured),
    )
    return unflatten(then.tree, [fresh(r) for r in op.results])


def agreeing(branches: Sequence[Written]) -> Sequence[Written]:
    """Branches whose results have one structure and equal types, or an error that compares them."""
    first = branches[0]
    for other in branches[1:]:
        if other.tree != first.tree:
            raise UserError(
                f"the branches give different structures: {shown(first.tree)} "
                f"and {shown(other.tree)}",
                origin=user_origin(),
            )
        for label, a, b in zip(labels(first.tree, "result"), first.types, other.types, strict=True):
            if a != b:
                raise ShapeError(
                    f"the branches give different types: {label} is {a} in one, {b} in the other",
                    origin=user_origin(),
                    remedy="give both one type with dlvm.astype or dlvm.broadcast_to",
                )
    return branches


def switch(index: Any, branches: Sequence[Body], *args: Any) -> Any:
    """``branches[index](*args)``, the index clipped to the branches."""
    if not branches:
        raise UserError("switch: expected at least one branch", origin=user_origin())
    last = len(branches) - 1
    if not isinstance(index, Tensor):
        return branches[min(max(int(index), 0), last)](*args)
    if not last:
        return branches[0](*args)
    half = (last + 1) // 2
    return cond(
        index < half,
        lambda *xs: switch(index, branches[:half], *xs),
        lambda *xs: switch(index - half, branches[half:], *xs),
        *args,
    )


# -- loops ---------------------------------------------------------------------------------------


def carried(init: Any) -> tuple[list[Tensor], Spec]:
    """The initial values of a loop, staged; Python scalars get the types they have as arrays."""
    leaves, tree = flatten(init)
    return [fresh(staged(x).read()) if is_weak(x) else staged(x) for x in leaves], tree


def same_types(what: str, tree: Spec, init: Sequence[Tensor], written: Written, tail: int) -> None:
    """Demand that a body gives carried values of the types that it takes."""
    found = written.types[: len(written.types) - tail]
    for label, t, f in zip(labels(tree, "carry"), init, found, strict=False):
        if t.type != f:
            raise ShapeError(
                f"{what}: the body must give {label} the type it has, {t.type}, found {f}",
                origin=user_origin(),
                remedy=f"start from {f}, or end with dlvm.astype or dlvm.reshape to {t.type}",
            )


def while_loop(cond_fun: Body, body_fun: Body, init_val: Any) -> Any:
    """Repeat ``val = body_fun(val)`` while ``cond_fun(val)`` holds."""
    if not in_trace():
        val = init_val
        while bool(cond_fun(val)):
            val = body_fun(val)
        return val
    init, tree = carried(init_val)
    inputs = inputs_of(init, tree, "carry")
    test = region("condition", inputs, lambda xs: truth(cond_fun(unflatten(tree, xs))))
    body = region("body", inputs, lambda xs: settled(body_fun(unflatten(tree, xs)), init, tree))
    same_types("while_loop", tree, init, body, 0)
    captured = union(test, body)
    op = While(
        operands(init),
        tuple(captured),
        test.region("condition", captured),
        body.region("body", captured),
    )
    return unflatten(tree, [fresh(r) for r in op.results])


def truth(value: Any) -> Tensor:
    """The condition of a loop as one truth value."""
    found = staged(value)
    if found.shape:
        raise ShapeError(
            f"the condition of a loop must be one truth value, found {found.type}",
            origin=user_origin(),
            remedy="reduce it with dlvm.any or dlvm.all",
        )
    return fresh(element(found, BOOL))


def settled(value: Any, init: Sequence[Tensor], tree: Spec) -> Any:
    """What a body gives, weak scalars in the types of the carried values they become."""
    leaves, found = flatten(value)
    if found != tree:
        raise UserError(
            f"the body must give the structure it takes, {shown(tree)}, found {shown(found)}",
            origin=user_origin(),
        )
    return [
        fresh(element(staged(x), t.element)) if is_weak(x) else x
        for x, t in zip(leaves, init, strict=True)
    ]


def fori_loop(lower: Any, upper: Any, body_fun: Body, init_val: Any) -> Any:
    """``for i in range(lower, upper): val = body_fun(i, val)``."""
    if not in_trace():
        val = init_val
        for i in range(int(lower), int(upper)):
            val = body_fun(np.int64(i), val)
        return val
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        _, out = while_loop(
            lambda c: c[0] < upper,
            lambda c: (c[0] + 1, body_fun(c[0], c[1])),
            (xp.astype(lower, np.int64), init_val),
        )
        return out
    steps = xp.arange(lower, upper)
    return scan(lambda c, i: (body_fun(i, c), None), init_val, steps)[0]


def scan(
    f: Body,
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: int = 1,
) -> tuple[Any, Any]:
    """``carry, y = f(carry, x)`` over the leading axis of ``xs``; the last carry and stacked ys."""
    if not in_trace():
        return _unstaged_scan(f, init, xs, length, reverse)
    start, tree = carried(init)
    slices, xtree = flatten(xs)
    inputs_x = [staged(x) for x in slices]
    n = common_length(inputs_x, labels(xtree, "xs"), length)
    inputs = [*inputs_of(start, tree, "carry"), *_slice_inputs(inputs_x, xtree)]
    results: list[Spec] = []

    def body(values: list[Tensor]) -> Any:
        carry = unflatten(tree, values[: len(start)])
        out = _pair(f(carry, unflatten(xtree, values[len(start) :])))
        leaves, spec = flatten(out[1])
        results.append(spec)
        return [*settled(out[0], start, tree), *leaves]

    written = region("body", inputs, body)
    stacked = results[0]
    same_types("scan", tree, start, written, stacked.num_leaves)
    captured = tuple(written.scope.lifted)
    op = Scan(
        operands(start), operands(inputs_x), captured, written.region("body"), n, bool(reverse)
    )
    out = [fresh(r) for r in op.results]
    return unflatten(tree, out[: len(start)]), unflatten(stacked, out[len(start) :])


def _slice_inputs(xs: Sequence[Tensor], tree: Spec) -> list[Input]:
    return [
        Input(path, label, x.type.with_shape(x.shape[1:]))
        for x, path, label in zip(xs, paths(tree, "x"), labels(tree, "x"), strict=True)
    ]


def _pair(out: Any) -> tuple[Any, Any]:
    if not (isinstance(out, tuple | list) and len(out) == 2):  # pyright: ignore[reportUnknownArgumentType]
        raise TraceError(
            "scan: the body must give a pair, the carry and what is stacked",
            origin=user_origin(),
            remedy="return carry, y, or carry, None",
        )
    return out[0], out[1]  # pyright: ignore[reportUnknownVariableType]


def common_length(xs: Sequence[Tensor], names: Sequence[str], length: Any) -> Dim:
    """The number of steps, on which all inputs and ``length=`` must agree."""
    n: Dim | None = length
    for x, name in zip(xs, names, strict=True):
        if not x.shape:
            raise ShapeError(f"scan: {name} has no axis to walk along", origin=user_origin())
        n = x.shape[0] if n is None else n
        if x.shape[0] != n:
            raise ShapeError(
                f"scan: {name} has {x.shape[0]} slices, expected {n}", origin=user_origin()
            )
    if n is None:
        raise UserError("scan: give xs or length=", origin=user_origin())
    return n


def _unstaged_scan(f: Body, init: Any, xs: Any, length: Any, reverse: bool) -> tuple[Any, Any]:
    leaves, tree = flatten(xs)
    n = int(length) if length is not None else len(leaves[0])
    carry, ys = init, [None] * n
    for i in reversed(range(n)) if reverse else range(n):
        carry, ys[i] = _pair(f(carry, unflatten(tree, [x[i] for x in leaves])))
    if not n:
        return carry, unstaged_nothing(f, init, unflatten(tree, leaves))
    found = [flatten(y) for y in ys]
    columns = zip(*(y for y, _ in found), strict=True)
    return carry, unflatten(found[0][1], [np.stack(column) for column in columns])


def unstaged_nothing(f: Body, init: Any, xs: Any) -> Any:
    """What a scan over no slices stacks: empty arrays, whose types only a trace can tell."""
    from .function import StagedFunction

    return StagedFunction(lambda init, xs: scan(f, init, xs)[1])(init, xs)


def map(f: Body, xs: Any) -> Any:
    """``f`` of each slice along the leading axis, stacked."""
    return scan(lambda _, x: (None, f(x)), None, xs)[1]
