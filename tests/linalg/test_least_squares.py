"""Least squares, pseudo-inverses and ranks: by QR where the rank is full."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import dlvm
from dlvm.testing import gradcheck

from . import gallery, measures
from .test_spectra import WAYS, drawn, first_large

linalg = dlvm.linalg


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def lacking(*shape: int) -> np.ndarray:
    """A random matrix one short of its full rank."""
    *batch, m, n = shape
    k = min(m, n) - 1
    return drawn(*batch, m, k) @ drawn(*batch, k, n)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4)])
def test_least_squares_of_every_rank(shape, way):
    call = way(lambda a, b: tuple(linalg.lstsq(a, b)))
    for rank, columns in itertools.product((2, 3), ((2,), ())):
        a, b = drawn(shape[0], rank) @ drawn(rank, shape[1]), drawn(shape[0], *columns)
        expected = np.linalg.lstsq(a, b)
        found = call(a, b)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-11)
        assert found[2] == expected[2] == rank
        np.testing.assert_allclose(found[3], expected[3], atol=1e-12)
        if expected[1].size:
            np.testing.assert_allclose(found[1], expected[1], atol=1e-11)


PROGRAMS = {
    "lstsq": lambda a: linalg.lstsq(a, a[..., :1] + 1).x,
    "pinv": linalg.pinv,
    "matrix_rank": linalg.matrix_rank,
}


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_singular_values_are_computed_where_a_matrix_lacks_rank_and_nowhere_else(name, shape):
    a = drawn(*shape)
    text = dlvm.function(PROGRAMS[name]).compile(a).text("optimized")
    lines = [line for line in text.splitlines() if "= svd" in line]
    assert lines and all(line.startswith("      ") for line in lines), "in a branch"


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_matrix_without_rank_changes_no_bit_of_another(name, shape):
    a = drawn(3, *shape)
    a[1] = lacking(*shape)
    call = dlvm.function(PROGRAMS[name])
    both = call(a)
    for k in range(3):
        assert np.array_equal(both[k], call(a[k]))
        np.testing.assert_allclose(
            both[k], PROGRAMS[name](a[k][None])[0], atol=1e-12 * (1 + np.abs(both[k]).max())
        )
    mapped = dlvm.vmap(PROGRAMS[name])(a)
    np.testing.assert_allclose(mapped, both, atol=1e-11)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_ranks_of_large_and_small_numbers(scale):
    for a in (drawn(6, 4), lacking(6, 4)):
        assert linalg.matrix_rank(a * scale) == np.linalg.matrix_rank(a)
        expected = np.linalg.pinv(a, rtol=1e-13) / scale
        size = np.abs(expected).max()
        np.testing.assert_allclose(linalg.pinv(a * scale), expected, atol=1e-12 * size)


def test_a_tolerance_decides_between_small_singular_values():
    u, _, vt = np.linalg.svd(drawn(6, 4), full_matrices=False)
    a = (u * [1, 1e-2, 1e-4, 1e-6]) @ vt
    for rtol, rank in ((1e-3, 2), (1e-5, 3), (2e-6, 3), (5e-7, 4), (0, 4), (2, 0)):
        assert linalg.matrix_rank(a, rtol=rtol) == rank
        np.testing.assert_allclose(
            linalg.pinv(a, rtol=rtol), np.linalg.pinv(a, rtol=rtol), rtol=1e-8
        )


@pytest.mark.parametrize("n", [7, 10])
def test_a_pseudo_inverse_is_right_from_both_sides(n):
    """Columns of very different lengths: a solve with ``Q'`` is right from one side alone."""
    a = gallery.inverse_hilbert(n)
    for x in (a, a.T, a[:, : n // 2]):
        p = dlvm.function(linalg.pinv)(x)
        assert measures.pseudo_inverse(x, np.asarray(p), 2.0**-53) < 3


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(2, 29, 12), (12, 29)])
def test_tall_matrices_have_their_singular_values_by_way_of_qr(shape, dtype):
    a = drawn(*shape).astype(dtype)
    call = dlvm.function(lambda a: tuple(linalg.svd(a, full_matrices=False)))
    assert "= qr " in call.compile(a).text("optimized")
    u, s, vt = call(a)
    eps = 100 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose((u * s[..., None, :]) @ vt, a, atol=10 * eps)
    for x in (u.mT @ u, vt @ vt.mT):
        np.testing.assert_allclose(x, np.broadcast_to(np.eye(12), x.shape), atol=eps)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), rtol=eps)
    assert np.array_equal(dlvm.function(linalg.svdvals)(a), s)
    assert all((first_large(x) > 0).all() for x in u.reshape(-1, *u.shape[-2:]))
    a[(0,) * a.ndim] = np.nan
    assert all(np.isnan(x.reshape(-1, *x.shape[-2:])[0]).all() for x in call(a)[::2])


def test_derivatives_of_least_squares_that_lack_rank():
    """By references: machine code of two orders is that of ``pinv`` in ``test_spectra``."""

    def call(x):
        a = x @ x[:2].T @ x[:2]
        return linalg.lstsq(a, x[:, 0] + 1)[0].sum()

    gradcheck(call, drawn(4, 3), order=2, elements=2, compiled=False)
