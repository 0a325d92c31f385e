"""One program or more for each control family, with the integers that steer it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm import ops
from dlvm.ir import F64, I64, Function, FunctionRef, Value, literal
from dlvm.ir.sizes.dims import evaluate, symbol

from .building import function, t

N, T = symbol("N"), symbol("T")


@dataclass(frozen=True)
class Case:
    """A program whose first function is ``f``, and what it is run on."""

    functions: tuple[Function, ...]
    sizes: dict[str, int]
    integers: tuple[Any, ...] = ()

    def arguments(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Random floats, and the integers in their places."""
        integers = iter(self.integers)
        out: list[np.ndarray] = []
        for p in self.functions[0].params:
            shape = [evaluate(d, self.sizes) for d in p.type.shape]
            if p.type.dtype.is_float:
                out.append(rng.choice([-1.0, 1.0], shape) * rng.uniform(0.3, 1.2, shape))
            else:
                out.append(np.asarray(next(integers), p.type.dtype.numpy).reshape(shape))
        return out


def region(types: str, body: Callable[..., Any]) -> Function:
    return function("body", types, body)


def number(value: float) -> Value:
    return ops.Constant(literal(value, F64 if isinstance(value, float) else I64))


def branches() -> Function:
    """Branches with residuals of their own."""
    then = region("f64[N] f64[N]", lambda a, b: (ops.Exp(ops.Tanh(a) * b), ops.Sum(a, (0,))))
    other = region("f64[N] f64[N]", lambda a, b: (a, ops.Sum(ops.Sqrt(ops.Exp(b)), (0,))))
    return function(
        "f",
        "i64 f64[N] f64[N]",
        lambda c, a, b: ops.Cond(ops.Less(c, number(1)), (a, b), then, other).results,
    )


def rnn() -> Function:
    """A scan with captured weights."""

    def body(h: Value, x: Value, w: Value) -> tuple[Value, Value]:
        z = ops.Reshape(ops.Matmul(ops.Reshape(h, (1, 3)), w), (3,))
        y = ops.Tanh(z + x)
        return y, y * x

    step = region("f64[3] f64[3] f64[3,3]", body)
    return function(
        "f",
        "f64[3] f64[T,3] f64[3,3]",
        lambda h, xs, w: ops.Scan((h,), (xs,), (w,), step, T).results,
    )


def backwards() -> Function:
    """A scan in reverse that counts."""
    step = region("f64[2] i64 f64[2]", lambda c, i, x: (c * x + c, i + 1, ops.Cast(i, F64)))
    return function(
        "f",
        "f64[2] f64[T,2]",
        lambda c, xs: ops.Scan((c, number(0)), (xs,), (), step, T, reverse=True).results,
    )


def updates() -> Function:
    """T steps that read two elements of a carried array and write one, from a captured one."""

    def trip(c: Value, i: Value, w: Value) -> tuple[Value, Value]:
        a, b = ops.Gather(c, i, 0), ops.Gather(w, i, 0)
        later = ops.Gather(c, i * 0, 0)
        y = ops.Tanh(a * b) + later * b
        return ops.ScatterSet(c, i, y, 0), y

    body = region("f64[N] i64 f64[N]", trip)
    return function(
        "f", "f64[N] i64[T] f64[N]", lambda c, i, w: ops.Scan((c,), (i,), (w,), body, T).results
    )


def counted(by_data: bool = False) -> Function:
    """``x <- tanh(x) * a`` while ``i < n``, or while ``x`` is large."""
    types = "f64 i64 i64 f64"
    until = region(types, lambda x, i, n, a: ops.Less(i, n))
    if by_data:
        until = region(types, lambda x, i, n, a: ops.Less(number(0.11), x * x))
    step = region(types, lambda x, i, n, a: (ops.Tanh(x) * a, i + 1))
    return function(
        "f",
        "f64 i64 f64",
        lambda x, n, a: ops.While((x, number(0)), (n, a), until, step).results,
    )


def three_loops() -> Function:
    """A scan of a while of a while, each with residuals of its own."""
    types = "f64 i64 i64 f64"
    until = region(types, lambda x, i, n, a: ops.Less(i, n))
    step = region(types, lambda x, i, n, a: (ops.Tanh(x) * a, i + 1))

    def middle(x: Value, i: Value, n: Value, a: Value) -> tuple[Value, Value]:
        y, _ = ops.While((ops.Exp(x), number(0)), (n, a), until, step).results
        return ops.Tanh(y * a), i + 1

    outer = region(types, middle)

    def trip(c: Value, n: Value, a: Value) -> tuple[Value, Value]:
        y, _ = ops.While((c, number(0)), (n, a), until, outer).results
        return y * a, ops.Tanh(y)

    body = region("f64 i64 f64", trip)
    return function(
        "f", "f64 i64[T] f64", lambda x, ns, a: ops.Scan((x,), (ns,), (a,), body, T).results
    )


