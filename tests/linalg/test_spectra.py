"""Eigenvalues, singular values and what is made of them: residuals, NumPy's results, slopes."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.testing import gradcheck

from .gallery import GENERAL, PASSED, SIZES, random, ratio
from .test_factors import weighted

linalg = dlvm.linalg
WAYS = {"staged": dlvm.function, "unstaged": lambda f: f}
SHAPES = [(4, 4), (5, 3), (3, 5), (1, 4), (4, 1), (0, 3), (3, 0), (2, 6, 4), (2, 0, 3, 3)]


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


def first_large(columns: np.ndarray) -> np.ndarray:
    """Of each column the first element that is large beside the largest."""
    size = np.abs(columns)
    first = np.argmax(size >= 0.75 * size.max(0), 0)
    return columns[first, np.arange(columns.shape[1])]


# -- residuals -------------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", GENERAL)
def test_eigenvectors_are_orthogonal_and_turn_the_matrix_diagonal(name, way):
    call = way(lambda x: (*linalg.eigh(x), linalg.eigvalsh(x)))
    for n in SIZES:
        a = GENERAL[name](n)
        a = a + a.T
        w, v, values = call(a)
        assert np.array_equal(w, np.sort(w)) and np.array_equal(w, values)
        assert ratio(v.T @ v - np.eye(n)) < PASSED and ratio(a @ v - v * w, a) < PASSED
        expected = np.linalg.eigvalsh(a)
        np.testing.assert_allclose(w, expected, atol=1e-14 * n * np.abs(expected).max(initial=0))
        assert n == 0 or (first_large(v) > 0).all()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", GENERAL)
def test_singular_vectors_are_orthonormal_and_give_the_matrix_back(name, way):
    call = way(lambda x: (*linalg.svd(x, full_matrices=False), linalg.svdvals(x)))
    for n in SIZES[1:]:
        for a in (GENERAL[name](n), GENERAL[name](n)[:, : n // 2 + 1], GENERAL[name](n)[: n // 2]):
            u, s, vt, values = call(a)
            k = len(s)
            assert np.array_equal(s, -np.sort(-s)) and (s >= 0).all()
            assert np.array_equal(s, values)
            assert ratio(u.T @ u - np.eye(k)) < PASSED
            assert ratio((vt @ vt.T - np.eye(k)).reshape(k, k)) < PASSED
            assert ratio((u * s) @ vt - a, a) < PASSED
            top = np.linalg.svd(a, compute_uv=False)
            np.testing.assert_allclose(s, top, atol=1e-14 * n * top.max(initial=0))
            assert k == 0 or (first_large(u) > 0).all()


def test_small_singular_values_have_all_their_digits():
    """Rotations of columns see each column beside itself: LAPACK loses what is below 1e-16."""
    q, _ = np.linalg.qr(random(6))
    scales = 10.0 ** -np.arange(0, 60, 10)
    found = linalg.svdvals(q * scales)
    np.testing.assert_allclose(found, scales, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rotations_of_columns_of_any_lengths_come_to_an_end(dtype):
    from dlvm.ops.factorisations import svd
    from dlvm.ops.factorisations.rotations import swept

    rng, span = np.random.default_rng(2), 37 if dtype is np.float32 else 300
    x = rng.standard_normal((400, 3, 4))
    x[::2] = x[::2, :1]  # rank one
    x *= 10.0 ** rng.uniform(-span, span * 0.2, (400, 3, 1))
    with np.errstate(all="ignore"):
        _, ended = swept(x.astype(dtype), svd._sweep)
    assert ended.all()


def test_matrices_that_lack_rank_have_orthonormal_vectors():
    for a in (np.zeros((4, 3)), np.ones((5, 5)), np.outer(np.arange(4.0), np.arange(6.0))):
        u, s, vt = linalg.svd(a)
        assert u.shape == (len(a),) * 2 and vt.shape == (a.shape[1],) * 2
        np.testing.assert_allclose(u.T @ u, np.eye(len(a)), atol=1e-14)
        np.testing.assert_allclose(vt @ vt.T, np.eye(a.shape[1]), atol=1e-14)
        np.testing.assert_allclose((u[:, : len(s)] * s) @ vt[: len(s)], a, atol=1e-13)


def test_what_is_not_finite_gives_nan_for_itself_alone(way):
    good = random(3) + random(3).T
    for bad in (np.nan, np.inf):
        both = np.stack([good, np.where(np.eye(3) > 0, bad, good)])
        for found in way(lambda x: (*linalg.eigh(x), *linalg.svd(x)))(both):
            assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()
        assert np.isnan(way(linalg.pinv)(both)[1]).all()


@pytest.mark.parametrize("uplo", ["L", "U", "l", "u"])
def test_only_the_stated_triangle_is_read(uplo, way):
    a = random(4)
    found = way(lambda x: linalg.eigh(x, UPLO=uplo))(a)
    np.testing.assert_allclose(found[0], np.linalg.eigh(a, uplo.upper())[0], atol=1e-13)
    slope = dlvm.grad(lambda x: linalg.eigvalsh(x, uplo).max())(a)
    assert np.array_equal(slope, (np.tril if uplo in "Ll" else np.triu)(slope))
    symmetric = dlvm.grad(lambda x: linalg.eigvalsh(x).max())(a)
    np.testing.assert_allclose(symmetric, symmetric.T, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_element_types(dtype, way):
    a = np.round(4 * random(4)).astype(dtype)
    w, (u, s, vt) = way(lambda x: (linalg.eigvalsh(x), linalg.svd(x)))(a)
    kept = np.dtype(np.float64 if dtype is np.int64 else dtype)
    assert {x.dtype for x in (w, u, s, vt)} == {kept}
    eps = np.finfo(kept).eps * np.abs(s).max()
    np.testing.assert_allclose(s, np.linalg.svd(a.astype(float))[1], atol=8 * eps)


def test_open_sizes():
    staged = dlvm.function(
        lambda x: (linalg.svd(x, full_matrices=False), linalg.eigh(x @ x.mT), linalg.pinv(x)),
        dynamic={"x": "B,N,M"},
    )
    for shape in ((1, 1, 1), (2, 5, 3), (3, 3, 7), (0, 2, 2), (2, 0, 3)):
        x = drawn(*shape)
        (u, s, vt), (w, v), p = staged(x)
        np.testing.assert_allclose((u * s[..., None, :]) @ vt, x, atol=1e-12)
        np.testing.assert_allclose((v * w[..., None, :]) @ v.mT, x @ x.mT, atol=1e-12)
        np.testing.assert_allclose(p, np.linalg.pinv(x), atol=1e-11)


def test_a_batch_has_the_bits_of_its_matrices():
    x = drawn(9, 5, 4)
    call = dlvm.function(lambda x: (*linalg.svd(x), *linalg.eigh(x.mT @ x), linalg.pinv(x)))
    mapped = dlvm.function(dlvm.vmap(lambda x: tuple(call(x))))(x)
    for k, batch in enumerate(call(x)):
        assert np.array_equal(batch[3], call(x[3])[k])
        np.testing.assert_allclose(mapped[k], batch, atol=1e-14)


# -- what NumPy gives ------------------------------------------------------------------------------

LIKE_NUMPY = {
    "svdvals": lambda la, x: la.svdvals(x),
    "values alone": lambda la, x: la.svd(x, compute_uv=False),
    "pinv": lambda la, x: la.pinv(x, rtol=1e-10),
    "rank": lambda la, x: la.matrix_rank(x),
    "rank by size": lambda la, x: la.matrix_rank(x, 0.5) + la.matrix_rank(x, rtol=0.5),
    "nuc": lambda la, x: la.matrix_norm(x, ord="nuc", keepdims=True),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", LIKE_NUMPY)
def test_it_is_numpys_of_every_shape(name, shape, way):
    x = drawn(*shape)
    program = LIKE_NUMPY[name]
    if 0 in shape and name.startswith(("rank", "nuc")):
        x = np.ones((2, 2))
    np.testing.assert_allclose(
        way(lambda x: program(linalg, x))(x), program(np.linalg, x), atol=1e-11
    )


@pytest.mark.parametrize("p", [None, 1, -1, 2, -2, np.inf, -np.inf, "fro"])
def test_conditions_are_numpys(p, way):
    for a in (random(4), np.stack([random(3), random(3).T @ random(3)])):
        found = way(lambda x: linalg.cond(x, p))(a)
        np.testing.assert_allclose(found, np.linalg.cond(a, p), rtol=1e-11)
    assert way(lambda x: linalg.cond(x, p))(np.zeros((2, 2))) == np.inf
    assert np.isnan(way(lambda x: linalg.cond(x, p))(np.full((2, 2), np.nan)))


@pytest.mark.parametrize("ord", [1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"])
def test_norms_of_every_order_are_numpys(ord, way):
    for x in (drawn(4, 3), drawn(2, 3, 5)):
        found = way(lambda x: linalg.matrix_norm(x, ord=ord, keepdims=True))(x)
        np.testing.assert_allclose(
            found, np.linalg.matrix_norm(x, ord=ord, keepdims=True), rtol=1e-12
        )
    found = way(lambda x: linalg.norm(x, ord, axis=(0, 2)))(x)
    np.testing.assert_allclose(found, np.linalg.norm(x, ord, axis=(0, 2)), rtol=1e-12)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 4, 2), (3, 0)])
def test_complete_forms_are_square_and_orthogonal(shape, way):
    x = drawn(*shape)
    q, r = way(lambda x: linalg.qr(x, mode="complete"))(x)
    expected = np.linalg.qr(x, mode="complete")
    np.testing.assert_allclose(q, expected.Q, atol=1e-13)
    np.testing.assert_allclose(r, expected.R, atol=1e-13)
    u, _, vt = way(linalg.svd)(x)
    assert u.shape[-1] == u.shape[-2] == shape[-2] and vt.shape[-1] == vt.shape[-2] == shape[-1]
    for y in (u, vt):
        one = np.broadcast_to(np.eye(y.shape[-1]), y.shape)
        np.testing.assert_allclose(y.mT @ y, one, atol=1e-13)


def test_numpys_functions_on_staged_values_give_its_named_tuples(way):
    a = random(4) + random(4).T
    found = dlvm.function(lambda x: (np.linalg.eigh(x), np.linalg.svd(x), np.linalg.pinv(x)))(a)
    for ours, numpys in ((found[0], np.linalg.eigh(a)), (found[1], np.linalg.svd(a))):
        assert ours._fields == numpys._fields
        for x, y in zip(ours, numpys, strict=True):
            np.testing.assert_allclose(np.abs(x), np.abs(y), atol=1e-13)
    np.testing.assert_allclose(found[2], np.linalg.pinv(a), atol=1e-12)


# -- exponentials ----------------------------------------------------------------------------------


def test_exponentials_are_those_of_the_eigenvalues(way):
    call = way(linalg.expm)
    for n in SIZES:
        for scale in (1e-9, 0.3, 5.0, 40.0):
            a = (random(n) + random(n).T) * scale / max(n, 1)
            w, v = np.linalg.eigh(a)
            expected = (v * np.exp(w)) @ v.T
            size = np.abs(expected).max(initial=0)
            np.testing.assert_allclose(call(a), expected, atol=1e-12 * size)


def test_exponentials_of_many_with_scales_of_their_own(way):
    turn = np.array([[0.0, 1], [-1, 0]])
    found = way(linalg.expm)(np.stack([turn * t for t in (0.0, 1, 30, 1000)]))
    for t, x in zip((0.0, 1, 30, 1000), found, strict=True):
        expected = [[np.cos(t), np.sin(t)], [-np.sin(t), np.cos(t)]]
        np.testing.assert_allclose(x, expected, atol=1e-12)
    defective = np.array([[2.0, 1], [0, 2]])
    expected = np.exp(2) * np.array([[1.0, 1], [0, 1]])
    np.testing.assert_allclose(way(linalg.expm)(defective), expected, rtol=1e-14)
    assert np.isnan(way(linalg.expm)(np.full((2, 2), np.nan))).all()
    assert np.isnan(way(linalg.expm)(-np.eye(2) * 1e200)).all()
    half = way(linalg.expm)(np.eye(2, dtype=np.float16))
    assert half.dtype == np.float16 and half[0, 0] == np.float16(np.e)


# -- derivatives -----------------------------------------------------------------------------------


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: tuple(linalg.eigh(x)), (4, 4)),
        (lambda x: linalg.eigvalsh(x, "U"), (4, 4)),
        (lambda x: tuple(linalg.svd(x, full_matrices=False)), (3, 3)),
        (lambda x: tuple(linalg.svd(x, full_matrices=False)), (4, 2)),
        (lambda x: tuple(linalg.svd(x, full_matrices=False)), (2, 4)),
        (lambda x: (lambda u: u[:, 2:] @ u[:, 2:].T)(linalg.svd(x).U), (4, 2)),
        (lambda x: (lambda q: q[:, 2:] @ q[:, 2:].T)(linalg.qr(x, "complete").Q), (4, 2)),
        (linalg.pinv, (4, 2)),
        (linalg.pinv, (2, 4)),
        (lambda x: linalg.pinv(x @ x[:2].T @ x[:2]), (4, 3)),
        (lambda x: linalg.lstsq(x, x[:, 0] + 1)[0], (4, 3)),
        (lambda x: linalg.lstsq(x, x[:, :1] * 2 + 1)[1], (4, 3)),
        (linalg.cond, (3, 3)),
        (lambda x: linalg.cond(x, 1), (3, 3)),
        (lambda x: linalg.matrix_norm(x, ord="nuc"), (4, 3)),
        (lambda x: linalg.matrix_norm(x, ord=2), (3, 4)),
        (linalg.expm, (3, 3)),
    ],
)
def test_derivatives_to_second_order(call, shape, in_depth):
    """The references of all; machine code of a third."""
    gradcheck(lambda x: weighted(call(x)), drawn(*shape), order=2, elements=4, compiled=in_depth)


@pytest.mark.parametrize("scale", [1, 4, 8])
def test_the_gradient_of_an_exponential_goes_through_its_squarings(scale: int):
    """How often is a whole number of the argument, at which gradcheck would see a jump."""
    x, w = drawn(3, 3), drawn(3, 3)

    def f(x: np.ndarray) -> np.ndarray:
        return (linalg.expm(x * scale) * w).sum()

    steps = 1e-6 * np.eye(9).reshape(9, 3, 3)
    expected = np.array([f(x + h) - f(x - h) for h in steps]).reshape(3, 3) / 2e-6
    np.testing.assert_allclose(dlvm.grad(f)(x), expected, rtol=1e-6)


def adjugate(a: np.ndarray) -> np.ndarray:
    """Cofactors, one by one."""
    n = len(a)
    minors = [
        [np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) * (-1) ** (i + j) for j in range(n)]
        for i in range(n)
    ]
    return np.array(minors)


@pytest.mark.parametrize("staged", [False, True])
def test_the_gradient_of_a_determinant_is_that_of_cofactors_at_every_rank(staged):
    slope = dlvm.grad(linalg.det)
    slope = dlvm.function(slope) if staged else slope
    for n in (1, 2, 4):
        for rank in range(n + 1):
            a = (
                np.round(3 * drawn(n, rank)) @ np.round(3 * drawn(rank, n))
                if rank
                else np.zeros((n, n))
            )
            np.testing.assert_allclose(slope(a), adjugate(a), atol=1e-10)
    for a in (np.eye(3), np.diag([1.0, 0, 0]), np.diag([2.0, 0, 3]), np.ones((2, 2))):
        second = dlvm.hessian(linalg.det)(a)
        h = np.zeros_like(second)
        for place in np.ndindex(a.shape):
            for sign in (1, -1):
                b = a.copy()
                b[place] += sign
                h[(..., *place)] += sign * adjugate(b) / 2  # it is linear in each element
        np.testing.assert_allclose(second, h, atol=1e-10)


def test_eigenvectors_of_equal_eigenvalues_have_no_derivative_and_the_values_have():
    for call in (lambda x: linalg.eigh(x), lambda x: linalg.svd(x)[1::-1]):
        values = dlvm.grad(lambda x, call=call: (call(x)[0] ** 3).sum())(np.eye(3))
        np.testing.assert_allclose(values, 3 * np.eye(3), atol=1e-13)
        vectors = dlvm.grad(lambda x, call=call: call(x)[1][0, 1] * 1.0)(np.eye(3))
        assert np.isnan(vectors).any()


def test_norms_are_flat_where_they_have_no_slope():
    """One of the subgradients: ties share, and nothing is infinite."""
    for ord in (2, "nuc"):
        slope = dlvm.grad(lambda x, ord=ord: linalg.matrix_norm(x, ord=ord))(np.eye(2))
        np.testing.assert_allclose(slope, np.eye(2) / (2 if ord == 2 else 1), atol=1e-14)
        assert np.isfinite(
            dlvm.grad(lambda x, o=ord: linalg.matrix_norm(x, ord=o))(np.zeros((2, 2)))
        ).all()


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: linalg.eigh(x[:2]), "eigh: expected square matrices"),
        (lambda x: linalg.eigh(x, "X"), "UPLO='X': expected 'L', 'U' or None"),
        (lambda x: linalg.svd(x[0]), "svd: expected matrices"),
        (lambda x: linalg.cond(x[:2], 1), "cond: expected square matrices"),
        (lambda x: linalg.expm(x[:2]), "expm: expected square matrices"),
        (lambda x: linalg.lstsq(x, x[:2]), "as many rows on both sides"),
        (lambda x: linalg.matrix_norm(x, ord=3), "expected 'fro', 'nuc', 1, -1, 2, -2"),
    ],
)
def test_mistakes_are_told(call, said, way):
    with pytest.raises(UserError, match=said):
        way(call)(random(4))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (2, 1)])
def test_tolerances_of_pinv_stretch_over_matrices(way, shape):
    x, rtol = drawn(2, 3, 4, 3), np.random.default_rng(1).uniform(0.1, 0.9, shape)
    for option in ("rtol", "rcond"):
        found = way(lambda x, rtol, option=option: linalg.pinv(x, **{option: rtol}))(x, rtol)
        np.testing.assert_allclose(found, np.linalg.pinv(x, **{option: rtol}), atol=1e-12)
    with pytest.raises(UserError, match=r"pinv: the matrices \(2, 3, 4, 3\) take tolerances"):
        way(lambda x: linalg.pinv(x, rtol=np.ones((5, 2, 3))))(x)


def test_one_tolerance_is_given():
    for name in ("pinv", "matrix_rank"):
        first = {"pinv": "rcond", "matrix_rank": "tol"}[name]
        for library in (np.linalg, linalg):
            with pytest.raises((ValueError, UserError), match=r"both|one tolerance"):
                getattr(library, name)(np.eye(2), **{first: 0.1, "rtol": 0.1})
