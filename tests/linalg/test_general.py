"""Schur forms of matrices that are not symmetric, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.lower.matrices import schur as loops
from dlvm.ops.factorisations import schur
from tests.gen.compiled import Compiled
from tests.gen.lower.test_factorisations import factorising, operands

from .gallery import GENERAL, PASSED, SIZES, random, ratio

linalg = dlvm.linalg
SCHUR = dlvm.function(linalg.schur, dynamic={"x": "N,N"})


def cycle(n: int) -> np.ndarray:
    """A permutation, whose eigenvalues are all roots of 1: shifts of 0 would leave it as it is."""
    return np.roll(np.eye(n), 1, 0)


def blocks(t: np.ndarray) -> list[int]:
    """The first rows of the blocks of two rows, each of which has the standard form."""
    assert not np.tril(t, -2).any()
    found = np.flatnonzero(np.diagonal(t, -1))
    assert (np.diff(found) > 1).all()
    for i in found:
        assert t[i, i] == t[i + 1, i + 1] and t[i, i + 1] * t[i + 1, i] < 0
    return list(found)


# -- Schur forms -----------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", GENERAL)
def test_schur_forms_give_the_matrix_back_and_have_standard_blocks(name):
    for n in SIZES:
        a = GENERAL[name](n)
        t, z = SCHUR(a)
        blocks(t)
        assert ratio(z.T @ z - np.eye(n)) < PASSED and ratio(z @ t @ z.T - a, a) < PASSED


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_schur_forms_of_what_stops_plain_shifts(dtype):
    eps = np.finfo(dtype).eps
    rng = np.random.default_rng(3)
    swings = [np.array([[0, 1, 0, 0], [1, 0, h, 0], [0, -h, 0, 1], [0, 0, 1, 0]]) for h in (1e-6,)]
    few = [rng.choice([0, 1, -1, 1e-8, 2], (6, 6)) for _ in range(20)]
    for a in (*map(cycle, (2, 3, 4, 5, 8)), *swings, *few, np.eye(4, k=1), np.eye(4, k=-1)):
        t, z = SCHUR(a.astype(dtype))
        blocks(t)
        size = 30 * eps * len(a) * max(np.abs(a).max(), 1)
        np.testing.assert_allclose(z.T @ z, np.eye(len(a)), atol=size)
        np.testing.assert_allclose(z @ t @ z.T, a, atol=size)


def test_what_has_no_finite_element_everywhere_gives_nan_for_itself_alone():
    good = random(3)
    for bad in (np.nan, np.inf):
        both = np.stack([good, np.where(np.eye(3) > 0, bad, good)])
        for found in dlvm.function(linalg.schur)(both):
            assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()


def test_sweeps_of_schur_forms_that_come_to_no_end_give_nan(monkeypatch):
    for module in (schur, loops):
        monkeypatch.setattr(module, "MOST", 1)
    op, module = factorising.__wrapped__("schur", "f64", (1, 7, 6))
    arrays = operands("schur", "f64", (1, 7, 6))
    for found in (module.run("f", *arrays), Compiled(op)(*arrays)[0]):
        assert all(np.isnan(x).all() for x in found)


def test_factors_of_schur_forms_have_no_derivative():
    slope = dlvm.grad(lambda x: linalg.schur(x).T.sum())(random(3))
    assert np.isnan(slope).all()
