"""Solving equations, on staged and on plain arrays, and what users are told."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

from .gallery import random

linalg = dlvm.linalg
A, B = random(4) + 3 * np.eye(4), np.random.default_rng(8).standard_normal((4, 3))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (A, B),
        (A, B[:, 0]),
        (np.stack([A, A.T]), B),
        (np.stack([A, A.T]), B[:, 0]),
        (A, np.stack([B, 2 * B])),
        (np.stack([A, A.T]), np.stack([B, 2 * B])[:, None]),
        (A.astype(np.float32), B.astype(np.float32)),
        (np.array([[2, 1], [1, 3]]), np.array([1, 2])),
    ],
)
def test_solve_means_what_numpys_does(a, b):
    expected = np.linalg.solve(a, b)
    for call in (linalg.solve, dlvm.function(linalg.solve), dlvm.function(np.linalg.solve)):
        found = call(a, b)
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=2e-5 if a.dtype == np.float32 else 1e-11)


def test_numpys_functions_on_staged_values_give_its_named_tuples():
    @dlvm.function
    def f(x):
        return np.linalg.qr(x), np.linalg.slogdet(x), np.linalg.inv(x), np.linalg.det(x)

    qr, slogdet, inverse, det = f(A)
    for found, expected in ((qr, np.linalg.qr(A)), (slogdet, np.linalg.slogdet(A))):
        assert found._fields == expected._fields
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x, y, atol=1e-13)
    np.testing.assert_allclose(inverse, np.linalg.inv(A), atol=1e-13)
    np.testing.assert_allclose(det, np.linalg.det(A), rtol=1e-13)


@pytest.mark.parametrize("staged", (False, True))
def test_what_is_singular_gives_nan_for_itself_alone(staged):
    both = np.stack([np.eye(2), np.ones((2, 2)), np.zeros((2, 2))])
    call = dlvm.function(linalg.inv) if staged else linalg.inv
    found = call(both)
    assert np.array_equal(found[0], np.eye(2)) and np.isnan(found[1:]).all()
    assert np.isnan(dlvm.function(linalg.solve)(np.ones((2, 2)), np.ones(2))).all()


def test_determinants_of_nothing_and_of_singular_matrices():
    assert linalg.det(np.zeros((0, 0))) == 1 and linalg.det(np.ones((3, 3))) == 0
    sign, log = linalg.slogdet(np.stack([np.zeros((2, 2)), -np.eye(2), np.eye(2)[::-1]]))
    assert sign.tolist() == [0, 1, -1] and log.tolist() == [-np.inf, 0, 0]


@pytest.mark.parametrize("t", (np.float64, dlvm.bfloat16))
@pytest.mark.parametrize("staged", (False, True))
def test_a_matrix_that_holds_a_nan_has_no_determinant_and_no_sign(staged, t):
    many = np.stack([np.eye(3), np.zeros((3, 3)), np.ones((3, 3))])
    for i, j in np.ndindex(3, 3):
        x = many.copy()
        x[:, i, j] = np.nan
        for f in (linalg.det, linalg.slogdet):
            found = (dlvm.function(f) if staged else f)(x.astype(t))
            assert np.isnan(np.asarray(found, float)).all(), (i, j)


@pytest.mark.parametrize("trans", (0, 1, 2, "N", "T", "C"))
@pytest.mark.parametrize("lower", (False, True))
def test_a_triangle_is_solved_with_and_the_other_is_not_read(trans, lower):
    triangle = np.tril(A) if lower else np.triu(A)
    spoilt = triangle + (np.triu if lower else np.tril)(np.full((4, 4), np.nan), 1 if lower else -1)
    turned = triangle if trans in (0, "N") else triangle.T
    for b in (B, B[:, 0]):
        found = dlvm.function(lambda a, b: linalg.solve_triangular(a, b, trans, lower))(spoilt, b)
        np.testing.assert_allclose(turned @ found, b, atol=1e-13)
    unit = linalg.solve_triangular(spoilt, B, trans, lower, unit_diagonal=True)
    one = turned - np.diag(np.diagonal(turned)) + np.eye(4)
    np.testing.assert_allclose(one @ unit, B, atol=1e-12)


@pytest.mark.parametrize("lower", (False, True))
def test_a_factor_solves_as_scipys_pair_does(lower):
    s = A @ A.T
    c, flag = linalg.cho_factor(s, lower)
    assert flag is lower and np.array_equal(c, (np.tril if lower else np.triu)(c))
    staged = dlvm.function(lambda s, b: linalg.cho_solve(linalg.cho_factor(s, lower), b))
    for b in (B, B[:, 0]):
        np.testing.assert_allclose(s @ linalg.cho_solve((c, flag), b), b, atol=1e-11)
        np.testing.assert_allclose(s @ staged(s, b), b, atol=1e-11)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (4, 4)])
def test_least_squares(shape):
    a = A[: shape[0], : shape[1]]
    for b in (B[: shape[0]], B[: shape[0], 0]):
        expected = np.linalg.lstsq(a, b)
        for call in (linalg.lstsq, dlvm.function(np.linalg.lstsq)):
            x, residuals, *_ = call(a, b)
            np.testing.assert_allclose(x, expected[0], atol=1e-12)
            assert residuals.shape == expected[1].shape
            np.testing.assert_allclose(residuals, expected[1], atol=1e-12)


def test_negative_powers_are_those_of_the_inverse():
    for n in (-1, -3):
        found = dlvm.function(lambda x, n=n: linalg.matrix_power(x, n))(A)
        np.testing.assert_allclose(found, np.linalg.matrix_power(A, n), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: linalg.inv(x[:2]), "inv: expected square matrices, found an array of the shape"),
        (lambda x: linalg.cholesky(x[0]), r"square matrices, found .* \(4,\)"),
        (lambda x: linalg.solve(x, x[:2]), r"as many rows on both sides, found .*\(4, 4\).*\(2, 4"),
        (lambda x: linalg.solve_triangular(x, x, 3), "trans=3: expected 0, 1, 2"),
        (lambda x: linalg.cho_solve(x, x), "expected the pair that cho_factor gives"),
        (lambda x: linalg.qr(x, mode="raw"), "expected 'reduced', 'r' or 'complete'"),
        (lambda x: linalg.lstsq(x, x[:2]), "number of rows|as many rows"),
    ],
)
def test_mistakes_are_told(call, said):
    for f in (call, dlvm.function(call)):
        with pytest.raises(UserError, match=said):
            f(A)


def test_which_triangle_is_meant_must_be_known():
    with pytest.raises(UserError, match="which triangle holds the factor"):
        dlvm.function(lambda x: linalg.cho_solve((x, x.sum() > 0), x))(A)


@pytest.mark.parametrize(
    "name", ["solve", "inv", "det", "cholesky", "cho_factor", "solve_triangular", "lstsq"]
)
def test_scipys_functions_on_staged_values_name_ours(name):
    scipy = pytest.importorskip("scipy.linalg")
    two = name in ("solve", "solve_triangular", "lstsq")
    with pytest.raises(UserError, match=rf"write dlvm\.linalg\.{name}"):
        dlvm.function(lambda x: getattr(scipy, name)(*[x] * (1 + two)))(A)
