"""Zeros that derivatives bring along cost nothing: no operation adds or multiplies by one.

By default no law takes ``x * 0`` for 0 or ``x + 0`` for x, as both are wrong for some floats. So
the zeros of masks, windows and cotangents that never came must not become operands in the first
place; they stand as ``select``, ``pad``, ``update`` and ``scatter_add`` of zero in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import passes
from dlvm.ir import Function, Op
from dlvm.ops import Add, Div, Matmul, Mul, Neg, Sub, Sum, is_splat
from dlvm.opt import MEANING, keep_reachable

A = dlvm.spec("f32[6,4]")
ROW = dlvm.spec("f32[4]")
SQUARE = dlvm.spec("f32[4,4]")
NUMBER = dlvm.spec("f32")
Example = tuple[Callable[..., Any], tuple[Any, ...]]


def layers(x: Any, w: Any, b: Any) -> Any:
    return dlvm.nn.log_softmax(dlvm.maximum(x @ w + b, 0.5))[:, 1].mean()


def variances(x: Any) -> Any:
    return (dlvm.var(x, axis=1) * dlvm.std(x, axis=1)).sum()


def windows(x: Any) -> Any:
    return ((x[2:, 1:-1] + x[:-2, 1:-1] - 2.0 * x[1:-1, 2:]) ** 2).sum() + x[3].sum()


def assignments(x: Any, w: Any) -> Any:
    y = x.copy()
    y[1:3] *= 2.0
    y[0] = w
    y[:, 1] += w[0]
    return (y * y).sum()


def branches(c: Any, x: Any) -> Any:
    u, v = dlvm.cond(c > 0, lambda: (dlvm.sin(x) * c, x.sum()), lambda: (x * x, c * 3.0))
    return u.sum() + dlvm.cond(v > 1, lambda: v * v, lambda: c)


def recurrence(w: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = dlvm.tanh(h @ w + x)
        return h, h * 2.0

    h, ys = dlvm.scan(step, h, xs)
    return ys[-1].sum() + h[0]


def unbounded(x: Any) -> Any:
    return dlvm.while_loop(lambda s: s.sum() < 100.0, lambda s: s * s + x, x).sum()


def masks(x: Any, w: Any) -> Any:
    y = dlvm.where(x > 0, dlvm.sqrt(x), 0.0)
    return (y @ w).sum() + dlvm.where(x < 1, dlvm.log(x), x).sum()


def lanes(x: Any) -> Any:
    return dlvm.vmap(lambda r: dlvm.where(r.sum() > 0, (r * r).sum(), r[0]))(x).sum()


def orders(x: Any) -> Any:
    return (dlvm.sort(x, axis=1)[:, :3] ** 2).sum() + (x.max(1) * x.min(1)).sum()


def scans(x: Any) -> Any:
    return (dlvm.cumulative_sum(x, axis=1) * dlvm.cumulative_prod(x, axis=1)).sum()


def gathers(x: Any) -> Any:
    rows = np.array([0, 2, 2, 5])
    return (x[rows] ** 2).sum() + (x[rows] * x[rows + 0]).sum() + x.sum()


def parts(x: Any) -> Any:
    fraction, _ = np.modf(x)
    return dlvm.concat([fraction, x, x * 2.0], axis=0)[2:9].sum()


@dlvm.function
def two_results(x: Any, y: Any) -> Any:
    return x * y, dlvm.sin(x)


def calls(x: Any) -> Any:
    a, _ = two_results(x, x)
    _, d = two_results(a, x)
    return d.sum()


@dlvm.checkpoint
def block(x: Any, w: Any) -> Any:
    return dlvm.tanh(x @ w)


def checkpoints(x: Any, w: Any) -> Any:
    return block(block(x, w), w).sum()


EXAMPLES: dict[str, Example] = {
    "layers": (layers, (A, SQUARE, ROW)),
    "variances": (variances, (A,)),
    "windows": (windows, (A,)),
    "assignments": (assignments, (A, ROW)),
    "branches": (branches, (NUMBER, ROW)),
    "recurrence": (recurrence, (SQUARE, ROW, A)),
    "unbounded": (unbounded, (ROW,)),
    "masks": (masks, (A, ROW)),
    "lanes": (lanes, (A,)),
    "orders": (orders, (A,)),
    "scans": (scans, (A,)),
    "gathers": (gathers, (A,)),
    "parts": (parts, (A,)),
    "calls": (calls, (ROW,)),
    "checkpoints": (checkpoints, (A, SQUARE)),
}


def gradients(f: Any) -> Any:
    return lambda *xs: dlvm.grad(f, wrt=tuple(range(len(xs))))(*xs)


def tangents(f: Any) -> Any:
    return lambda *xs: dlvm.jvp(f, xs, xs)


def forward_over_reverse(f: Any) -> Any:
    return lambda x, *rest: dlvm.jvp(lambda q: dlvm.grad(f)(q, *rest), (x,), (x,))[1]


def reverse_over_reverse(f: Any) -> Any:
    return lambda x, *rest: dlvm.grad(lambda q: (dlvm.grad(f)(q, *rest) ** 2).sum())(x)


WAYS = (gradients, tangents, forward_over_reverse, reverse_over_reverse)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", EXAMPLES)
def test_no_operation_of_a_derivative_reads_a_zero(name: str, way: Any):
    f, specs = EXAMPLES[name]
    module = dlvm.trace(way(f), *specs).expanded()
    after = passes.run(module, (*MEANING, keep_reachable))
    found = [op for fn in after.functions for op in arithmetic(fn) if any(map(zero, op.operands))]
    assert not found, [(op.name, str(op.origin)) for op in found]


def zero(x: Any) -> bool:
    return is_splat(x, 0.0) or is_splat(x, -0.0)


def arithmetic(fn: Function) -> Iterator[Op]:
    """Every operation that computes with floats, at any depth."""
    for op in fn.walk():
        if isinstance(op, Add | Sub | Mul | Div | Neg | Matmul | Sum) and op.dtype.is_float:
            yield op


def test_the_zeros_of_cotangents_are_windows_and_masks_in_the_text():
    """A gradient as text: its zeros are what is around a window, and it reads back."""
    module = dlvm.trace(gradients(lambda x: (x[1:] * x[:-1]).sum()), ROW).expanded()
    text = str(passes.run(module, (*MEANING, keep_reachable)))
    assert text.count("= pad ") == 2 and "value=0" not in text
    assert str(dlvm.ir.parse(text)) == text
