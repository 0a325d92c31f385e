"""Factorisations by their residuals, invariants and derivatives, staged and unstaged."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import dlvm
from dlvm.dsl.arrays.factorisations import lu_factors
from dlvm.ir import parse
from dlvm.testing import gradcheck

from . import gallery
from .gallery import DEFINITE, GENERAL, PASSED, SIZES, norm, random, ratio

linalg = dlvm.linalg
WAYS = {"staged": dlvm.function, "unstaged": lambda f: f}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


@pytest.mark.parametrize("name", DEFINITE)
def test_cholesky_factors_multiply_to_the_matrix(name, way):
    factor = way(lambda x: (linalg.cholesky(x), linalg.cholesky(x, upper=True)))
    for n in SIZES:
        a = DEFINITE[name](n)
        lower, upper = factor(a)
        assert np.array_equal(upper, lower.T) and np.array_equal(lower, np.tril(lower))
        assert (np.diagonal(lower) > 0).all()
        assert ratio(lower @ lower.T - a, a) < PASSED


def test_what_is_not_positive_definite_is_nan_throughout(way):
    factor = way(linalg.cholesky)
    good = np.eye(3)
    for bad in (-np.eye(3), np.ones((3, 3)), np.zeros((3, 3)), np.full((3, 3), np.nan)):
        found = factor(np.stack([good, bad, good]))
        assert np.isnan(found[1]).all() and np.array_equal(found[[0, 2]], [good, good])


def test_only_the_symmetric_part_counts_and_the_gradient_is_symmetric():
    rng = np.random.default_rng(2)
    a = DEFINITE["gram"](5)
    skew = np.triu(rng.standard_normal((5, 5)), 1)
    np.testing.assert_allclose(
        linalg.cholesky(a + skew - skew.T), linalg.cholesky(a), rtol=1e-12, atol=1e-14
    )
    slope = dlvm.grad(lambda x: dlvm.log(dlvm.diagonal(linalg.cholesky(x))).sum() * 2)(a)
    assert np.array_equal(slope, slope.T)
    np.testing.assert_allclose(slope, np.linalg.inv(a), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", GENERAL)
def test_lu_gives_small_residuals_and_the_determinant(name, way):
    both = way(lambda x: (linalg.slogdet(x), linalg.solve(x, dlvm.ones((x.shape[0], 2)))))
    for n in SIZES:
        a = GENERAL[name](n)
        (sign, log), x = both(a)
        expected = np.linalg.slogdet(a)
        reliable = np.linalg.cond(a) < 1e12 if n else True
        if reliable:
            assert sign == expected.sign
            np.testing.assert_allclose(log, expected.logabsdet, rtol=1e-9, atol=1e-9)
        grown = 2.0 ** (n - 1) if name == "growing" else 1.0
        if n and np.isfinite(x).all():
            assert ratio(a @ x - 1, a, x) < PASSED * grown


def test_ties_of_pivots_go_to_the_lowest_row():
    module = parse("""dlvm 1
    func @f(%x: f64[3,3]) -> (f64[3,3], i64[3]) {
      %v, %w = lu %x : f64[3,3], i64[3]
      return %v, %w
    }
    """)
    a = np.array([[1.0, 2, 3], [-1, 5, 1], [1, 0, 2]])
    packed, order = module.run("f", a)
    assert order.tolist() == [0, 1, 2] and packed[0].tolist() == [1, 2, 3]
    packed, order = module.run("f", a[[1, 0, 2]])
    assert order[0] == 0 and packed[1, 0] == -1
    for nan, first in ((0, 0), (1, 2)):  # NaN is taken where it stands first, and nowhere else
        b = np.where(np.arange(3) == nan, np.nan, [1.0, 2, 3])[:, None] * np.ones(3)
        assert module.run("f", b)[1][0] == first


@pytest.mark.parametrize(
    "shape", [(5, 3), (3, 5), (4, 4), (7, 1), (1, 7), (0, 3), (3, 0), (2, 6, 4)]
)
def test_qr_is_numpys_to_rounding_errors(shape, way):
    a = np.random.default_rng(1).standard_normal(shape)
    q, r = way(linalg.qr)(a)
    expected = np.linalg.qr(a)
    np.testing.assert_allclose(q, expected.Q, atol=1e-13)
    np.testing.assert_allclose(r, expected.R, atol=1e-13)
    assert np.array_equal(r, np.triu(r))


@pytest.mark.parametrize("name", GENERAL)
def test_qr_of_hard_matrices_is_orthogonal(name):
    for n in SIZES[1:]:
        a = GENERAL[name](n)
        q, r = dlvm.function(linalg.qr)(a)
        assert ratio(q.T @ q - np.eye(n)) < PASSED and ratio(q @ r - a, a) < PASSED


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (2, 4)])
def test_matrices_of_few_rows_are_factorised_a_lane_each_with_the_bits_of_the_reference(shape):
    x = np.random.default_rng(3).standard_normal((20, *shape))
    x[5], x[6], x[7], x[8, 0] = 0.0, 1.0, x[7] * 1e-310, np.nan
    factors = [lambda x: tuple(linalg.qr(x))]
    if shape[0] == shape[1]:
        factors.append(lambda x: lu_factors(dlvm.asarray(x)))
    for f in factors:
        module, call = dlvm.trace(f, x), dlvm.function(f)
        for found, expected in zip(call(x), module.run(module.main.name, x), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert "vector %i1 < 20" in call.compile(x).text("loops")


PIVOTED = dlvm.function(lambda x: linalg.qr(x, pivoting=True), dynamic={"x": "M,N"})


@pytest.mark.parametrize("shape", [(0, 2), (1, 4), (3, 5), (5, 5), (40, 30)])
def test_pivoted_factors_are_scipys(shape):
    a = np.random.default_rng(sum(shape)).standard_normal(shape)
    found = PIVOTED(a)
    assert np.array_equal(np.sort(found.P), np.arange(shape[1]))
    if shape[0]:
        for x, y in zip(found, scipy.linalg.qr(a, mode="economic", pivoting=True), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-13)


def test_pivoted_factors_show_the_rank_of_each_matrix_of_a_batch():
    names = ("hilbert", "kahan", "rank_one", "growing", "random")
    many = np.stack([getattr(gallery, name)(9) for name in names])
    r, order = linalg.qr(many, "r", pivoting=True)
    q, full, _ = linalg.qr(many, "complete", pivoting=True)
    assert np.array_equal(r, full)
    for a, q_, r_, p in zip(many, q, r, order, strict=True):
        assert ratio(q_ @ r_ - a[:, p], a) < PASSED
        size = np.abs(np.diagonal(r_))
        assert (size[1:] <= size[:-1] * (1 + 1e-12) + 1e-15 * size[0]).all()
    assert np.abs(r[2, 1:]).max() < 1e-14 * np.abs(r[2, 0, 0])


def test_the_derivative_of_pivoted_factors_keeps_the_order():
    a = np.random.default_rng(5).standard_normal((4, 3))
    order = PIVOTED(a).P
    found, plain = (
        dlvm.grad(lambda x, f=f: weighted(tuple(f(x))))
        for f in (lambda x: linalg.qr(x, pivoting=True)[:2], linalg.qr)
    )
    np.testing.assert_allclose(found(a)[:, order], plain(a[:, order]), atol=1e-13)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_narrow_types_keep_their_type(dtype):
    a = (random(5) + 4 * np.eye(5)).astype(dtype)
    s = (a.astype(float) @ a.astype(float).T).astype(dtype)
    found = dlvm.function(
        lambda a, s: (linalg.inv(a), linalg.cholesky(s), linalg.qr(a), linalg.det(a))
    )(a, s)
    inverse, factor, (q, r), det = found
    assert {x.dtype for x in (inverse, factor, q, r, det)} == {np.dtype(dtype)}
    eps = np.finfo(dtype).eps
    assert norm(inverse.astype(float) @ a - np.eye(5)) < 40 * eps
    assert norm(factor.astype(float) @ factor.T - s) < 10 * eps * norm(s.astype(float))


def test_open_sizes_and_batches():
    staged = dlvm.function(
        lambda x, b: (linalg.solve(x, b), linalg.qr(b), linalg.cholesky(x @ x.mT)),
        dynamic={"x": "B,N,N", "b": "B,N,M"},
    )
    rng = np.random.default_rng(3)
    for batch, n, m in ((1, 1, 1), (2, 5, 3), (3, 3, 7), (0, 2, 2), (2, 0, 3)):
        x = rng.standard_normal((batch, n, n)) + 3 * np.eye(n)
        b = rng.standard_normal((batch, n, m))
        found, (q, r), factor = staged(x, b)
        np.testing.assert_allclose(x @ found, b, atol=1e-12)
        np.testing.assert_allclose(q @ r, b, atol=1e-12)
        np.testing.assert_allclose(factor @ factor.mT, x @ x.mT, atol=1e-11)


def test_a_batch_has_the_bits_of_its_matrices():
    x = np.random.default_rng(4).standard_normal((9, 6, 6)) + 2 * np.eye(6)
    call = dlvm.function(lambda x: (linalg.inv(x), *linalg.qr(x), linalg.det(x)))
    for k, batch in enumerate(call(x)):
        assert np.array_equal(batch, np.stack([call(one)[k] for one in x]))
    mapped = dlvm.function(dlvm.vmap(lambda x: linalg.inv(x)))(x)
    assert np.array_equal(mapped, call(x)[0])


@pytest.mark.parametrize("n", [65, 130])
def test_failures_of_large_matrices_are_nan_throughout(n):
    call = dlvm.function(lambda x: (linalg.solve(x, x[:, :2]), linalg.inv(x), linalg.cholesky(x)))
    for place in (0, n - 1):
        a = np.eye(n) * 2
        a[place, place] = 0
        assert all(np.isnan(x).all() for x in call(a)), place
        a[place, place] = np.nan
        assert np.isnan(call(a)[2]).all(), place


@pytest.mark.parametrize("n", [65, 130])
def test_signs_of_large_factors_are_lapacks(n):
    a = random(n)
    _, r = dlvm.function(linalg.qr)(a)
    assert np.array_equal(np.sign(np.diagonal(r)), np.sign(np.diagonal(np.linalg.qr(a).R)))
    identity = dlvm.function(linalg.qr)(np.eye(n))  # no reflection, so no sign changes
    assert all(np.array_equal(x, np.eye(n)) for x in identity)


# -- derivatives -----------------------------------------------------------------------------------


def weighted(results):
    """One number of all results, each element with its own weight."""
    return sum(
        (r * np.cos(np.arange(r.size) + 1.0).reshape(r.shape)).sum()
        for r in (results if isinstance(results, tuple) else (results,))
    )


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_derivatives_of_qr_of_every_shape(shape, in_depth):
    x = random(5)[: shape[0], : shape[1]] + 2 * np.eye(*shape)
    call = lambda x: weighted(tuple(linalg.qr(x)))  # noqa: E731
    gradcheck(call, x, order=2, elements=4, compiled=in_depth)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "call",
    [
        linalg.inv,
        linalg.det,
        lambda x: linalg.slogdet(x).logabsdet,
        lambda x: linalg.cholesky(x @ x.T),
        lambda x: linalg.cholesky(x @ x.T, upper=True),
        lambda x: linalg.matrix_power(x, -2),
        lambda x: linalg.solve(x, x[:, 0] + 1),
        lambda x: linalg.solve(x, x.T),
        lambda x: linalg.solve_triangular(x, x.T + 1, lower=True),
        lambda x: linalg.solve_triangular(x, x[1], "T"),
        lambda x: linalg.solve_triangular(x, x.T, trans=1, lower=True, unit_diagonal=True),
        lambda x: linalg.cho_solve(linalg.cho_factor(x @ x.T), x[0]),
        lambda x: linalg.lstsq(x[:, :2], x[:, 2]).x,
        lambda x: linalg.lstsq(x[:2], x[:2, 2]).x,
    ],
)
def test_derivatives_to_second_order(call, in_depth):
    """The references of all; machine code of a third."""
    x = random(4) + 3 * np.eye(4)
    gradcheck(lambda x: weighted(call(x)), x, order=2, elements=4, compiled=in_depth)


def test_the_gradient_of_a_log_determinant_is_the_inverse():
    a = random(6)
    slope = dlvm.function(dlvm.grad(lambda x: linalg.slogdet(x).logabsdet))(a)
    np.testing.assert_allclose(slope, np.linalg.inv(a).T, rtol=1e-9, atol=1e-10)


def test_the_gradient_of_a_solution_takes_no_other_factorisation():
    """What it costs is two solves, besides the one factorisation of both."""
    a, b = random(40) + 9 * np.eye(40), random(40)[0]
    staged = dlvm.function(dlvm.grad(lambda a, b: linalg.solve(a, b).sum(), wrt=(0, 1)))
    gradient, *_ = str(staged.compile(a, b).text("optimized")).split("}")
    assert gradient.count("= lu ") == 1 and gradient.count("= triangular_solve ") == 4
