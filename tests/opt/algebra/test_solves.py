"""An inverse that is multiplied is a solve, and one factorisation serves all that ask for it."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

linalg = dlvm.linalg
RNG = np.random.default_rng(0)
A, B, V = (RNG.standard_normal(s) for s in ((64, 64), (64, 5), (64,)))


def flops(call, *arrays):
    return dlvm.function(call).compile(*arrays).report.flops


@pytest.mark.parametrize("b", [B, V], ids=("matrix", "vector"))
def test_an_inverse_times_something_costs_what_a_solve_costs(b):
    most = flops(linalg.solve, A, b) + 2 * b.size  # and the sums of its columns
    assert flops(lambda a, b: linalg.inv(a) @ b, A, b) <= most
    found = dlvm.function(lambda a, b: linalg.inv(a) @ b)(A, b)
    np.testing.assert_array_equal(found, dlvm.function(linalg.solve)(A, b))


def test_it_is_one_of_a_batch_and_in_a_chain():
    many = np.stack([A, A.T])
    call = dlvm.function(lambda a, b: linalg.inv(a) @ b)
    np.testing.assert_allclose(call(many, np.stack([B, B])), np.linalg.solve(many, B), atol=1e-9)
    chain = flops(lambda a, b, v: linalg.inv(a) @ b @ v, A, A, V)
    assert chain < 1.05 * flops(lambda a, b, v: linalg.solve(a, b @ v), A, A, V)


def test_an_inverse_that_is_asked_for_stays():
    both = dlvm.function(lambda a, b: (linalg.inv(a), linalg.inv(a) @ b))
    inverse, product = both(A, B)
    np.testing.assert_allclose(inverse @ A, np.eye(64), atol=1e-10)
    np.testing.assert_allclose(product, np.linalg.solve(A, B), atol=1e-10)


def test_what_is_singular_stays_nan():
    assert np.isnan(dlvm.function(lambda a, b: linalg.inv(a) @ b)(np.ones((8, 8)), B[:8])).all()


def test_strict_numerics_keep_the_inverse():
    strict = dlvm.function(lambda a, b: linalg.inv(a) @ b, numerics="strict")
    assert strict.compile(A, B).report.flops > 2 * flops(linalg.solve, A, B)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: (linalg.solve(a, b), linalg.slogdet(a)),
        lambda a, b: (linalg.inv(a) @ b, linalg.slogdet(a), linalg.solve(a, b[:, 0])),
        lambda a, b: (linalg.solve(a, b), linalg.solve(a.T, b), linalg.inv(a.T) @ b),
        dlvm.grad(lambda a, b: linalg.solve(a, b).sum() + linalg.slogdet(a).logabsdet),
    ],
)
def test_one_factorisation_serves_all(call):
    text, *_ = str(dlvm.function(call).compile(A, B).text("optimized")).split("}")
    assert text.count("= lu ") == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: b.T @ linalg.inv(a),
        lambda a, b: linalg.inv(a).T @ b,
        lambda a, b: b.T @ linalg.inv(a).T,
        lambda a, b: b.T @ linalg.inv(a.T),
        lambda a, b: linalg.inv(a) @ b @ b.T @ b[:, 0],
    ],
)
def test_inverses_on_every_side_cost_what_a_solve_costs(call):
    most = flops(linalg.solve, A, B) + 8 * B.size
    assert flops(call, A, B) <= most
    plain = dlvm.function(call, numerics="strict")(A, B)
    np.testing.assert_allclose(dlvm.function(call)(A, B), plain, rtol=1e-9, atol=1e-11)


def test_a_sum_of_outer_products_is_solved_before_it_is_formed():
    """Of several products digits could be lost, which takes a licence."""
    most = flops(linalg.solve, A, B) + 3 * 64 * 64 * 5
    several = lambda a, b: linalg.solve(a, b @ b.T)  # noqa: E731
    fast = dlvm.function(several, numerics="fast").compile(A, B).report.flops
    assert fast <= most < flops(several, A, B)
    one = flops(linalg.solve, A, V) + 2 * 64 * 64
    assert flops(lambda a, v: linalg.solve(a, dlvm.outer(v, v)), A, V) <= one
