"""Solves and determinants take the factors that are best for what is known of their matrices."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

linalg = dlvm.linalg
RNG = np.random.default_rng(0)
N = 40
A, B, V = (RNG.standard_normal(s) for s in ((N, N), (N, 5), (N,)))
SPD = A @ A.T + N * np.eye(N)
FACTORS = ("lu", "cholesky", "qr")
MATRICES = {
    "spd": SPD,
    "lower": np.tril(A) + N * np.eye(N),
    "upper": np.triu(A) + N * np.eye(N),
    "diagonal": np.diag(V + np.sign(V)),
    "symmetric": A + A.T,
}
EXPECTED = {"spd": {"cholesky": 1}, "symmetric": {"lu": 1}}


def counted(call, *arrays, ops=FACTORS, **options):
    """How often each operation is computed."""
    compiled = dlvm.function(call, **options).compile(*arrays)
    text = str(compiled.text("optimized")).split("}")[0]
    return {name: n for name in ops if (n := text.count(f"= {name} "))}


def likelihood(a, b):
    a = dlvm.assume(a, "spd")
    return linalg.slogdet(a).logabsdet + b @ linalg.inv(a) @ b


def covariance(scales, x):
    apart = (x[:, None] - x[None, :]) ** 2
    return scales[0] * dlvm.exp(-apart * scales[1]) + scales[2] * dlvm.eye(x.shape[0])


def evidence(scales, x, y):
    return likelihood(covariance(scales, x), y)


@pytest.mark.parametrize("call", [likelihood, dlvm.value_and_grad(likelihood, wrt=(0, 1))])
def test_a_likelihood_and_its_gradient_take_one_cholesky(call):
    assert counted(call, SPD, V) == {"cholesky": 1}


def test_a_gradient_takes_one_inverse_and_no_other_solve_of_a_matrix():
    """One Cholesky, an inverse by two solves of n columns, and two of one column."""
    both = dlvm.value_and_grad(likelihood)
    assert counted(both, SPD, V, ops=("triangular_solve", "matmul")) == {"triangular_solve": 4}


def test_a_likelihood_and_its_gradient_are_right():
    value, (da, db) = dlvm.value_and_grad(likelihood, wrt=(0, 1))(SPD, V)
    inverse = np.linalg.inv(SPD)
    assert np.isclose(value, np.linalg.slogdet(SPD)[1] + V @ inverse @ V, rtol=1e-12)
    np.testing.assert_allclose(da, inverse - np.outer(inverse @ V, inverse @ V), atol=1e-12)
    np.testing.assert_allclose(db, 2 * inverse @ V, atol=1e-12)


def test_a_gaussian_process_takes_one_cholesky_and_has_its_gradient():
    scales, x = np.array([1.5, 0.7, 0.3]), np.linspace(0, 3, N)
    both = dlvm.value_and_grad(evidence)
    assert counted(both, scales, x, V) == {"cholesky": 1}
    value, slope = both(scales, x, V)
    apart = (x[:, None] - x) ** 2
    k = np.exp(-apart * scales[1])
    whole = scales[0] * k + scales[2] * np.eye(N)
    inverse = np.linalg.inv(whole)
    inner = inverse - np.outer(inverse @ V, inverse @ V)
    parts = k, -scales[0] * apart * k, np.eye(N)
    assert np.isclose(value, np.linalg.slogdet(whole)[1] + V @ inverse @ V, rtol=1e-9)
    np.testing.assert_allclose(slope, [(inner * p).sum() for p in parts], rtol=1e-9)


def everything(word):
    def call(a, b):
        a = dlvm.assume(a, word)
        solved = linalg.solve(a, b), linalg.solve(a.T, b), linalg.inv(a), b.T @ linalg.inv(a)
        return *solved, linalg.slogdet(a).logabsdet, linalg.det(a)

    return call


@pytest.mark.parametrize("word", MATRICES)
def test_each_kind_of_matrix_takes_its_own_factors_and_all_is_right(word):
    a = MATRICES[word]
    assert counted(everything(word), a, B) == EXPECTED.get(word, {})
    inverse = np.linalg.inv(a)
    found = dlvm.function(everything(word))(a, B)
    log, det = np.linalg.slogdet(a)[1], np.linalg.det(a)
    expected = inverse @ B, inverse.T @ B, inverse, B.T @ inverse, log, det
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def total(word):
    def call(a, b):
        solved, inverse, _, _, log, _ = everything(word)(a, b)
        return (solved * b).sum() + (inverse**2).sum() + log

    return call


@pytest.mark.parametrize("word", MATRICES)
def test_gradients_take_the_same_factors_and_are_those_without_what_is_known(word):
    a = MATRICES[word]
    slope = dlvm.grad(total(word), wrt=(0, 1))
    assert counted(slope, a, B) == EXPECTED.get(word, {})
    plain = dlvm.function(dlvm.grad(total(word), wrt=(0, 1)), numerics="strict")
    for one, other in zip(dlvm.function(slope)(a, B), plain(a, B), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def test_a_batch_has_a_factor_for_each_and_one_matrix_one_for_all_right_sides():
    many, right = np.stack([SPD, SPD + np.eye(N)]), np.stack([B, B + 1])
    solve = dlvm.function(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b))
    assert counted(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b), many, right) == {
        "cholesky": 1
    }
    np.testing.assert_allclose(solve(many, right), np.linalg.solve(many, right), atol=1e-12)
    wide = dlvm.function(dlvm.vmap(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b)))
    np.testing.assert_allclose(wide(many, right), np.linalg.solve(many, right), atol=1e-12)
    one = dlvm.vmap(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b), in_axes=(None, 0))
    np.testing.assert_allclose(
        dlvm.function(one)(SPD, right), np.linalg.solve(SPD, right), atol=1e-12
    )


def test_what_is_known_reaches_solves_in_loops():
    def call(a, b):
        a = dlvm.assume(a, "spd")
        return dlvm.fori_loop(0, 3, lambda _, x: linalg.solve(a + 2 * dlvm.eye(N), x), b)

    expected = B
    for _ in range(3):
        expected = np.linalg.solve(SPD + 2 * np.eye(N), expected)
    np.testing.assert_allclose(dlvm.function(call)(SPD, B), expected, atol=1e-12)


@pytest.mark.parametrize("word", ["lower", "upper", "diagonal"])
def test_a_triangular_matrix_with_a_zero_on_its_diagonal_is_singular(word):
    a = MATRICES[word].copy()
    a[3, 3] = 0
    call = dlvm.function(lambda a, b: linalg.solve(dlvm.assume(a, word), b))
    assert np.isnan(call(a, B)).all()
    assert dlvm.function(lambda a: linalg.det(dlvm.assume(a, word)))(a) == 0


def test_a_matrix_that_is_falsely_stated_to_be_definite_gives_nan():
    call = dlvm.function(lambda a, b: linalg.solve(dlvm.assume(a, "spd"), b))
    assert np.isnan(call(-SPD, B)).all()


def test_no_rows_are_solved():
    for word in ("spd", "lower", "diagonal"):
        solved, *_, log, det = dlvm.function(everything(word))(np.ones((0, 0)), np.ones((0, 5)))
        assert solved.shape == (0, 5)
        assert (log, det) == (0, 1)


def test_strict_numerics_keep_the_factors_that_are_written():
    assert counted(likelihood, SPD, V, numerics="strict") == {"lu": 1}


def test_a_projection_is_never_formed():
    rows, columns = 400, 8
    x, y = RNG.standard_normal((rows, columns)), RNG.standard_normal(rows)

    def projected(x, y):
        return x @ linalg.inv(x.T @ x) @ x.T @ y

    gram = 2 * rows * columns**2
    most = gram + 6 * rows * columns + 20 * columns**3
    assert dlvm.function(projected).compile(x, y).report.flops < most < 2 * rows**2
    expected = x @ np.linalg.lstsq(x, y, rcond=None)[0]
    np.testing.assert_allclose(dlvm.function(projected)(x, y), expected, atol=1e-9)

    def squares(x, y):
        return (projected(x, y) ** 2).sum()

    slope = dlvm.function(dlvm.grad(squares, wrt=(0, 1)))
    assert slope.compile(x, y).report.flops < 6 * gram < 2 * rows**2
    q = np.linalg.qr(x)[0]
    np.testing.assert_allclose(slope(x, y)[1], 2 * q @ (q.T @ y), atol=1e-9)


@pytest.mark.parametrize("word", MATRICES)
def test_the_gradient_of_a_determinant_is_right_also_of_singular_matrices(word):
    slope = dlvm.function(dlvm.grad(lambda a: linalg.det(dlvm.assume(a, word))))
    a = MATRICES[word][:6, :6] / N
    expected = np.linalg.det(a) * np.linalg.inv(a).T
    np.testing.assert_allclose(slope(a), expected, rtol=1e-8, atol=1e-14)
    if word in ("lower", "upper", "diagonal"):
        a = a.copy()
        a[2, 2] = 0
        np.testing.assert_allclose(slope(a), dlvm.grad(linalg.det)(a), atol=1e-12)
        assert slope(a)[2, 2] != 0


def test_a_definite_matrix_and_the_gradient_of_its_determinant_share_a_factor():
    call = dlvm.value_and_grad(lambda a: linalg.det(dlvm.assume(a, "spd")))
    assert counted(call, SPD) == {"cholesky": 1}
