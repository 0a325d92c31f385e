"""What is computed twice is computed once, in whatever order and on whichever side it stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ir import OPS
from dlvm.ops import Elementwise, Matmul

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((2, 6, 5))


def count(f: Any, kind: Any, numerics: Any = "default") -> int:
    main = dlvm.function(f, numerics=numerics).compile(A, B).road.optimized.main
    return sum(isinstance(op, kind) for op in main.ops)


def test_operands_that_commute_are_the_same_in_any_order():
    assert count(lambda a, b: (a + b, b + a, a * b, b * a), Elementwise) == 2
    assert count(lambda a, b: (a - b, b - a), Elementwise) == 2


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.commutes))
def test_what_commutes_has_the_same_bits_in_any_order(name: str):
    kind = OPS[name]
    values = np.array([0.0, -0.0, 1.5, -3.0, np.inf, -np.inf, np.nan, 1e308, 5e-324])
    if "f" not in kind.accepts:  # type: ignore[attr-defined]
        values = np.array([0, 1, -1, 7, 2**62])
    x, y = (v.reshape(-1) for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        one, two = (kind.reference(kind, a, b) for a, b in ((x, y), (y, x)))
    np.testing.assert_array_equal(one, two)
    if one.dtype.kind == "f":
        keep = ~np.isnan(one)
        np.testing.assert_array_equal(np.signbit(one[keep]), np.signbit(two[keep]))


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: (a.T @ b, b.T @ a),
        lambda a, b: (a @ b.T, (b @ a.T).T, b @ a.T),
        lambda a, b: b.T @ a + (a.T @ b).T,
    ],
)
def test_a_product_and_its_transpose_are_one_product(f: Any):
    assert count(f, Matmul) == 1
    assert count(f, Matmul, "strict") == 2
    found, expected = dlvm.function(f)(A, B), f(A, B)
    for x, y in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_different_products_stay_two():
    assert count(lambda a, b: (a.T @ b, a.T @ a, b.T @ b), Matmul) == 3
    assert count(lambda a, b: (a @ b.T, b.T @ a), Matmul) == 2
