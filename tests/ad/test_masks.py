"""A derivative that is infinite where it is not selected never meets the zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dlvm import ops
from dlvm.ir import Declaration, Function, Value, splat, zeros

from .building import checked, function

Guarded = Callable[[Value], Value]


def positive(x: Value) -> Value:
    return ops.Less(zeros(x.type), x)


GUARDED: dict[str, Guarded] = {
    "log": lambda x: ops.Select(positive(x), ops.Log(x), zeros(x.type)),
    "sqrt": lambda x: ops.Select(positive(x), ops.Sqrt(x), zeros(x.type)),
    "chain": lambda x: ops.Select(positive(x), ops.Tanh(ops.Log(ops.Sqrt(x)) * 0.5), x * 2.0),
    "the other branch": lambda x: ops.Select(
        ops.LessEqual(x, zeros(x.type)), zeros(x.type), ops.Log(ops.Sqrt(x)) * 2.0
    ),
    "two masks": lambda x: ops.Select(
        positive(x),
        ops.Select(ops.Less(x, splat(9.0, x.type)), ops.Log(x), ops.Sqrt(x)) * 3.0,
        zeros(x.type),
    ),
    "a sum under one mask": lambda x: ops.Select(
        positive(x), ops.Log(ops.Sqrt(x)) * ops.Sqrt(x), zeros(x.type)
    ),
    "the larger of two": lambda x: ops.Maximum(ops.Log(ops.Sqrt(x)), splat(-5.0, x.type)),
}


def total(guarded: Guarded) -> Function:
    return function("f", "f64[4]", lambda x: ops.Sum(guarded(x), (0,)))


@pytest.mark.parametrize("name", GUARDED)
def test_the_gradient_is_finite_where_the_other_side_is_taken(name: str) -> None:
    f = total(GUARDED[name])
    d = Declaration("adjoint", "d", "f", (0,))
    dd = Declaration("adjoint", "dd", "d", (0,), seeded=True)
    module = checked(f, d, dd)
    x = np.array([0.0, 0.5, 2.0, 0.0])
    (g,) = module.run("d", x)
    assert np.isfinite(g).all(), g
    expected = 2.0 if name == "chain" else 0.0
    assert g[0] == g[3] == expected
    h = 1e-6
    slope = (module.run("d", x + h)[0] - module.run("d", np.maximum(x - h, 1e-9))[0])[1:3] / (2 * h)
    (second,) = module.run("dd", x, np.ones(4))
    assert np.isfinite(second).all() and second[0] == 0
    assert np.allclose(second[1:3], slope, rtol=1e-5, atol=1e-6)
