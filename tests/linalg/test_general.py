"""Schur forms of matrices that are not symmetric, and what is made of them."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
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


# -- eigenvalues and eigenvectors ------------------------------------------------------------------

PAIRS = dlvm.function(linalg.eig_pairs, dynamic={"x": "N,N"})


def joined(found) -> np.ndarray:
    """Complex numbers of their parts."""
    return found.real + 1j * found.imag


def distances(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How far each number of one set is from the nearest one of the other."""
    return np.abs(x[:, None] - y).min(1, initial=np.inf)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", GENERAL)
def test_eigenvectors_are_multiplied_by_their_eigenvalues(name):
    for n in SIZES[1:]:
        a = GENERAL[name](n)
        values, vectors = PAIRS(a)
        w, v = joined(values), joined(vectors)
        assert np.array_equal(w[w.imag > 0], w[w.imag < 0].conj())
        np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, atol=1e-14)
        assert ratio(a @ v - v * w, a) < PASSED
        size = np.abs(v)
        first = v[np.argmax(size >= 0.75 * size.max(0), 0), np.arange(n)]
        assert (first.real > 0).all() and (np.abs(first.imag) <= 1e-15).all()


def test_eigenvalues_are_numpys():
    for a in (random(5), random(20), cycle(6)):
        expected = np.linalg.eigvals(a)
        for found in (joined(linalg.eigvals_pairs(a)), joined(PAIRS(a).eigenvalues)):
            assert distances(found, expected).max() < 1e-12 * len(a)
            assert distances(expected, found).max() < 1e-12 * len(a)


def test_matrices_that_lack_eigenvectors_repeat_them():
    for a in (np.eye(4), np.zeros((3, 3)), np.eye(40, k=1), np.eye(3) + np.eye(3, k=1)):
        values, vectors = PAIRS(a)
        w, v = joined(values), joined(vectors)
        assert np.isfinite(v).all() and ratio(a @ v - v * w, np.eye(len(a))) < PASSED


def test_eigenvalues_of_batches_and_of_what_is_not_finite():
    x = np.stack([random(4), random(4) * np.nan, cycle(4)])
    values, vectors = dlvm.function(linalg.eig_pairs)(x)
    assert np.isnan([*values.real[1], *vectors.imag[1].ravel()]).all()
    for i in (0, 2):
        w, v = joined(values)[i], joined(vectors)[i]
        np.testing.assert_allclose(x[i] @ v, v * w, atol=1e-13)


def test_values_alone_take_no_vectors():
    call = dlvm.function(lambda x: linalg.eigvals_pairs(x).real)
    text = call.compile(random(4)).text("optimized")
    assert text.count("= schur ") == 1 and "scan" not in text and "lu " not in text


def test_the_derivatives_of_eigenvalues_are_those_of_the_left_and_right_vectors():
    a = np.array([[1.0, 4, 0], [-2, 1, 1], [0, 0.5, 3]])
    w, v = (joined(x) for x in linalg.eig_pairs(a))
    u = np.linalg.inv(v)
    assert (w.imag != 0).sum() == 2
    slopes = np.stack([np.outer(u[k], v[:, k]) for k in range(3)])
    found = dlvm.function(dlvm.jacobian(linalg.eigvals_pairs))(a)
    np.testing.assert_allclose(joined(found), slopes, atol=1e-13)
    forwards = dlvm.function(lambda x, dx: dlvm.jvp(linalg.eigvals_pairs, (x,), (dx,))[1])
    moved = forwards(a, a @ a)
    np.testing.assert_allclose(joined(moved), (slopes * (a @ a)).sum((1, 2)), atol=1e-12)


def test_sums_over_equal_eigenvalues_have_derivatives_and_their_vectors_have_none():
    def f(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = linalg.eig_pairs(x)
        return (values.real**3).sum(), vectors.real[0, 1]

    values, vectors = dlvm.function(dlvm.jacobian(f))(np.eye(3))
    np.testing.assert_allclose(values, 3 * np.eye(3), atol=1e-13)
    assert np.isnan(vectors).any()


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_complex_results_are_refused_by_the_name_of_their_pairs(name):
    said = rf"dlvm\.linalg\.{name}_pairs\(x\), which gives real and imaginary parts"
    for f in (lambda x: getattr(linalg, name)(x), lambda x: getattr(np.linalg, name)(x)):
        with pytest.raises(UserError, match=said):
            dlvm.function(f)(random(3))
