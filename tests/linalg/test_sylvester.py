"""Equations of Sylvester, Lyapunov and Stein, beside SciPy's solutions and Kronecker products."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import dlvm
from dlvm.base.errors import UserError

from .gallery import PASSED, random

linalg = dlvm.linalg
SYLVESTER = dlvm.function(linalg.solve_sylvester, dynamic={"a": "M,M", "b": "N,N", "q": "M,N"})
NAMES = "solve_continuous_lyapunov", "solve_discrete_lyapunov"
A = np.array([[0.5, 2.0, 0.3], [-1.0, 0.5, 0.1], [0.2, 0.4, -0.7]])
"""Two of its eigenvalues are not real."""
B, Q = random(2), random(3)


def sides(m: int, n: int) -> list[np.ndarray]:
    """Matrices of m and n rows, and a right side."""
    rng = np.random.default_rng(m * n)
    return [rng.standard_normal(s) for s in ((m, m), (n, n), (m, n))]


def test_sylvester_equations_hold_for_any_two_sizes():
    for m, n in ((0, 2), (1, 1), (1, 6), (5, 1), (7, 4), (20, 33)):
        a, b, q = sides(m, n)
        x = SYLVESTER(a, b, q)
        assert x.shape == (m, n)
        size = np.linalg.norm(x) * (np.linalg.norm(a) + np.linalg.norm(b)) * max(m, n)
        assert np.linalg.norm(a @ x + x @ b - q) <= PASSED * size * 2.0**-53
        if m:
            y = scipy.linalg.solve_sylvester(a, b, q)
            np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lyapunov_equations_have_scipys_signs(name, dtype):
    found = getattr(linalg, name)(A.astype(dtype), Q.astype(dtype))
    assert found.dtype == dtype
    expected = getattr(scipy.linalg, name)(A, Q)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e3 * np.finfo(dtype).eps)


def test_solutions_keep_their_digits_at_the_ends_of_the_exponents():
    for power in (1e150, 1e-150):
        a, b = A * power, B * power
        np.testing.assert_allclose(
            linalg.solve_sylvester(a, b, Q[:, :2]) * power,
            linalg.solve_sylvester(A, B, Q[:, :2]),
            rtol=1e-12,
        )


def test_each_matrix_of_a_batch_has_its_own_solution_and_nan_where_there_is_none():
    a = np.stack([A, np.eye(3), A * np.nan])[:, None]
    b = np.stack([B, -np.eye(2)])
    x = dlvm.function(linalg.solve_sylvester)(a, b, Q[:, :2])
    assert x.shape == (3, 2, 3, 2)
    none = np.isnan(x).all((2, 3))
    assert np.array_equal(none, [[False, False], [False, True], [True, True]])
    np.testing.assert_allclose((a @ x + x @ b)[~none], np.stack([Q[:, :2]] * 3), atol=1e-12)


def test_derivatives_are_those_of_a_system_of_kronecker_products():
    def plain(a, b, q):
        whole = dlvm.kron(a, dlvm.eye(2)) + dlvm.kron(dlvm.eye(3), b.T)
        return linalg.solve(whole, q.reshape(-1)).reshape(3, 2)

    def slopes(solve):
        return dlvm.grad(lambda a, b, q: (solve(a, b, q) ** 3).sum(), wrt=(0, 1, 2))

    given = A, B, Q[:, :2]
    for x, y in zip(slopes(linalg.solve_sylvester)(*given), slopes(plain)(*given), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-12 * np.abs(y).max())


def test_a_gradient_takes_one_schur_form():
    def solve(a, q):
        return linalg.solve_discrete_lyapunov(a, q).sum()

    call = dlvm.function(dlvm.grad(solve, wrt=(0, 1)))
    assert call.compile(A, Q).text("optimized").split("\n}")[0].count("= schur ") == 1
    h, direction, plain = 1e-6, random(3), scipy.linalg.solve_discrete_lyapunov
    far, near = (plain(A + s * h * direction, Q).sum() for s in (1, -1))
    np.testing.assert_allclose((call(A, Q)[0] * direction).sum(), (far - near) / (2 * h), rtol=1e-6)


def test_a_right_side_of_another_shape_is_refused():
    said = r"solve_sylvester: expected matrices of \(3, 2\) as the right side, .* \(2, 3\)"
    with pytest.raises(UserError, match=said):
        linalg.solve_sylvester(A, B, Q[:2])
