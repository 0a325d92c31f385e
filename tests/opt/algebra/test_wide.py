"""Products that share an operand, or are computed piece by piece, become one: where that pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlvm
from dlvm.ir import Op
from dlvm.ops import Concat, Matmul, Scan, Slice
from dlvm.opt.algebra.pieces.joined_products import LAW
from tests.opt.test_rules import prove

RNG = np.random.default_rng(0)


def drawn(*shape: int, dtype: Any = np.float64) -> np.ndarray:
    """Whole numbers, whose products are exact in every order."""
    return RNG.integers(-3, 4, shape).astype(dtype)


def operations(call: Any, *arrays: Any, kind: type[Op] = Matmul, **options: Any) -> int:
    """How many operations of a class the optimised program holds, in loops too."""
    main = dlvm.function(call, **options).compile(*arrays).road.optimized.main
    return sum(isinstance(op, kind) for op in main.walk())


# -- windows of one array ------------------------------------------------------------------------


def columns(x: Any, w: Any, count: int = 4) -> Any:
    n = w.shape[1] // count
    return [x @ w[:, i * n : (i + 1) * n] for i in range(count)]


def rows(w: Any, x: Any, count: int = 4) -> Any:
    n = w.shape[0] // count
    return [w[i * n : (i + 1) * n] @ x for i in range(count)]


def turned(x: Any, w: Any) -> Any:
    n = w.shape[0] // 4
    return [x @ w[i * n : (i + 1) * n].T for i in range(4)]


def tangents(x: Any, w: Any) -> Any:
    return [dlvm.tanh(y) for y in columns(x, w)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (columns, ((256, 64), (64, 32))),
        (columns, ((257, 61), (61, 12))),
        (rows, ((32, 64), (64, 256))),
        (turned, ((256, 64), (32, 64))),
    ],
)
def test_products_with_neighbouring_windows_are_one(call: Any, shapes: Any, dtype: Any):
    arrays = [drawn(*s, dtype=dtype) for s in shapes]
    f = dlvm.function(call)
    for found, expected in zip(f(*arrays), call(*arrays), strict=True):
        np.testing.assert_array_equal(found, expected)
    if dtype is not np.int32:
        assert operations(call, *arrays) == 1
        assert operations(call, *arrays, numerics="strict") == 4


def test_windows_that_leave_something_out_are_as_many_products_as_runs():
    def gaps(x: Any, w: Any) -> Any:
        return [x @ w[:, 8 * i : 8 * i + 8] for i in (0, 1, 3, 4)]

    x, w = drawn(512, 64), drawn(64, 40)
    assert operations(gaps, x, w) == 2
    for found, expected in zip(dlvm.function(gaps)(x, w), gaps(x, w), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (columns, ((1, 64), (64, 256))),  # the weights are read once in any case
        (columns, ((256, 64), (64, 1024))),  # wide enough as they are
        (tangents, ((64, 8), (8, 64))),  # each formula would need a loop of its own
    ],
)
def test_wide_products_that_cost_more_are_not_made(call: Any, shapes: Any):
    assert operations(call, *(drawn(*s) for s in shapes)) == 4


@settings(max_examples=20)
@given(st.data())
def test_part_of_wide_product_holds(data: Any):
    prove(LAW, data.draw)


def test_explain_names_the_law():
    f = dlvm.function(columns)
    f(drawn(256, 64), drawn(64, 32))
    assert any("part_of_wide_product" in law for law in f.explain(laws=True).laws)


# -- what is the same on every trip --------------------------------------------------------------


def gates(h: Any, c: Any, xs: Any, weights: Any, transposed: bool = False) -> Any:
    """An LSTM whose gates have weights of their own."""

    def step(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = (h @ (w.T if transposed else w) for w in weights)
        c = dlvm.sigmoid(f + x) * c + dlvm.sigmoid(i + x) * dlvm.tanh(g + x)
        h = dlvm.sigmoid(o + x) * dlvm.tanh(c)
        return (h, c), h

    return dlvm.scan(step, (h, c), xs)[1]


def given_to_gates(rows: int, n: int, trips: int) -> tuple[Any, ...]:
    h, c = RNG.normal(size=(2, rows, n))
    return h, c, RNG.normal(size=(trips, rows, n)), tuple(RNG.normal(size=(4, n, n)) / n)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("sizes", [(1, 64, 32), (8, 64, 32), (3, 17, 50), (1, 1, 40)])
def test_the_gates_of_a_loop_are_one_product(sizes: tuple[int, int, int], transposed: bool):
    arrays = given_to_gates(*sizes)

    def call(h: Any, c: Any, xs: Any, weights: Any) -> Any:
        return gates(h, c, xs, weights, transposed)

    optimised = dlvm.function(call).compile(*arrays).road.optimized.main
    (loop,) = (op for op in optimised.ops if isinstance(op, Scan))
    assert sum(isinstance(op, Matmul) for op in loop.body.ops) == 1 or sizes[1] == 1
    assert sum(isinstance(op, Concat) for op in optimised.ops) == 1 or sizes[1] == 1
    expected = dlvm.function(call, numerics="strict")(*arrays)
    np.testing.assert_allclose(dlvm.function(call)(*arrays), expected, rtol=1e-12, atol=1e-13)


def test_gradients_of_gates_agree_and_have_fewer_products():
    arrays = given_to_gates(1, 64, 16)

    def loss(h: Any, c: Any, xs: Any, weights: Any) -> Any:
        return (gates(h, c, xs, weights) ** 2).sum()

    both = [
        dlvm.function(dlvm.grad(loss, wrt=(0, 2, 3)), numerics=n) for n in ("default", "strict")
    ]
    found, expected = (dlvm.tree.leaves(f(*arrays)) for f in both)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    counts = [
        operations(dlvm.grad(loss, wrt=(0, 2, 3)), *arrays, numerics=n)
        for n in ("default", "strict")
    ]
    assert counts[0] <= counts[1] - 3


@pytest.mark.parametrize("sizes", [(32, 128, 64), (1, 64, 1)])
def test_gates_that_one_product_would_not_pay_for_stay_apart(sizes: tuple[int, int, int]):
    """Of large products the width is enough; of a single trip the copy is as large as the rest."""
    assert operations(gates, *given_to_gates(*sizes)) == 4


# -- pieces that are computed alike --------------------------------------------------------------


def stacked(x: Any, w: Any) -> Any:
    return dlvm.stack([x[i] @ w[i] for i in range(len(x))])


def shared(x: Any, w: Any) -> Any:
    return dlvm.concat([x[0] @ w[i] for i in range(len(w))], axis=1)


def turned_pieces(x: Any, w: Any) -> Any:
    return dlvm.concat([(x[i] @ w[i]).T for i in range(len(x))], axis=0)


def heads(q: Any, k: Any, v: Any, count: int = 4) -> Any:
    """Attention, head by head."""
    n = q.shape[1] // count
    found: list[Any] = []
    for i in range(count):
        part = slice(i * n, i * n + n)
        found.append(dlvm.nn.softmax(q[:, part] @ k[:, part].T) @ v[:, part])
    return dlvm.concat(found, axis=1)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.float16])
@pytest.mark.parametrize("call", [stacked, shared, turned_pieces])
@pytest.mark.parametrize("sizes", [(4, 8, 8, 8), (3, 5, 7, 11), (2, 1, 3, 1), (4, 0, 3, 2)])
def test_products_of_parts_are_one_product_without_a_copy(call: Any, sizes: Any, dtype: Any):
    count, m, k, n = sizes
    x, w = drawn(count, m, k, dtype=dtype), drawn(count, k, n, dtype=dtype)
    np.testing.assert_array_equal(dlvm.function(call)(x, w), call(x, w))
    if dtype is np.float64 and m > 1:
        assert operations(call, x, w) == 1
        assert operations(call, x, w, kind=Concat) == 0
        assert operations(call, x, w, numerics="strict") == count


@pytest.mark.parametrize("special", [np.nan, np.inf, -0.0])
def test_special_values_stay_in_their_piece(special: float):
    x, w = drawn(4, 8, 8), drawn(4, 8, 8)
    x[1, 2, 3] = special
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(dlvm.function(stacked)(x, w), stacked(x, w))


def test_pieces_in_another_order_or_of_unlike_formulas_stay_apart():
    x, w = drawn(4, 8, 8), drawn(4, 8, 8)

    def backwards(x: Any, w: Any) -> Any:
        return dlvm.stack([x[3 - i] @ w[i] for i in range(4)])

    def unlike(x: Any, w: Any) -> Any:
        return dlvm.stack([x[0] @ w[0], x[1] @ w[1] * 2.0, x[2] @ w[2], x[3] @ w[3]])

    for call in (backwards, unlike):
        assert operations(call, x, w) == 4
        np.testing.assert_array_equal(dlvm.function(call)(x, w), call(x, w))


@pytest.mark.parametrize("sizes", [(32, 64), (5, 12), (1, 4)])
def test_heads_of_attention_and_their_gradient_are_batched(sizes: tuple[int, int]):
    q, k, v = (RNG.normal(size=sizes) for _ in range(3))

    def loss(q: Any, k: Any, v: Any) -> Any:
        return (heads(q, k, v) ** 2).sum()

    for call in (heads, dlvm.grad(loss, wrt=(0, 1, 2))):
        found, expected = (dlvm.function(call, numerics=n)(q, k, v) for n in ("default", "strict"))
        for a, b in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
        if sizes[0] > 1:
            assert operations(call, q, k, v) <= 6
            assert operations(call, q, k, v, kind=Slice) == 0


def test_an_explanation_names_products_of_parts():
    f = dlvm.function(stacked)
    f(drawn(4, 8, 8), drawn(4, 8, 8))
    assert any("products_of_parts" in law for law in f.explain(laws=True).laws)


PIECES = st.tuples(*(st.integers(1, n) for n in (4, 5, 5, 5)), *(st.booleans() for _ in range(4)))


@settings(max_examples=12)
@given(PIECES, st.integers(0, 1))
def test_drawn_loops_over_pieces_mean_what_they_say(drawn_sizes: Any, axis: int):
    count, m, k, n, by_columns, turn, one, outside = drawn_sizes
    x = drawn(m, count * k) if by_columns else drawn(count, m, k)
    w, extra = drawn(count, k, n), drawn(m, n)

    def call(x: Any, w: Any, extra: Any) -> Any:
        found: list[Any] = []
        for i in range(count):
            left = x[:, i * k : (i + 1) * k] if by_columns else x[i]
            y = left @ (w[0] if one else w[i]) + extra
            found.append((y * y).T if turn else y)
        whole = dlvm.concat(found, axis=axis)
        return (whole, found[0]) if outside else whole

    loss = dlvm.grad(lambda *a: sum((y * y).sum() for y in dlvm.tree.leaves(call(*a))), wrt=(0, 1))
    for f in (call, loss):
        found, expected = (dlvm.function(f, numerics=n)(x, w, extra) for n in ("default", "strict"))
        for a, b in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(a, b)
        if f is call:
            unstaged = dlvm.tree.leaves(call(x, w, extra))[0]
            np.testing.assert_array_equal(dlvm.tree.leaves(found)[0], unstaged)


# -- windows that are written one by one ---------------------------------------------------------


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_windows_that_are_filled_one_by_one_are_joined(order: tuple[int, ...]):
    def filled(x: Any) -> Any:
        y = dlvm.zeros((9, 4), x.dtype)
        for i in order:
            y[3 * i : 3 * i + 3] = x[i] * 2.0
        return y

    x = drawn(3, 3, 4)
    np.testing.assert_array_equal(dlvm.function(filled)(x), x.reshape(9, 4) * 2)
    text = str(dlvm.function(filled).compile(x).text("optimized"))
    assert "update" not in text