def loop_in_branch() -> Function:
    """A while in one branch of a cond in a scan."""
    until = region("f64 i64 f64", lambda x, i, a: ops.Less(i, number(3)))
    step = region("f64 i64 f64", lambda x, i, a: (ops.Tanh(x) * a, i + 1))
    loop = region("f64 f64", lambda x, a: ops.While((x, number(0)), (a,), until, step).results[0])
    plain = region("f64 f64", lambda x, a: ops.Exp(x) * a)

    def trip(c: Value, n: Value, a: Value) -> tuple[Value, Value]:
        (y,) = ops.Cond(ops.Less(number(0), n), (c, a), loop, plain).results
        return y, y * a

    body = region("f64 i64 f64", trip)
    return function(
        "f", "f64 i64[T] f64", lambda x, ns, a: ops.Scan((x,), (ns,), (a,), body, T).results
    )


def two_scans() -> Function:
    """A scan in a scan, both reading one captured array."""
    inner = region("f64 f64 f64[2]", lambda c, x, w: (ops.Tanh(c * x) + ops.Sum(w * w, (0,)),))

    def trip(c: Value, xs: Value, w: Value) -> tuple[Value, Value]:
        (y,) = ops.Scan((c,), (xs,), (w,), inner, N).results
        return y, y * c

    outer = region("f64 f64[N] f64[2]", trip)
    return function(
        "f",
        "f64 f64[T,N] f64[2]",
        lambda c, xs, w: ops.Scan((c,), (xs,), (w,), outer, T).results,
    )


def checkpoint() -> Function:
    """A checkpoint that passes one input on."""
    body = region("f64[N] f64[N]", lambda a, b: (ops.Exp(ops.Tanh(a) * b), b))
    return function("f", "f64[N] f64[N]", lambda a, b: ops.Checkpoint((a, b * a), body).results)


def fold() -> Function:
    """A fold of pairs: the sum, and the sum of products of every two."""
    combine = region("f64 f64 f64 f64", lambda a, b, c, d: (a + c, b + d + a * c))
    return function(
        "f",
        "f64[2,N,3] f64[2,N,3]",
        lambda a, b: ops.Fold((a, b), (0.0, 0.0), combine, (0, 2)).results,
    )


def kernel() -> Function:
    """A kernel, whose meaning is its body."""
    body = region("f64[N]", lambda a: (ops.Tanh(a) * a,))
    return function("f", "f64[N]", lambda a: ops.Kernel((a,), body, "elementwise").results)


def calls() -> tuple[Function, ...]:
    """Four calls of one function, with every choice of arguments that vary."""
    g = function(
        "g", "f64[N] f64[N]", lambda a, b: (ops.Sum(ops.Exp(ops.Tanh(a) * b), (0,)), a * b)
    )

    def body(a: Value, b: Value) -> list[Value]:
        out: list[Value] = []
        for x in (a, b):
            s, p = ops.Call((x, x * x), FunctionRef("g"), (t("f64"), x.type)).results
            s2, _ = ops.Call((p, p), FunctionRef("g"), (t("f64"), x.type)).results
            out += [s, s2]
        return out

    return function("f", "f64[M] f64[3]", body), g


def recursion() -> tuple[Function, ...]:
    """A function that calls itself as often as an integer says, with what it passes on changed."""
    types = "f64[N] i64 f64[N]"

    def again(x: Value, n: Value, w: Value) -> Value:
        (y,) = ops.Call((x * w, n + -1, w), FunctionRef("g"), (x.type,)).results
        return ops.Tanh(y) * x + w

    then, other = region(types, again), region(types, lambda x, n, w: ops.Exp(x) * w)

    def g(x: Value, n: Value, w: Value) -> Value:
        return ops.Cond(ops.Less(number(0), n), (x, n, w), then, other).results[0]

    def f(x: Value, n: Value, w: Value) -> Value:
        return ops.Call((x, n, w), FunctionRef("g"), (x.type,)).results[0] * w

    return function("f", types, f), function("g", types, g)


CASES: dict[str, Case] = {
    "cond, then": Case((branches(),), {"N": 3}, (0,)),
    "cond, otherwise": Case((branches(),), {"N": 3}, (1,)),
    "scan": Case((rnn(),), {"T": 4}),
    "scan of one": Case((rnn(),), {"T": 1}),
    "scan of none": Case((rnn(),), {"T": 0}),
    "reverse scan": Case((backwards(),), {"T": 3}),
    "updates": Case((updates(),), {"N": 5, "T": 4}, ([3, 0, 3, 1],)),
    "while": Case((counted(),), {}, (5,)),
    "while, one trip": Case((counted(),), {}, (1,)),
    "while, no trip": Case((counted(),), {}, (0,)),
    "while by data": Case((counted(by_data=True),), {}, (0,)),
    "while in while in scan": Case((three_loops(),), {"T": 4}, ([2, 0, 3, 1],)),
    "while in cond in scan": Case((loop_in_branch(),), {"T": 3}, ([1, 0, 1],)),
    "scan in scan": Case((two_scans(),), {"T": 2, "N": 3}),
    "checkpoint": Case((checkpoint(),), {"N": 3}),
    "fold": Case((fold(),), {"N": 2}),
    "fold of nothing": Case((fold(),), {"N": 0}),
    "kernel": Case((kernel(),), {"N": 3}),
    "calls": Case(calls(), {"M": 2}),
    "recursion": Case(recursion(), {"N": 2}, (3,)),
    "recursion that ends at once": Case(recursion(), {"N": 2}, (0,)),
}
