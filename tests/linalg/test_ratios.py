"""A sample of the ratios; ``python -m tests.linalg.ratios`` takes all of them."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

from . import gallery, measures, ratios
from .gallery import PASSED

SAMPLE = {
    **dict.fromkeys(ratios.MEASURES, (3, 70)),
    **dict.fromkeys(("det", "expm"), (3,)),
    **dict.fromkeys(("svd, tall", "qr, wide", "pinv", "lstsq"), (3, 20)),
    **dict.fromkeys(("qr, pivoted", "schur", "eig_pairs", "solve_sylvester"), (3, 20)),
    **dict.fromkeys(("eigh, high", "svd, high"), (3, 20)),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SAMPLE)
def test_ratios_are_below_lapacks_bound(name: str, drawn_third: slice):
    """Each function on a third of the families of matrices that the seed draws.

    The loops of tall singular values of open sizes take the verifier a minute, and their bits are
    those of known sizes (``test_open_sizes``).
    """
    measure = ratios.MEASURES[name]
    staged = dlvm.function(measure.program, dynamic=name != "svd, tall")
    for n in SAMPLE[name]:
        for family in list(measure.families)[drawn_third]:
            for dtype in (np.float64, np.float32):
                found = ratios.ratio(name, family, n, dtype, staged)
                assert found < PASSED, (family, n, dtype)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ("eigh", "svd", "svd, tall"))
def test_ratios_around_the_sizes_where_spectra_change_their_way(name: str, drawn_third: slice):
    """Rotations, plain steps and panels, of known sizes.

    Rotations end at 6 rows of ``eigh`` and 8 of ``svd``, panels have 32 columns and begin at 65.
    """
    measure = ratios.MEASURES[name]
    for n in (1, 6, 7, 8, 9, 33, 65, 300):
        staged = dlvm.function(measure.program)
        for family in list(measure.families)[drawn_third]:
            for dtype in (np.float64, np.float32):
                found = ratios.ratio(name, family, n, dtype, staged)
                assert found < PASSED, (family, n, dtype)


def test_reflections_of_subnormal_columns_are_orthogonal():
    """Those of a matrix of rank one, of which rounding errors of rounding errors are left."""
    a = gallery.rank_one(257).astype(np.float32) * np.float32(1e-10)
    for call in (dlvm.linalg.qr, dlvm.function(dlvm.linalg.qr)):
        q = np.asarray(call(a)[0], np.float64)
        assert measures.orthonormal(q, 2.0**-24) < PASSED


def test_rotations_add_no_drift():
    """A thousand rotations of each row leave its length."""
    a = gallery.random(200)
    _, _, rows = dlvm.function(dlvm.linalg.svd)(a)
    assert abs((rows * rows).sum(1).mean() - 1) < 1e-14


def test_sweeps_converge_soon_where_eigenvalues_are_repeated():
    from dlvm.ops.factorisations import eigh

    x = gallery.repeated(30)[None].copy()
    rows = np.eye(30)[None].copy()
    for _ in range(7):
        eigh._sweep(x, rows, False)
    assert np.abs(np.tril(x[0], -1)).max() < 1e-16


def test_a_ratio_sees_an_error():
    """A wrong element, a lost digit or a NaN is above the bound."""
    a = gallery.random(8)
    q, r = np.linalg.qr(a)
    for wrong in (q * (1 + 1e-12), np.where(q == q[3, 3], np.nan, q), q[:, ::-1]):
        assert not measures.qr(a, wrong, r, 2.0**-53) < PASSED
    x = np.linalg.solve(a, a)
    assert measures.solved(a, a, x + 1e-10, 2.0**-53) > PASSED
    assert measures.inverse(a, np.full_like(a, np.nan), 2.0**-53) > PASSED
