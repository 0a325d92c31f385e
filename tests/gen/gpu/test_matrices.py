"""Factorisations on a GPU: a block works on a matrix, with barriers where a lane needs others."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import linalg

from .test_programs import assert_same_bits, emulated, machine_code

RNG = np.random.default_rng(0)
DEFINITE = ("cholesky", "eigh")
FORMS = {
    "cholesky": linalg.cholesky,
    "solve": lambda a: linalg.solve(a, a[..., :3]),
    "qr": linalg.qr,
    "triangular": lambda a: linalg.solve_triangular(a, a, lower=True),
    "eigh": linalg.eigh,
    "svd": linalg.svd,
    "schur": linalg.schur,
}


def drawn(form, *shape):
    a = RNG.normal(size=shape).astype("f4")
    size = shape[-1] * np.eye(shape[-1], dtype="f4")
    return a @ np.swapaxes(a, -1, -2) + size if form in DEFINITE else a + size


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", [(2, 9, 9), (9, 9)])
@pytest.mark.parametrize("form", FORMS)
def test_a_block_works_on_a_matrix(form, shape):
    """The emulator refuses an element that two lanes touch without a barrier between."""
    a, f = drawn(form, *shape), FORMS[form]
    assert_same_bits(emulated(f, a, seed=RNG.integers(99)), machine_code(f, a))


@pytest.mark.parametrize("form", FORMS)
def test_lanes_share_its_loops(form):
    for shape in ((3, 48, 48), (48, 48)):
        compiled = dlvm.function(FORMS[form], target="cuda").compile(drawn(form, *shape))
        assert "lanes" in compiled.text("schedule"), shape


def test_many_small_ones_have_a_lane_each():
    a = dlvm.spec("f32[20000,5,5]")
    text = dlvm.function(linalg.cholesky, target="cuda").compile(a).text("schedule")
    assert "lanes" not in text
