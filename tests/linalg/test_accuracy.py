"""All digits of small eigenvalues and singular values, where ``accuracy="high"`` requests them.

Matrices are well-conditioned ones whose rows, columns or both are scaled by powers of two, so that
scaling rounds nothing; exact values are those of mpmath.
"""

from __future__ import annotations

from functools import partial

import mpmath as mp
import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ArgumentError
from dlvm.testing import gradcheck

from .gallery import random
from .test_factors import weighted

linalg = dlvm.linalg
N = 12
eigh, eigvalsh, svd, svdvals = (
    partial(f, accuracy="high") for f in (linalg.eigh, linalg.eigvalsh, linalg.svd, linalg.svdvals)
)
reduced = partial(svd, full_matrices=False)


def scales(span: int) -> np.ndarray:
    """Powers of two down to ``2**-span``, in no order."""
    return np.random.default_rng(span).permutation(2.0 ** -np.linspace(0, span, N).round())


def definite(n: int = N) -> np.ndarray:
    a = random(n)
    return (a @ a.T).round(2) / n + np.eye(n)


def exact(a: np.ndarray, of_svd: bool) -> np.ndarray:
    """Ascending eigenvalues or descending singular values, by 120 digits."""
    with mp.workdps(120):
        x = mp.matrix(a.astype(float).tolist())
        found = mp.svd_r(x, compute_uv=False) if of_svd else mp.eigsy(x, eigvals_only=True)
        return np.array([float(w) for w in found])


def error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest relative one."""
    return float(np.max(np.abs(np.asarray(found, float) - expected) / expected))


@pytest.mark.parametrize(("dtype", "span"), [(np.float64, 160), (np.float32, 40)])
def test_small_eigenvalues_of_scaled_definite_matrices_have_all_their_digits(dtype, span):
    eps, d = float(np.finfo(dtype).eps), scales(span)
    a = (d[:, None] * definite() * d).astype(dtype)
    a = np.tril(a) + np.tril(a, -1).T
    expected = exact(a, False)
    w, v = dlvm.function(eigh)(a)
    assert error(w, expected) < 10 * eps
    assert np.array_equal(dlvm.function(eigvalsh)(a), w)
    assert np.abs(v.T @ v - np.eye(N)).max() < 100 * eps
    assert error(linalg.eigvalsh(a), expected) > 1  # of which no digit is right


@pytest.mark.parametrize(("dtype", "span"), [(np.float64, 160), (np.float32, 40)])
@pytest.mark.parametrize("side", ["rows", "columns", "transposed"])
def test_small_singular_values_of_scaled_rows_or_columns_have_all_their_digits(dtype, span, side):
    eps, d = float(np.finfo(dtype).eps), scales(span)
    b = random(N + 6)[:, :N] if side == "columns" else random(N)
    a = (b * d if side == "columns" else d[:, None] * b).astype(dtype)
    a = a.T if side == "transposed" else a
    expected = exact(a, True)
    u, s, vt = dlvm.function(reduced)(a)
    assert error(s, expected) < 100 * eps
    assert np.array_equal(dlvm.function(svdvals)(a), s)
    assert np.array_equal(dlvm.function(partial(svd, compute_uv=False))(a), s)
    assert max(np.abs(x - np.eye(N)).max() for x in (u.T @ u, vt @ vt.T)) < 100 * eps
    assert error(linalg.svdvals(a), expected) > 1e3 * eps


def test_matrices_of_open_sizes_in_batches_and_under_vmap_are_computed_each_by_itself():
    a = np.stack([definite() * 2.0**i for i in range(3)]) * scales(40)
    a = a + np.swapaxes(a, -1, -2)
    staged = dlvm.function(lambda x: (*eigh(x), *reduced(x)), dynamic={"x": "B,N,N"})
    mapped = dlvm.function(dlvm.vmap(lambda x: (*eigh(x), *reduced(x))))
    single = dlvm.function(lambda x: (*eigh(x), *reduced(x)))
    for found in (staged(a), mapped(a)):
        for i in range(3):
            assert all(np.array_equal(x[i], y) for x, y in zip(found, single(a[i]), strict=True))
    for x in (np.zeros((1, 9, 9)), np.full((1, 9, 9), np.nan), np.ones((1, 9, 9))):
        w, v, u, s, vt = staged(x)
        if np.isnan(x).all():
            assert all(np.isnan(y).all() for y in (w, v, u, s, vt))
        else:
            np.testing.assert_allclose((v * w[:, None]) @ v.mT, x, atol=1e-14)
            np.testing.assert_allclose((u * s[:, None]) @ vt, x, atol=1e-14)


@pytest.mark.drawn(2)
@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: tuple(eigh(x)), (4, 4)),
        (lambda x: eigvalsh(x, "U"), (4, 4)),
        (lambda x: tuple(reduced(x)), (4, 3)),
        (svdvals, (2, 4)),
    ],
)
def test_derivatives_to_second_order(call, shape):
    x = np.random.default_rng(sum(shape)).standard_normal(shape)
    gradcheck(lambda x: weighted(call(x)), x, order=2, elements=4, compiled=False)


def test_derivatives_of_small_values_have_their_digits():
    """The slope of the logarithm of a determinant is the inverse."""
    d = scales(100)
    a = d[:, None] * definite() * d
    slope = dlvm.function(dlvm.grad(lambda x: dlvm.log(eigvalsh(x)).sum()))(a)
    np.testing.assert_allclose(d[:, None] * slope * d, np.linalg.inv(definite()), atol=1e-13)


def test_what_is_requested_is_printed_where_it_is_not_the_default():
    a = definite()
    text = dlvm.function(lambda x: (*eigh(x), *linalg.svd(x))).compile(a).text("traced")
    assert "accurate=true" in text.split("= eigh ")[1].split(":")[0]
    assert "accurate" not in text.split("= svd ")[1]


@pytest.mark.parametrize("name", ["eigh", "eigvalsh", "svd", "svdvals"])
def test_unknown_accuracies_are_refused(name):
    for bad in ("best", True, None):
        with pytest.raises(ArgumentError, match=f"{name}: accuracy={bad!r}: expected 'standard'"):
            dlvm.function(partial(getattr(linalg, name), accuracy=bad))(definite())
