"""The adjoint of every element-wise operation is the slope of its own scalar formula.

Both are computed on numbers of fifty digits, in which differences know twenty: a constant that is
wrong in its tenth digit shows, where differences of floats see nothing.
"""

from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

from dlvm.ir import BOOL, F64, OPS, Builder, Function, Op, Param, TensorType, Value
from dlvm.ops import Erf, Log2, Select, Sigmoid, Tanh
from dlvm.ops.families import Elementwise
from tests.opt.reals import DIGITS, meaning, objects

POINTS = 4
NEAR = mpmath.mpf(10) ** -14
"""Constants of formulas are floats."""


def differentiable() -> list[Any]:
    found = [c for c in OPS.values() if issubclass(c, Elementwise) and not c.nondifferentiable]
    own = [c for c in found if {s.kind for s in c.layout} == {"operand"}]
    return [pytest.param(c, id=c.name) for c in own if c.name.isidentifier()]


def written(cls: type[Op]) -> tuple[list[Param], list[Op], Op, list[Value | None]]:
    """One operation on scalars, and its adjoint; the seed of each result comes last."""
    kinds = [BOOL if cls is Select and i == 0 else F64 for i, _ in enumerate(cls.layout)]
    params = [Param(TensorType(k, ()), f"x{i}") for i, k in enumerate(kinds)]
    with Builder() as builder:
        op = cls(*params)
        seeds = [Param(r.type, f"dy{i}") for i, r in enumerate(op.results)]
        given = op.adjoint(*seeds)
    return [*params, *seeds], builder.ops, op, list(given)


def drawn(cls: type[Elementwise], rng: np.random.Generator, count: int) -> list[float]:
    """A point inside the domain, no two coordinates near each other."""
    low, high = (max(cls.domain[0], -2.5), min(cls.domain[1], 2.5))
    while True:
        found = rng.uniform(low + 0.05 * (high - low), high - 0.05 * (high - low), count)
        if count == 1 or np.abs(np.diff(found)).min() > 0.1:
            return found.tolist()


def disagreement(cls: type[Elementwise]) -> Any:
    """How far the adjoint is from the slope, beside the larger of the two and 1."""
    params, ops, op, gradients = written(cls)
    rng, worst = np.random.default_rng(1), mpmath.mpf(0)
    n = len(op.operands)
    floats = [i for i, v in enumerate(op.operands) if v.dtype.is_float]
    seeds = [mpmath.mpf(s) for s in rng.uniform(0.5, 1.5, len(op.results))]

    def value(result: Value, numbers: list[Any]) -> Any:
        fn = Function("f", tuple(params), tuple(ops), (result,))
        return meaning(fn, [objects((), [x]) for x in (*numbers, *seeds)], DIGITS)[()]

    for _ in range(POINTS):
        point = drawn(cls, rng, n)
        at = [mpmath.mpf(x) if i in floats else bool(x > 0) for i, x in enumerate(point)]
        for i in floats:

            def height(t: Any, i: int = i, at: list[Any] = at) -> Any:
                moved = [*at[:i], t, *at[i + 1 :]]
                return sum(s * value(r, moved) for s, r in zip(seeds, op.results, strict=True))

            by_rule = value(gradients[i], at) if gradients[i] is not None else 0
            slope = mpmath.diff(height, at[i])
            worst = max(worst, abs(by_rule - slope) / max(1, abs(slope)))
    return worst


@pytest.mark.parametrize("cls", differentiable())
def test_an_adjoint_is_the_slope_of_the_formula(cls: type[Elementwise]):
    with mpmath.workdps(50):
        assert disagreement(cls) < NEAR


def test_none_is_left_out():
    assert len(differentiable()) >= 40


@pytest.mark.parametrize("cls", [Tanh, Sigmoid, Erf, Log2])
def test_a_factor_that_is_wrong_in_the_twelfth_digit_is_seen(
    cls: type[Elementwise], monkeypatch: pytest.MonkeyPatch
):
    right = cls.adjoint
    monkeypatch.setattr(cls, "adjoint", lambda self, dy: (right(self, dy * (1 + 1e-12))[0],))
    with mpmath.workdps(50):
        assert disagreement(cls) > NEAR
