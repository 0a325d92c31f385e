"""Scalings of f16 stay in front of a product, whose elements would be too large without them."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

X = np.full((4, 64), 40, np.float16)
FORMS = {
    "a number": lambda q, k: (q * 0.01) @ k.T,
    "a quotient": lambda q, k: (q / 100.0) @ k.T,
    "a number of the second": lambda q, k: q @ (k * 0.01).T,
    "numbers of both": lambda q, k: (q * 0.1) @ (k * 0.1).T,
    "a row": lambda q, k: (q / q.sum(1)[:, None]) @ k.T,
    "a chain": lambda q, k: (q * 0.01) @ k.T @ (q * 0.01),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_product_of_scaled_halves_is_finite(name: str):
    f = FORMS[name]
    found = np.asarray(dlvm.function(f)(X, X), np.float64)
    exact = f(X.astype(np.float64), X.astype(np.float64))
    np.testing.assert_allclose(found, exact, rtol=5e-3)


def test_other_floats_are_scaled_behind_the_product():
    f = dlvm.function(lambda a, v: (a * 3.0) @ v)
    text = f.compile(np.ones((8, 8)), np.ones(8)).text("optimized")
    assert text.index("matmul") < text.index("mul %", text.index("matmul"))
