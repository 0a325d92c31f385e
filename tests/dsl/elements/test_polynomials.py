"""Polynomials under NumPy's names: its numbers and types, staged and plain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

V = np.random.default_rng(0).normal(size=12)
WHOLE = np.array([3, 0, 2, 5])

CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{
        f"{name} of {n} and {k}": (
            lambda m, a, b, name=name: getattr(m, name)(a, b),
            (V[:n], V[5 : 5 + k]),
        )
        for name in ("polyadd", "polysub", "polymul")
        for n, k in ((1, 1), (3, 1), (2, 5), (3, 3))
    },
    **{
        f"{name} {order} times": (lambda m, a, name=name, n=order: getattr(m, name)(a, n), (V[:3],))
        for name in ("polyder", "polyint")
        for order in (0, 1, 2, 3)
    },
    **{
        f"vander {n} {up}": (lambda m, x, n=n, up=up: m.vander(x, n, increasing=up), (V[:5],))
        for n in (None, 0, 1, 4)
        for up in (False, True)
    },
    "polyder of nothing": (lambda m, a: m.polyder(a), (V[:0].astype(np.float32),)),
    "polyder of no whole numbers": (lambda m, a: m.polyder(a), (WHOLE[:0].astype(np.int8),)),
    "polyder of whole numbers": (lambda m, a: m.polyder(a), (WHOLE,)),
    "vander of whole numbers": (lambda m, a: m.vander(a, 3), (WHOLE,)),
    "polyval": (lambda m, p, x: m.polyval(p, x), (V[:4], V)),
}


@pytest.mark.filterwarnings("ignore:.*computes in f64")
@pytest.mark.parametrize("name", CASES)
def test_staged_and_plain_are_numpys(name: str):
    f, args = CASES[name]
    want = f(np, *args)
    for got in (dlvm.function(lambda *xs: f(np, *xs))(*args), f(dlvm, *args)):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("name", ["polymul of 2 and 5", "polyint 2 times", "vander 4 False"])
def test_derivatives(name: str):
    f, args = CASES[name]
    dlvm.testing.gradcheck(lambda *xs: (f(dlvm, *xs) ** 2).sum(), *args)


def test_columns_of_an_open_size_are_asked_for():
    with pytest.raises(dlvm.ShapeError, match="give the number of columns"):
        dlvm.trace(lambda x: dlvm.vander(x), dlvm.spec("f64[N]"))
