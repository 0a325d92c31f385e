"""The linear algebra of the array API standard 2024.12, by what it says of each function.

Shapes, element types, names of results and their definitions, for drawn shapes, batches and element
types. Each result of a batch is that of its matrices alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import dlvm
from dlvm.base.errors import UserError

linalg = dlvm.linalg
WAYS: dict[str, Callable[[Any], Any]] = {"staged": dlvm.function, "unstaged": lambda f: f}
few = settings(max_examples=6, deadline=None)
FLOATS = st.sampled_from([np.float32, np.float64])
REALS = st.sampled_from([np.int8, np.int64, np.uint8, np.uint32, np.float32, np.float64])
BATCH = st.lists(st.integers(0, 3), max_size=2).map(tuple)
SIZE = st.integers(0, 4)
ORDERS = [-np.inf, -2, -1, 1, 2, np.inf, "fro", "nuc"]


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


def whole(data: st.DataObject, dtype: Any, *shape: int) -> np.ndarray:
    """Small whole numbers, whose products are exact."""
    kind = np.dtype(dtype).kind
    least = 0 if kind == "u" else -5
    elements = st.integers(least, 5).map(dtype)
    return data.draw(arrays.arrays(dtype, shape, elements=elements))


def drawn(data: st.DataObject, *, square: bool = False, types: Any = FLOATS) -> np.ndarray:
    """Matrices in a batch."""
    rows, columns = data.draw(SIZE), data.draw(SIZE)
    shape = (*data.draw(BATCH), rows, rows if square else columns)
    return whole(data, data.draw(types), *shape)


def regular(x: np.ndarray) -> np.ndarray:
    """Matrices that have an inverse: the diagonal is larger than the rest of its row."""
    return x + (30 * np.eye(x.shape[-1])).astype(x.dtype)


def turned(x: Any) -> Any:
    return np.swapaxes(x, -1, -2)


def eps(x: np.ndarray) -> float:
    return 100 * float(np.finfo(x.dtype).eps)


def check_each(call: Any, x: np.ndarray, found: tuple[np.ndarray, ...]) -> None:
    """Results of a batch have the element type of their operand and the bits of its matrices."""
    for place in np.ndindex(x.shape[:-2]):
        alone = call(x[place])
        alone = alone if isinstance(alone, tuple) else (alone,)
        for whole_, one in zip(found, alone, strict=True):
            np.testing.assert_array_equal(whole_[place], one)


@few
@given(data=st.data(), upper=st.booleans())
@pytest.mark.parametrize("way", WAYS)
def test_cholesky(way, data, upper):
    x = drawn(data, square=True)
    x = regular(x + turned(x)) + x.dtype.type(20) * np.eye(x.shape[-1], dtype=x.dtype)
    call = WAYS[way](lambda x: linalg.cholesky(x, upper=upper))
    found = call(x)
    assert found.dtype == x.dtype and found.shape == x.shape
    np.testing.assert_array_equal(found, (np.triu if upper else np.tril)(found))
    product = turned(found) @ found if upper else found @ turned(found)
    np.testing.assert_allclose(product, x, atol=100 * eps(x))
    check_each(call, x, (found,))


@few
@given(data=st.data(), axis=st.integers(-3, -1))
@pytest.mark.parametrize("way", WAYS)
def test_cross(way, data, axis):
    dtype = data.draw(REALS.filter(lambda t: np.dtype(t).kind != "u"))
    shape = [data.draw(st.integers(0, 3)) for _ in range(3)]
    shape[axis] = 3
    other = [n if data.draw(st.booleans()) or i == axis + 3 else 1 for i, n in enumerate(shape)]
    x, y = whole(data, dtype, *shape), whole(data, dtype, *other)
    found = WAYS[way](lambda x, y: linalg.cross(x, y, axis=axis))(x, y)
    assert found.dtype == dtype and found.shape == np.broadcast_shapes(x.shape, y.shape)
    (a, b, c), (d, e, f) = (np.moveaxis(v, axis, 0) for v in np.broadcast_arrays(x, y))
    expected = np.stack([b * f - c * e, c * d - a * f, a * e - b * d])
    np.testing.assert_array_equal(np.moveaxis(found, axis, 0), expected)


@pytest.mark.parametrize("shapes", [((2,), (2,)), ((4,), (4,)), ((3,), (2, 2))])
def test_cross_products_have_three_elements(way, shapes):
    with pytest.raises(UserError, match="cross"):
        way(linalg.cross)(*map(np.ones, shapes))


@few
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_determinants(way, data):
    x = drawn(data, square=True)
    det, logs = WAYS[way](linalg.det), WAYS[way](linalg.slogdet)
    found, pair = det(x), logs(x)
    assert pair._fields == ("sign", "logabsdet")
    for part in (found, *pair):
        assert part.dtype == x.dtype and part.shape == x.shape[:-2]
    size = np.prod(np.maximum(np.abs(x).sum(-1), 1), axis=-1)
    wide = np.linalg.det(x.astype(float))
    assert (np.abs(found - wide) <= eps(x) * size).all()
    assert (np.abs(pair[0] * np.exp(pair[1]) - wide) <= eps(x) * size).all()
    zero = found == 0
    assert (pair[0][zero] == 0).all() and (pair[1][zero] == -np.inf).all()
    check_each(det, x, (found,))
    check_each(logs, x, tuple(pair))


@few
@given(data=st.data(), offset=st.integers(-6, 6))
@pytest.mark.parametrize("way", WAYS)
def test_diagonals_and_traces(way, data, offset):
    x = drawn(data, types=REALS)
    found = WAYS[way](lambda x: linalg.diagonal(x, offset=offset))(x)
    rows, columns = x.shape[-2:]
    places = [(i, i + offset) for i in range(rows) if 0 <= i + offset < columns]
    expected = np.zeros((*x.shape[:-2], len(places)), x.dtype)
    for k, (i, j) in enumerate(places):
        expected[..., k] = x[..., i, j]
    assert found.dtype == x.dtype and found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)
    total = WAYS[way](lambda x: linalg.trace(x, offset=offset))(x)
    kept = np.sum(np.ones(1, x.dtype)).dtype
    assert total.dtype == kept and total.shape == x.shape[:-2]
    np.testing.assert_array_equal(total, expected.sum(-1, dtype=kept))
    as_double = WAYS[way](lambda x: linalg.trace(x, offset=offset, dtype="f64"))(x)
    assert as_double.dtype == np.float64


@few
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_eigenvalues(way, data):
    x = drawn(data, square=True)
    x = x + turned(x)
    call, values = WAYS[way](linalg.eigh), WAYS[way](linalg.eigvalsh)
    found = call(x)
    assert found._fields == ("eigenvalues", "eigenvectors")
    w, v = found
    assert w.dtype == v.dtype == x.dtype and (w.shape, v.shape) == (x.shape[:-1], x.shape)
    one = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    np.testing.assert_allclose(turned(v) @ v, one, atol=eps(x))
    np.testing.assert_allclose(x @ v, v * w[..., None, :], atol=50 * eps(x))
    np.testing.assert_array_equal(values(x), w)
    check_each(call, x, tuple(found))


@few
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_inverses(way, data):
    x = regular(drawn(data, square=True))
    call = WAYS[way](linalg.inv)
    found = call(x)
    assert found.dtype == x.dtype and found.shape == x.shape
    one = np.broadcast_to(np.eye(x.shape[-1]), x.shape)
    np.testing.assert_allclose(x @ found, one, atol=eps(x))
    check_each(call, x, (found,))


@few
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_products(way, data):
    dtype, batch = data.draw(REALS), data.draw(BATCH)
    n, m, k = data.draw(SIZE), data.draw(SIZE), data.draw(SIZE)
    x, y = whole(data, dtype, *batch, n, k), whole(data, dtype, *batch[1:], k, m)
    matmul = WAYS[way](linalg.matmul)
    u, v, w = (whole(data, dtype, size) for size in (n, m, k))
    for a, b in ((x, y), (x, w), (w, y), (w, w)):
        found = matmul(a, b)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.matmul(a, b))
    turn = WAYS[way](linalg.matrix_transpose)(x)
    assert turn.dtype == dtype
    np.testing.assert_array_equal(turn, turned(x))
    outer = WAYS[way](linalg.outer)(u, v)
    assert outer.dtype == dtype and outer.shape == (n, m)
    np.testing.assert_array_equal(outer, u[:, None] * v)


@pytest.mark.parametrize(
    ("x", "y"), [((2, 3), (2, 3)), ((3,), (2,)), ((), (3,)), ((3,), (2, 3)), ((2, 3), (2,))]
)
def test_products_that_do_not_fit_are_mistakes(way, x, y):
    with pytest.raises(UserError):
        way(linalg.matmul)(np.ones(x), np.ones(y))


@few
@given(data=st.data(), axis=st.integers(-2, -1))
@pytest.mark.parametrize("way", WAYS)
def test_tensordot_and_vecdot(way, data, axis):
    dtype = data.draw(REALS)
    sizes = [data.draw(SIZE) for _ in range(4)]
    x, y = whole(data, dtype, *sizes[:3]), whole(data, dtype, *sizes[1:])
    for axes in (0, 2, ((1, 2), (0, 1)), ((-1, 1), (1, -3)), ((2,), (1,)), ((), ())):
        found = WAYS[way](lambda x, y, axes=axes: linalg.tensordot(x, y, axes=axes))(x, y)
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.tensordot(x, y, axes))
    z = whole(data, dtype, *x.shape[1:])
    found = WAYS[way](lambda x, y: linalg.vecdot(x, y, axis=axis))(x, z)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.vecdot(x, z, axis=axis))


@few
@given(data=st.data(), ord=st.sampled_from(ORDERS), keepdims=st.booleans())
@pytest.mark.parametrize("way", WAYS)
def test_matrix_norms(way, data, ord, keepdims):
    x = drawn(data)
    if not x.shape[-1] * x.shape[-2]:  # an extreme of nothing is no number
        ord = "fro"
    call = WAYS[way](lambda x: linalg.matrix_norm(x, ord=ord, keepdims=keepdims))
    found = call(x)
    assert found.dtype == x.dtype and found.shape == x.shape[:-2] + (1, 1) * keepdims
    expected = np.linalg.matrix_norm(x.astype(float), ord=ord, keepdims=keepdims)
    np.testing.assert_allclose(found, expected, atol=20 * eps(x))
    check_each(call, x, (found,))


@few
@given(data=st.data(), n=st.integers(-6, 12))
@pytest.mark.parametrize("way", WAYS)
def test_powers(way, data, n):
    x = regular(drawn(data, square=True)) / np.float32(16)
    call = WAYS[way](lambda x: linalg.matrix_power(x, n))
    found = call(x)
    assert found.dtype == x.dtype and found.shape == x.shape
    expected = np.linalg.matrix_power(x.astype(float), n)
    size = np.abs(expected).max(initial=1)
    np.testing.assert_allclose(found, expected, atol=10 * eps(x) * size)
    if n == 0:
        np.testing.assert_array_equal(found, expected)
    check_each(call, x, (found,))


@few
@given(data=st.data(), rtol=st.sampled_from([None, 0.1, "each"]))
@pytest.mark.parametrize("way", WAYS)
def test_ranks_and_pseudo_inverses(way, data, rtol):
    x = drawn(data)
    if rtol == "each":
        rtol = np.full(x.shape[:-2], 0.25, x.dtype)
    rank = WAYS[way](lambda x: linalg.matrix_rank(x, rtol=rtol))(x)
    assert rank.dtype.kind == "i" and rank.shape == x.shape[:-2]
    p = WAYS[way](lambda x: linalg.pinv(x, rtol=rtol))(x)
    assert p.dtype == x.dtype and p.shape == turned(x).shape
    for place in np.ndindex(x.shape[:-2]):
        one, cut = x[place].astype(float), rtol[place] if isinstance(rtol, np.ndarray) else rtol
        u, s, vt = np.linalg.svd(one, full_matrices=False)
        cut = max(one.shape) * np.finfo(x.dtype).eps if cut is None else cut
        largest = s.max(initial=0)
        if (np.abs(s - cut * largest) < 1e-5 * largest).any():
            continue  # on the line
        kept = s > cut * largest
        assert rank[place] == kept.sum()
        expected = (vt[kept].T / s[kept]) @ u[:, kept].T
        size = np.abs(expected).max(initial=1)
        np.testing.assert_allclose(p[place], expected, atol=1000 * eps(x) * size**2)


@few
@given(data=st.data(), mode=st.sampled_from(["reduced", "complete"]))
@pytest.mark.parametrize("way", WAYS)
def test_qr(way, data, mode):
    x = drawn(data)
    call = WAYS[way](lambda x: linalg.qr(x, mode=mode))
    found = call(x)
    assert found._fields == ("Q", "R")
    q, r = found
    rows, columns = x.shape[-2:]
    k = rows if mode == "complete" else min(rows, columns)
    assert q.dtype == r.dtype == x.dtype
    assert q.shape == (*x.shape[:-2], rows, k) and r.shape == (*x.shape[:-2], k, columns)
    np.testing.assert_array_equal(r, np.triu(r))
    np.testing.assert_allclose(q @ r, x, atol=20 * eps(x))
    one = np.broadcast_to(np.eye(k), (*x.shape[:-2], k, k))
    np.testing.assert_allclose(turned(q) @ q, one, atol=eps(x))
    check_each(call, x, tuple(found))


@few
@given(data=st.data())
@pytest.mark.parametrize("way", WAYS)
def test_solve(way, data):
    a = regular(drawn(data, square=True))
    n, batch = a.shape[-1], a.shape[:-2]
    call = WAYS[way](linalg.solve)
    for shape in ((n,), (n, 2), (*batch, n, 3), (*(1,) * len(batch), n, 1), (2, *batch, n, 2)):
        b = whole(data, data.draw(FLOATS), *shape)
        x = call(a, b)
        assert x.dtype == np.result_type(a, b)
        right = b[:, None] if b.ndim == 1 else b
        columns = x[..., None] if b.ndim == 1 else x
        assert columns.shape == (*np.broadcast_shapes(batch, right.shape[:-2]), *right.shape[-2:])
        near = 100 * max(eps(a), eps(b))
        np.testing.assert_allclose(a @ columns, np.broadcast_to(right, columns.shape), atol=near)


@few
@given(data=st.data(), full=st.booleans())
@pytest.mark.parametrize("way", WAYS)
def test_singular_values(way, data, full):
    x = drawn(data)
    call = WAYS[way](lambda x: linalg.svd(x, full_matrices=full))
    found = call(x)
    assert found._fields == ("U", "S", "Vh")
    u, s, vt = found
    *batch, rows, columns = x.shape
    k = min(rows, columns)
    assert u.dtype == s.dtype == vt.dtype == x.dtype
    assert u.shape == (*batch, rows, rows if full else k) and s.shape == (*batch, k)
    assert vt.shape == (*batch, columns if full else k, columns)
    assert (s[..., :-1] >= s[..., 1:]).all() and (s >= 0).all()
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ vt[..., :k, :], x, atol=20 * eps(x))
    for y in (turned(u) @ u, vt @ turned(vt)):
        np.testing.assert_allclose(y, np.broadcast_to(np.eye(y.shape[-1]), y.shape), atol=eps(x))
    np.testing.assert_array_equal(WAYS[way](linalg.svdvals)(x), s)
    check_each(call, x, tuple(found))


NORMS = [2, 1, 0, -1, -2, np.inf, -np.inf, 3, -3, 0.5, 7.25, -1.5]


@few
@given(data=st.data(), ord=st.sampled_from(NORMS), keepdims=st.booleans())
@pytest.mark.parametrize("way", WAYS)
def test_vector_norms(way, data, ord, keepdims):
    dtype, rank = data.draw(FLOATS), data.draw(st.integers(1, 3))
    x = whole(data, dtype, *(data.draw(st.integers(1, 3)) for _ in range(rank)))
    axes = [None, *(a for n in range(1, rank + 1) for a in itertools.combinations(range(rank), n))]
    axis = data.draw(st.sampled_from([*axes, rank - 1, -1]))
    found = WAYS[way](lambda x: linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord))(x)
    with np.errstate(divide="ignore"):
        expected = np.linalg.vector_norm(x.astype(float), axis=axis, keepdims=keepdims, ord=ord)
    assert found.dtype == x.dtype and found.shape == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=10 * eps(x))


def test_the_namespace_has_the_whole_extension():
    for name in (
        *("cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul"),
        *("matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr"),
        *("slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"),
    ):
        assert name in linalg.__all__ and callable(getattr(linalg, name))
