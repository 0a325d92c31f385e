"""Factorisations in blocks are as exact as step by step, and take few turns of one thread."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import dlvm
from dlvm import linalg
from dlvm.base.errors import IRError
from dlvm.gen.program.steps import Launch
from dlvm.ir import parse
from dlvm.ir.sizes.dims import evaluate
from dlvm.opt import pipelines
from dlvm.opt.parallel import factors
from tests.gen.compiled import Compiled, kernel
from tests.gen.gpu.test_programs import emulated, flat

from .test_parallel import TURNS, f4, turns

RNG = np.random.default_rng(0)
BEFORE = [p.name for p in pipelines.MEANING]
COUNT = 200
"""Rows of matrices whose backward errors are compared."""


@pytest.fixture
def small(monkeypatch):
    """Blocks of four, and no matrix that is small enough for none."""
    monkeypatch.setattr(factors, "SHORT", 4)
    monkeypatch.setattr(factors, "SIZE", 4)


def both(f, *arguments):
    """What the references give for a function as it is, and in blocks."""
    module = dlvm.trace(f, *arguments).expanded().optimize(BEFORE)
    changed = module.optimize(["block_factors"])
    assert str(changed) != str(module)
    return module.run(module.main.name, *arguments), changed.run(changed.main.name, *arguments)


def drawn(dtype, *shape):
    return RNG.normal(size=shape).astype(dtype)


def definite(dtype, *shape):
    a = RNG.normal(size=shape)
    return (a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])).astype(dtype)


def triangles(lower, trans, unit):
    def f(t, b):
        t = t if unit else t + 8 * dlvm.eye(t.shape[-1], dtype=t.dtype)
        turned = linalg.matrix_transpose(t) if trans else t
        return linalg.solve_triangular(turned, b, lower=lower, unit_diagonal=unit)

    return f


# -- the same results -----------------------------------------------------------------------------

SHAPES = ((5, 5), (8, 8), (21, 21), (2, 3, 10, 10))
ROUGH = {"f2": 3e-2, "f4": 1e-4, "f8": 1e-12}


@pytest.mark.parametrize("dtype", ROUGH)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_blocks_give_the_same_factors(small, shape, dtype):
    s, a, b = definite(dtype, *shape), drawn(dtype, *shape), drawn(dtype, *shape[:-1], 11)
    a = a + (4 * np.eye(shape[-1])).astype(dtype)
    cases = [(linalg.cholesky, s), (linalg.solve, a, b), (linalg.inv, a), (linalg.slogdet, a)]
    for f, *arguments in cases:
        for x, y in zip(*both(f, *arguments), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            scale = max(1, np.abs(x).max())
            np.testing.assert_allclose(x / scale, y / scale, atol=ROUGH[dtype])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_every_triangle_is_solved_in_blocks(small, lower, trans, unit):
    """Narrow right sides and wide ones, which are cut into groups of columns."""
    for n, columns in ((21, 1), (21, 11), (3, 9), (10, 8)):
        t, b = 0.3 * drawn("f8", n, n), drawn("f8", n, columns)
        (x,), (y,) = both(triangles(lower, trans, unit), t, b)
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


def test_an_open_number_of_right_sides_is_cut_into_groups(small):
    f = triangles(True, False, False)
    specs = dlvm.spec("f64[3,3]"), dlvm.spec("f64[3,n]")
    module = dlvm.trace(f, *specs).expanded().optimize(BEFORE)
    changed = module.optimize(["block_factors"])
    assert "reshape" in str(changed)
    for columns in (0, 1, 4, 9):
        t, b = drawn("f8", 3, 3), drawn("f8", 3, columns)
        for x, y in zip(module.run("f", t, b), changed.run("f", t, b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)


def test_what_is_small_or_open_or_has_no_blocks_stays(small):
    cases = (
        (linalg.cholesky, f4(4, 4)),
        (linalg.inv, f4("n", "n")),
        (linalg.qr, f4("n", 9)),
        (linalg.schur, f4(9, 9)),
    )
    for f, a in cases:
        module = dlvm.trace(f, a).expanded().optimize(BEFORE)
        assert str(module.optimize(["block_factors"])) == str(module)


def test_the_program_of_a_large_matrix_is_no_longer():
    def count(n):
        module = dlvm.trace(linalg.cholesky, f4(n, n)).expanded().optimize(BEFORE)
        return str(module.optimize(["block_factors"])).count("triangular_solve")

    assert (count(512), count(1024), count(2048), count(5000)) == (15, 31, 31, 31)


def test_a_program_for_a_cpu_has_no_blocks():
    compiled = dlvm.function(linalg.cholesky).compile(f4(100, 100))
    assert compiled.text("kernels").count("= cholesky") == 1


@pytest.mark.parametrize("dtype", ROUGH)
@pytest.mark.parametrize("shape", [(9, 9), (30, 3), (3, 30), (13, 8), (2, 8, 13)], ids=str)
def test_panels_give_the_reflections_of_single_columns(small, shape, dtype):
    a = drawn(dtype, *shape)
    for x, y in zip(*both(linalg.qr, a), strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        np.testing.assert_allclose(x, y, atol=4 * ROUGH[dtype])


def test_where_columns_end_in_zeros_there_is_no_reflection(small):
    """These factors are not rounded: the triangle has the signs of the matrix."""
    square = np.triu(RNG.integers(-3, 4, (10, 10))).astype("f8")
    for a in (np.zeros((7, 7)), np.eye(7)[RNG.permutation(7)], square, square[:, :6]):
        for x, y in zip(*both(linalg.qr, a), strict=True):
            assert np.array_equal(x, y)


def test_panels_scale_columns_by_themselves(small):
    """No square over- or underflows, and a small column has all its digits."""
    sizes = 10.0 ** RNG.permutation(np.linspace(-300, 300, 11))
    a = drawn("f8", 11, 11) * sizes
    _, (q, r) = both(linalg.qr, a)
    np.testing.assert_allclose(q.T @ q, np.eye(11), atol=1e-14)
    np.testing.assert_allclose((q @ (r / sizes)), a / sizes, atol=1e-14)


def test_columns_before_nan_keep_their_factors(small):
    a = drawn("f8", 11, 11)
    a[2, 10] = np.nan
    for x, y in zip(*both(linalg.qr, a), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-14)


def symmetric(dtype, *shape):
    a = RNG.normal(size=shape)
    return (a + np.swapaxes(a, -1, -2)).astype(dtype)


def spectrum(w):
    """A full matrix with these eigenvalues."""
    q, _ = np.linalg.qr(RNG.normal(size=(len(w), len(w))))
    a = (q * w) @ q.T
    return (a + a.T) / 2


def ratios(a, w, v):
    """Errors of eigenvalues, of residuals and of orthogonality, in roundings of the largest."""
    exact, a = np.linalg.eigvalsh(a.astype("f8")), a.astype("f8")
    unit = np.finfo(w.dtype).eps * max(np.abs(exact).max(), 1e-300)
    turned = np.swapaxes(v, -1, -2) @ v - np.eye(a.shape[-1])
    beyond = np.abs(a @ v - v * w[..., None, :]).max() / unit
    return np.abs(w - exact).max() / unit, beyond, np.abs(turned).max() / np.finfo(w.dtype).eps


@pytest.mark.parametrize("dtype", ROUGH)
@pytest.mark.parametrize("shape", [(5, 5), (8, 8), (2, 7, 7)], ids=str)
def test_rotations_of_all_rows_give_the_same_eigenvectors(small, shape, dtype):
    a = symmetric(dtype, *shape)
    for accuracy in ("standard", "high"):
        for x, y in zip(*both(partial(linalg.eigh, accuracy=accuracy), a), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, atol=10 * ROUGH[dtype])


SPECTRA = {
    "zero": np.zeros(51),
    "equal": np.repeat([-2.0, 0.0, 1.0], 17),
    "of both signs": np.repeat([-1.0, 1.0, -1.0], 17),
    "graded": np.geomspace(1, 1e-10, 51) * np.resize([1, -1, -1], 51),
    "near": 1 + 1e-10 * RNG.normal(size=51),
    "drawn": RNG.normal(size=51),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_eigenvalues_of_every_kind_are_found(small, name):
    a = spectrum(SPECTRA[name])
    _, (w, v) = both(linalg.eigh, a)
    assert max(ratios(a, w, v)) < 51
    assert (np.diff(w) >= 0).all()


def test_eigenvalues_neither_over_nor_underflow(small):
    a = symmetric("f8", 8, 8)
    for scale in (1e-306, 1e300):
        (x, _), (y, _) = both(linalg.eigh, a * scale)
        np.testing.assert_allclose(x / scale, y / scale, rtol=1e-8)


def test_a_scaled_definite_matrix_has_all_its_digits(small):
    d = 10.0 ** -RNG.permutation(np.arange(0.0, 24, 2))
    a = d[:, None] * (np.eye(12) + 1) * d
    _, (w, _) = both(partial(linalg.eigh, accuracy="high"), a)
    np.testing.assert_allclose(np.prod(w), np.prod(d) ** 2 * 13, rtol=1e-13)


def test_what_is_not_finite_has_no_eigenvalues_and_others_of_a_batch_have(small):
    a = symmetric("f8", 4, 7, 7)
    a[1, 2, 2], a[2, 5, 1] = np.nan, np.inf
    for x, y in zip(*both(partial(linalg.eigh, UPLO="L"), a), strict=True):
        assert np.isnan(y[1:3]).all()
        np.testing.assert_allclose(x, y, atol=1e-13)
    (alone,) = both(linalg.eigvalsh, a[3])[1]
    assert np.array_equal(alone, both(linalg.eigvalsh, a)[1][0][3])


def thin(a, accuracy="standard"):
    return linalg.svd(a, full_matrices=False, accuracy=accuracy)


@pytest.mark.parametrize("dtype", ROUGH)
@pytest.mark.parametrize("shape", [(9, 9), (10, 9), (9, 10), (2, 7, 7), (40, 5)], ids=str)
def test_rotations_of_all_columns_give_the_same_singular_vectors(small, shape, dtype):
    a = drawn(dtype, *shape)
    for accuracy in ("standard", "high"):
        for x, y in zip(*both(partial(thin, accuracy=accuracy), a), strict=True):
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            np.testing.assert_allclose(x, y, atol=20 * ROUGH[dtype])


@pytest.mark.parametrize("name", ["zero", "equal", "graded"])
def test_singular_vectors_of_every_kind_are_orthogonal(small, name):
    p, q = (np.linalg.qr(RNG.normal(size=(17, 17)))[0] for _ in range(2))
    s, unit = np.sort(np.abs(SPECTRA[name][::3]))[::-1], 51 * np.finfo("f8").eps
    a = (p * s) @ q.T
    _, (u, found, vt) = both(thin, a)
    np.testing.assert_allclose(found, s, atol=unit)
    np.testing.assert_allclose((u * found) @ vt, a, atol=unit)
    for x in (u, vt):
        np.testing.assert_allclose(x @ x.T, np.eye(17), atol=unit)


def test_columns_of_any_length_keep_their_digits(small):
    a = (np.eye(12) + 0.1 * drawn("f8", 12, 12)) * 10.0 ** -np.arange(0.0, 24, 2)
    for x, y in zip(*both(partial(linalg.svdvals, accuracy="high"), a), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)


def test_what_is_not_finite_has_no_singular_values(small):
    a = drawn("f8", 2, 7, 6)
    a[1, 2, 2] = np.inf
    for x, y in zip(*both(thin, a), strict=True):
        assert np.isnan(y[1]).all()
        np.testing.assert_allclose(x, y, atol=1e-13)


# -- what has no factor ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", range(11))
def test_a_matrix_that_is_not_definite_has_a_factor_of_nan_alone(small, place):
    a = definite("f8", 2, 11, 11)
    a[1, place, place] = -1 if place % 2 else np.nan
    (x,), (y,) = both(linalg.cholesky, a)
    assert np.isnan(y[1]).all()
    np.testing.assert_allclose(x, y, atol=1e-12)


def test_a_singular_matrix_is_one_in_blocks(small):
    for n, column in ((11, 0), (11, 6), (11, 10)):
        a, b = RNG.integers(-3, 4, (n, n)).astype("f8"), drawn("f8", n, 6)
        a[:, column] = 0
        assert both(linalg.det, a)[1][0] == 0
        assert np.isnan(both(linalg.solve, a, b)[1][0]).all()


def test_pivots_are_those_of_single_steps(small):
    """All rows of a permutation are exchanged, and nothing is rounded."""
    for n in (9, 12, 30):
        a = np.eye(n)[RNG.permutation(n)]
        for x, y in zip(*both(linalg.inv, a), strict=True):
            assert np.array_equal(x, y)
            assert np.array_equal(y, a.T)


# -- backward errors ------------------------------------------------------------------------------


def graded(n):
    """Eigenvalues from 1 to 1e-10."""
    q, _ = np.linalg.qr(RNG.normal(size=(n, n)))
    a = (q * np.geomspace(1, 1e-10, n)) @ q.T
    return (a + a.T) / 2


def far(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_backward_errors_are_those_of_single_steps(dtype):
    """A factor, times its transpose, is the matrix; what is solved for solves the equations."""
    eps = float(np.finfo(dtype).eps)
    well, ill = definite(dtype, COUNT, COUNT), graded(COUNT).astype(dtype)
    matrices = [well] if dtype == "f4" else [well, ill]
    for a in matrices:
        plain, blocked = (far(x @ x.T, a) for (x,) in both(linalg.cholesky, a))
        assert blocked <= max(plain, 2 * eps)
    b = drawn(dtype, COUNT, 50)
    for a in (drawn(dtype, COUNT, COUNT), ill):
        plain, blocked = (
            np.linalg.norm(a @ x - b) / (np.linalg.norm(a) * np.linalg.norm(x))
            for (x,) in both(linalg.solve, a, b)
        )
        assert blocked <= max(2 * plain, 4 * eps)


# -- on a GPU -------------------------------------------------------------------------------------


def test_on_a_gpu_they_give_the_same(small):
    """The emulator refuses an element that two lanes touch without a barrier between."""
    s, a, b = definite("f4", 2, 11, 11), drawn("f4", 11, 11), drawn("f4", 11, 6)
    a[5] = a[9]  # of two pivots that are equal, the first
    a[9, 10] += 1

    def f(s, a, b):
        return (
            linalg.cholesky(s),
            linalg.solve(a, b),
            linalg.slogdet(a),
            linalg.qr(s),
            linalg.eigh(s),
        )

    for x, y in zip(flat(emulated(f, s, a, b)), flat(dlvm.function(f)(s, a, b)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3)


def test_on_a_gpu_singular_values_are_the_same(small):
    a = drawn("f4", 6, 5)
    (found,) = emulated(linalg.svdvals, a)
    np.testing.assert_allclose(found, dlvm.function(linalg.svdvals)(a), rtol=1e-5)


def test_lanes_search_for_a_pivot_as_one_does():
    """Groups of rows have the bits of a CPU: the first of equal ones, NaN only at the start."""
    a, b = RNG.integers(-2, 3, (2, 34, 34)).astype("f4"), drawn("f4", 2, 34, 1)
    a[0, 20, 0] = np.nan
    (found,) = emulated(linalg.solve, a, b)
    assert np.array_equal(found, np.asarray(dlvm.function(linalg.solve)(a, b)), equal_nan=True)


@pytest.mark.parametrize("sizes", [(7, 3), (4, 2), (70, 66)], ids=str)
def test_a_tall_panel_has_the_factors_of_the_reference(sizes):
    m, n = sizes
    types = f"f64[2,{m},{n}], i64[2,{m}]"
    op, module = kernel(
        f"""func @f(%x: f64[2,{m},{n}]) -> ({types}) {{
          %v, %w = lu %x : {types}
          return %v, %w
        }}""",
        "factorisation",
    )
    x = RNG.integers(-9, 10, (2, m, n)).astype("f8")
    expected, order = module.run("f", x)
    (found, places), _ = Compiled(op)(x)
    assert np.array_equal(places, order)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    lower = np.tril(expected, -1) + np.eye(m, n)
    rows = np.take_along_axis(x, order[..., None], 1)
    np.testing.assert_allclose(lower @ np.triu(expected)[:, :n], rows, atol=1e-12 * m * m)


def test_a_wide_matrix_has_no_factors():
    with pytest.raises(IRError, match="at least as many rows as columns"):
        parse(
            "dlvm 1\nfunc @f(%x: f32[2,3]) -> f32[2,3] {\n  %v, %w = lu %x : f32[2,3], i64[2]\n"
            "  return %v\n}\n"
        )


PROGRAMS = {
    "cholesky": (linalg.cholesky, f4(1024, 1024)),
    "triangular": (triangles(True, False, False), f4(1024, 1024), f4(1024, 64)),
    "many right sides": (triangles(False, False, True), f4(32, 32), f4(32, 1 << 15)),
    "determinant": (linalg.slogdet, f4(1024, 1024)),
    "eigh": (linalg.eigh, f4(1024, 1024)),
    "svd": (linalg.svd, f4(1024, 1024)),
    "qr": (linalg.qr, f4(1024, 1024)),
    "tall": (linalg.qr, f4(4096, 8)),
    "batches": (linalg.solve, f4(16, 256, 256), f4(16, 256, 1)),
}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_thread_does_much_alone(name):
    f, *arguments = PROGRAMS[name]
    compiled = dlvm.function(f, target="cuda:sm_90").compile(*arguments)
    program = compiled.road.executable.code.program
    for step in program.walk():
        if isinstance(step, Launch):
            sizes = zip(step.kernel.symbols, step.known, strict=True)
            values = {name: evaluate(d, {}) for name, d in sizes}
            assert turns(step.kernel.body, values) <= TURNS, step.kernel.name
