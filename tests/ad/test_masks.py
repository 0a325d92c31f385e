"""A derivative that is infinite where it is not selected never meets the zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import dlvm
from dlvm import ops
from dlvm.ir import I64, Declaration, Function, Value, literal, splat, zeros

from .building import checked, function

Guarded = Callable[[Value], Value]


def positive(x: Value) -> Value:
    return ops.Less(zeros(x.type), x)


def selected(y: Value, x: Value) -> Value:
    return ops.Select(positive(x), y, zeros(y.type))


def twice(y: Value, c: Value, d: Value) -> Value:
    """Its cotangent is the sum of what comes under two masks."""
    return ops.Select(c, y, zeros(y.type)) + ops.Select(d, y * 2.0, zeros(y.type))


def shaped(x: Value) -> Value:
    return ops.Reshape(x, (2, 2))


def swapped(x: Value) -> Value:
    return ops.Permute(shaped(x), (1, 0))


def flat(x: Value) -> Value:
    return ops.Reshape(x, (4,))


def spread(x: Value) -> Value:
    return ops.Broadcast(x, (4, 3), (0,))


def reverse(x: Value) -> Value:
    return ops.Slice(x, (3,), (4,), (-1,))


def part(y: Value, start: int, x: Value) -> Value:
    window = ((start,), (2,), (1,))
    return selected(ops.Slice(y, *window), ops.Slice(x, *window))


def at() -> Value:
    """Zero stands at the ends, and so does what is picked there."""
    return ops.Constant(literal([0, 1, 2, 0], I64))


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
    "a sum under two masks": lambda x: twice(ops.Sqrt(x), positive(x), positive(x)),
    "a sum under two masks, one inside the other": lambda x: twice(
        ops.Log(ops.Sqrt(x)), positive(x), ops.Less(splat(1.0, x.type), x)
    ),
    "reshaped": lambda x: flat(selected(shaped(ops.Sqrt(x)), shaped(x))),
    "reshaped here, not there": lambda x: flat(
        shaped(selected(ops.Sqrt(x), x)) + selected(shaped(ops.Sqrt(x)), shaped(x)) * 2.0
    ),
    "permuted": lambda x: flat(selected(swapped(ops.Sqrt(x)), swapped(x))),
    "repeated": lambda x: ops.Sum(selected(spread(ops.Sqrt(x)), spread(x)), (1,)),
    "repeated twice": lambda x: ops.Sum(
        selected(spread(root := ops.Sqrt(x)), spread(x)) * selected(spread(root), spread(x)), (1,)
    ),
    "reversed": lambda x: selected(reverse(ops.Sqrt(x)), reverse(x)),
    "two parts": lambda x: ops.Concat(
        (part(ops.Sqrt(x), 0, x), part(ops.Log(ops.Sqrt(x)), 2, x)), 0
    ),
    "two parts of one": lambda x: (
        lambda root: ops.Concat((part(root, 0, x), part(root, 2, x)), 0)
    )(ops.Sqrt(x)),
    "put together": lambda x: selected(ops.Concat((ops.Sqrt(x), x), 0), ops.Concat((x, x), 0)),
    "written into": lambda x: selected(
        ops.Update(ops.Sqrt(x), ops.Slice(ops.Log(x), (1,), (2,), (1,)), (1,), (1,)), x
    ),
    "looked up": lambda x: selected(ops.Gather(ops.Sqrt(x), at(), 0), ops.Gather(x, at(), 0)),
    "added at": lambda x: selected(ops.ScatterAdd(ops.Sqrt(x), at(), ops.Log(x), 0), x),
    "set at": lambda x: selected(ops.ScatterSet(ops.Sqrt(x), at(), ops.Log(x), 0), x),
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


# -- through callees and checkpoints, and up to the borders where a mask stops ---------------------


@dlvm.function
def root(x):
    return dlvm.sqrt(x)


@dlvm.function
def roots(x):
    return root(root(x)) * 2


@dlvm.function
def parted(x):
    """Moves inside: the mask goes the way of the elements."""
    return dlvm.concat([dlvm.log(x)[::-1], dlvm.sqrt(x)])[::-1][:4]


THROUGH = {
    "a call": root,
    "calls in calls": roots,
    "between two calls": lambda x: root(dlvm.log(roots(x) + 1)),
    "moves in a call": parted,
    "a checkpoint": dlvm.checkpoint(lambda x: dlvm.sqrt(dlvm.sqrt(x))),
    "a checkpoint that saves": dlvm.checkpoint(roots, policy="products"),
    "captured by a loop": lambda x: dlvm.fori_loop(
        0, 2, lambda i, c: c + dlvm.where(x > 0, dlvm.sqrt(x), 0), x
    ),
    "inside a loop": lambda x: dlvm.fori_loop(0, 2, lambda i, c: dlvm.where(c > 0, root(c), 0), x),
}
BORDERS = {
    "cond": lambda x: dlvm.cond(x[2] > 1, dlvm.sqrt, lambda x: x, x),
    "scan": lambda x: dlvm.scan(lambda c, _: (dlvm.sqrt(c), None), x, None, 2)[0],
    "map": lambda x: dlvm.map(dlvm.sqrt, x),
    "product": lambda x: np.eye(4) @ dlvm.sqrt(x),
}
AT_ZERO = np.array([0.0, 0.5, 2.0, 0.0])


def interpreted(f, x):
    module = dlvm.trace(f, x).expanded()
    arrays = [x, *(np.eye(4) for _ in module.main.params[1:])]
    return module.run(module.main.name, *arrays)[0]


@pytest.mark.parametrize("name", THROUGH)
def test_a_mask_goes_into_callees_and_checkpoints_and_comes_out(name: str) -> None:
    f = THROUGH[name]

    def loss(x):
        return dlvm.where(x > 0, f(x), 0).sum()

    found = interpreted(dlvm.grad(loss), AT_ZERO)
    assert found[0] == found[3] == 0
    h = 1e-6
    for i in (1, 2):
        unit = np.eye(4)[i] * h
        slope = (loss(AT_ZERO + unit) - loss(AT_ZERO - unit)) / (2 * h)
        assert np.allclose(found[i], slope, rtol=1e-6)
    pushed = interpreted(lambda x: dlvm.jvp(dlvm.grad(loss), (x,), (x + 1,))[1], AT_ZERO)
    assert np.isfinite(pushed).all()


@pytest.mark.parametrize("name", BORDERS)
def test_where_a_mask_stops_a_safe_operand_is_the_remedy(name: str) -> None:
    """What users see is NaN there; they put a number in the place of what is not selected."""
    f = BORDERS[name]
    seen = interpreted(dlvm.grad(lambda x: dlvm.where(x > 0, f(x), 0).sum()), AT_ZERO)
    assert np.isnan(seen[0])
    safe = dlvm.grad(lambda x: dlvm.where(x > 0, f(dlvm.where(x > 0, x, 1.0)), 0).sum())
    found = interpreted(safe, AT_ZERO)
    assert found[0] == found[3] == 0
    assert np.allclose(found[1:3], seen[1:3], rtol=1e-12)
