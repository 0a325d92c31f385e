"""Convolutions and pooling: what PyTorch and JAX gave, window by window in NumPy, derivatives."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.testing import gradcheck

from . import windows_by_loops as loops
from .stored import convolutions as stored

RNG = np.random.default_rng(8)
STORED = json.loads(stored.FILE.read_text("utf8"))


def options_of(case: stored.Case) -> dict[str, Any]:
    """The options of a case as tuples, in the layout of the library that gave its result."""
    library, name, _, given = case
    found: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    if isinstance(found.get("padding"), tuple):
        found["padding"] = tuple(tuple(p) if isinstance(p, list) else p for p in found["padding"])
    if library == "torch":
        found["layout"] = stored.FIRST
        found |= {"transpose_kernel": True} if name == "conv_transpose" else {}
    return found


def test_a_result_is_stored_for_each_case():
    assert len(STORED) == len(stored.CASES)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("number", range(len(stored.CASES)))
def test_values_and_gradients_are_those_of_other_libraries(number: int):
    case = stored.CASES[number]
    options, xs = options_of(case), stored.arrays(case)
    expected = [np.reshape(numbers, shape) for shape, numbers in STORED[number]]
    seed = stored.drawn(expected[0].shape, 0.1)

    def f(*xs: Any) -> Any:
        return getattr(nn, case[1])(*xs, **options)

    wrt = tuple(range(len(xs)))
    gradients = dlvm.grad(lambda *xs: (f(*xs) * seed).sum(), wrt=wrt)(*xs)
    for found in (dlvm.function(f)(*xs), f(*xs)):
        np.testing.assert_allclose(found, expected[0], rtol=1e-11, atol=1e-11)
    for found, want in zip(gradients, expected[1:], strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-11, atol=1e-11)


# -- window by window -----------------------------------------------------------------------------


def some(rng: np.random.Generator, count: int, low: int, high: int) -> Any:
    """One number, or one for each axis."""
    row = tuple(int(n) for n in rng.integers(low, high + 1, count))
    return row[0] if rng.integers(2) else row


def drawn_conv(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Images, weights and options whose windows fit."""
    count, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    dilation, inner = some(rng, count, 1, 2), some(rng, count, 1, 2)
    window = tuple(int(n) for n in rng.integers(1, 4, count))
    spans = [(n - 1) * d + 1 for n, d in zip(window, loops.each(dilation, count), strict=True)]
    space = tuple(n + int(rng.integers(0, 3)) for n in spans)
    pairs = tuple((int(rng.integers(0, 3)), int(rng.integers(0, 3))) for _ in spans)
    named = ["SAME", "SAME_LOWER", "VALID"]
    padding = pairs if rng.integers(2) else named[int(rng.integers(3))]
    x = rng.normal(size=(int(rng.integers(0, 3)), *space, 2 * groups))
    w = rng.normal(size=(*window, 2, groups * int(rng.integers(1, 3))))
    options = {"stride": some(rng, count, 1, 3), "dilation": dilation, "padding": padding}
    return x, w, {**options, "input_dilation": inner, "groups": groups}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(24))
def test_convolutions_are_sums_over_windows(seed: int):
    x, w, options = drawn_conv(np.random.default_rng(seed))
    expected = loops.conv(x, w, **options)
    found = dlvm.function(lambda x, w: nn.conv(x, w, **options))(x, w)
    assert found.shape == expected.shape, options
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    first = nn.conv(
        np.moveaxis(x, -1, 1),
        np.moveaxis(w, (-1, -2), (0, 1)),
        **options,
        layout="channels_first",
    )
    np.testing.assert_allclose(np.moveaxis(first, 1, -1), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_a_transposed_convolution_adds_windows(seed: int):
    rng = np.random.default_rng(seed)
    count, groups = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    window = tuple(int(n) for n in rng.integers(1, 4, count))
    x = rng.normal(size=(2, *(int(n) for n in rng.integers(3, 5, count)), 2 * groups))
    w = rng.normal(size=(*window, int(rng.integers(1, 3)), 2 * groups))
    stride, dilation = some(rng, count, 1, 3), some(rng, count, 1, 2)
    options = {"stride": stride, "dilation": dilation, "groups": groups}
    options["padding"] = some(rng, count, 0, 1)
    expected = loops.conv_transpose(x, w, **options)
    found = dlvm.function(lambda x, w: nn.conv_transpose(x, w, **options, transpose_kernel=True))
    np.testing.assert_allclose(found(x, w), expected, rtol=1e-12, atol=1e-12)


def test_a_transposed_convolution_is_the_gradient_of_a_convolution():
    w, dy = RNG.normal(size=(3, 3, 2, 4)), RNG.normal(size=(2, 4, 4, 4))
    options = {"stride": 2, "padding": ((1, 0), (0, 1))}
    x = np.zeros((2, 8, 8, 2))
    dx = dlvm.grad(lambda x: (nn.conv(x, w, **options) * dy).sum())(x)
    up = nn.conv_transpose(dy, w, **options, transpose_kernel=True)
    np.testing.assert_allclose(up, dx, rtol=1e-12, atol=1e-12)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(12))
def test_pools_are_folds_of_windows(seed: int):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 4))
    window = some(rng, count, 1, 3)
    x = rng.normal(size=(2, *(int(n) for n in rng.integers(5, 8, count)), 2))
    stride = some(rng, count, 1, 3) if rng.integers(2) else None
    padding = ["SAME", "VALID", 1][int(rng.integers(3))]
    dilation = some(rng, count, 1, 2)
    found = dlvm.function(lambda x: nn.max_pool(x, window, stride, padding, dilation))(x)
    np.testing.assert_array_equal(found, loops.max_pool(x, window, stride, padding, dilation))
    if padding == 1:
        window = loops.each(window, count)
        window = tuple(max(n, 2) for n in window)  # or a window may hold nothing but padding
    for counted in (True, False):
        found = dlvm.function(lambda x, c=counted: nn.avg_pool(x, window, stride, padding, c))(x)
        expected = loops.avg_pool(x, window, stride, padding, counted)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


def test_a_pool_of_nothing_but_negative_numbers_ignores_the_padding():
    x = np.full((1, 3, 1), -2.0)
    assert nn.max_pool(x, 3, 1, "SAME").tolist() == x.tolist()
    assert nn.max_pool(x.astype(np.int8), 3, 1, "SAME").tolist() == x.tolist()


def test_pools_have_the_channels_where_the_layout_says():
    x = RNG.normal(size=(2, 3, 6, 4))
    for pool in (nn.max_pool, nn.avg_pool):
        first = pool(np.moveaxis(x, -1, 1), (2, 3), 1, ((1, 0), (0, 0)), layout="channels_first")
        last = pool(x, (2, 3), 1, ((1, 0), (0, 0)))
        np.testing.assert_allclose(np.moveaxis(first, 1, -1), last, rtol=1e-13, atol=1e-15)


# -- edges ----------------------------------------------------------------------------------------


def test_a_window_of_one_place_is_a_product():
    x, w = RNG.normal(size=(2, 4, 5, 3)), RNG.normal(size=(1, 1, 3, 2))
    np.testing.assert_allclose(dlvm.function(nn.conv)(x, w), x @ w[0, 0], rtol=1e-13)


def test_a_window_of_the_whole_image_is_one_sum():
    x, w = RNG.normal(size=(2, 4, 5, 3)), RNG.normal(size=(4, 5, 3, 2))
    found = dlvm.function(lambda x, w: nn.conv(x, w, padding="VALID"))(x, w)
    np.testing.assert_allclose(found[:, 0, 0], np.tensordot(x, w, 3), rtol=1e-12)
    np.testing.assert_allclose(nn.avg_pool(x, (4, 5))[:, 0, 0], x.mean((1, 2)), rtol=1e-13)


def test_no_images_give_no_images_and_no_gradient():
    x, w = np.zeros((0, 5, 5, 2)), RNG.normal(size=(3, 3, 2, 4))
    assert dlvm.function(nn.conv)(x, w).shape == (0, 5, 5, 4)
    assert not dlvm.grad(lambda w: nn.conv(x, w).sum())(w).any()
    assert nn.max_pool(x, 2).shape == (0, 2, 2, 2)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_every_float_keeps_its_type_and_is_summed_widely(dtype: Any):
    x, w = (RNG.normal(size=s).astype(dtype) for s in ((2, 6, 6, 3), (3, 3, 3, 4)))
    wide = loops.conv(x.astype(np.float64), w.astype(np.float64), stride=2)
    found = dlvm.function(lambda x, w: nn.conv(x, w, stride=2))(x, w)
    assert found.dtype == dtype
    size = loops.conv(np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)), stride=2)
    assert_rounded(found, wide, 27 * size, dtype)
    assert nn.max_pool(x, 2).dtype == nn.avg_pool(x, 2).dtype == dtype
    mean, size = (loops.avg_pool(f(x.astype(np.float64)), 2) for f in (np.positive, np.abs))
    assert_rounded(nn.avg_pool(x, 2), mean, 5 * size, dtype)


def assert_rounded(found: Any, exact: Any, steps: Any, dtype: Any) -> None:
    """Sums of numbers of together ``steps`` in f32 or wider, rounded once to the type."""
    last, inside = (float(ml_dtypes.finfo(t).eps) for t in (dtype, summed_in(dtype)))
    assert (np.abs(found.astype(np.float64) - exact) <= last * np.abs(exact) + inside * steps).all()


def summed_in(dtype: Any) -> Any:
    return np.float32 if np.dtype(dtype).itemsize == 2 else dtype


def test_whole_numbers_are_convolved_exactly():
    x, w = RNG.integers(-9, 9, (2, 5, 3)), RNG.integers(-9, 9, (3, 3, 2))
    np.testing.assert_array_equal(dlvm.function(nn.conv)(x, w), loops.conv(x, w))


# -- narrow groups --------------------------------------------------------------------------------


def drawn_narrow(rng: np.random.Generator) -> tuple[Any, Any, dict[str, Any]]:
    """Images, weights and options of a convolution whose groups have one or two channels."""
    x, w, options = drawn_conv(rng)
    inside = int(rng.integers(1, 3))
    groups = int(rng.integers(2, 5)) if inside == 1 else int(rng.integers(7, 10))
    x = rng.normal(size=(*x.shape[:-1], groups * inside))
    w = rng.normal(size=(*w.shape[:-2], inside, groups * int(rng.integers(1, 4))))
    return x, w, {**options, "groups": groups}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(24))
def test_narrow_groups_are_sums_over_windows(seed: int):
    rng = np.random.default_rng(seed)
    x, w, options = drawn_narrow(rng)
    expected = loops.conv(x, w, **options)
    found = dlvm.function(lambda x, w: nn.conv(x, w, **options))(x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    first = {**options, "layout": "channels_first"}
    turned = np.moveaxis(x, -1, 1), np.moveaxis(w, (-1, -2), (0, 1))
    np.testing.assert_allclose(
        np.moveaxis(dlvm.function(lambda x, w: nn.conv(x, w, **first))(*turned), 1, -1),
        expected,
        rtol=1e-12,
        atol=1e-12,
    )
    dy = rng.normal(size=expected.shape)
    loss = dlvm.grad(lambda x, w: (nn.conv(x, w, **options) * dy).sum(), wrt=(0, 1))
    dx, dw = dlvm.function(loss)(x, w)
    vx, vw = rng.normal(size=x.shape), rng.normal(size=w.shape)
    by_x, by_w = loops.conv(vx, w, **options), loops.conv(x, vw, **options)
    np.testing.assert_allclose((dx * vx).sum(), (dy * by_x).sum(), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((dw * vw).sum(), (dy * by_w).sum(), rtol=1e-10, atol=1e-10)


def products(x: Any, w: Any, **options: Any) -> int:
    return str(dlvm.function(lambda x, w: nn.conv(x, w, **options)).trace(x, w)).count("matmul")


def test_narrow_groups_are_written_out_and_others_are_products():
    x, w = RNG.normal(size=(1, 9, 9, 16)), RNG.normal(size=(3, 3, 1, 16))
    assert products(x, w, groups=16) == 0
    assert products(x, RNG.normal(size=(3, 3, 2, 8)), groups=8) == 0
    assert products(x, RNG.normal(size=(3, 3, 4, 4)), groups=4) == 1
    assert products(x[..., :8], RNG.normal(size=(3, 3, 2, 4)), groups=4) == 1, "of few groups"
    assert products(x, RNG.normal(size=(9, 9, 1, 16)), groups=16) == 1, "of many taps"
    up = dlvm.function(lambda x, w: nn.conv_transpose(x, w, 2, groups=16)).trace(x, w)
    assert "matmul" not in str(up)


@pytest.mark.parametrize("size", [1, 3])
def test_what_follows_a_convolution_with_channels_first_is_computed_in_its_product(size: int):
    """It was three kernels: the product, what turns it, and what follows."""

    def layer(x: Any, w: Any, b: Any, y: Any) -> Any:
        found = dlvm.nn.conv(x, w, padding=size // 2, layout="channels_first")
        return dlvm.clip(found + b[:, None, None], 0, 6) + y

    x, w, b, y = (
        RNG.normal(size=s) for s in ((1, 8, 20, 20), (12, 8, size, size), (12,), (1, 12, 20, 20))
    )
    compiled = dlvm.function(layer).compile(x, w, b, y)
    text = compiled.text("kernels")
    assert text.count("= matmul") == 1
    assert text.count(" kernel ") == (1 if size == 1 else 2)  # weights are turned for 3 x 3
    expected = layer(x, w, b, y)
    np.testing.assert_allclose(compiled(x, w, b, y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("size", [7, 24])
def test_the_order_of_channels_changes_no_bit(batch: int, groups: int, size: int):
    x, w = (RNG.normal(size=s) for s in ((batch, 8, size, size), (34, 8 // groups, 3, 3)))
    options: dict[str, Any] = {"stride": (2, 1), "padding": 1, "groups": groups}
    first = dlvm.function(lambda x, w: dlvm.nn.conv(x, w, layout="channels_first", **options))
    last = dlvm.function(lambda x, w: dlvm.nn.conv(x, w, **options))
    found = last(x.transpose(0, 2, 3, 1).copy(), w.transpose(2, 3, 1, 0).copy())
    np.testing.assert_array_equal(first(x, w), found.transpose(0, 3, 1, 2))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_narrow_groups_of_every_float_are_summed_widely(dtype: Any):
    x, w = (RNG.normal(size=s).astype(dtype) for s in ((2, 6, 6, 3), (3, 3, 1, 6)))
    for layout in ("channels_last", "channels_first"):
        if layout == "channels_first":
            x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, (-1, -2), (0, 1))
        options: Any = {"groups": 3, "layout": layout}
        wide = loops.conv(x.astype(np.float64), w.astype(np.float64), **options)
        found = dlvm.function(lambda x, w, options=options: nn.conv(x, w, **options))(x, w)
        assert found.dtype == dtype
        size = loops.conv(np.abs(x.astype(np.float64)), np.abs(w.astype(np.float64)), **options)
        assert_rounded(found, wide, 9 * size, dtype)


def test_narrow_groups_of_whole_numbers_are_exact():
    x, w = RNG.integers(-9, 9, (2, 5, 3)), RNG.integers(-9, 9, (3, 1, 6))
    found = dlvm.function(lambda x, w: nn.conv(x, w, groups=3))(x, w)
    np.testing.assert_array_equal(found, loops.conv(x, w, groups=3))


def test_narrow_groups_of_no_image_and_of_one_place():
    w = RNG.normal(size=(3, 1, 4))
    for shape in ((0, 5, 4), (2, 1, 4)):
        x = RNG.normal(size=shape)
        for stride in (1, 2):
            loss = dlvm.value_and_grad(lambda w, x, s=stride: nn.conv(x, w, s, groups=4).sum())
            value, dw = dlvm.function(loss)(w, x)
            np.testing.assert_allclose(value, loops.conv(x, w, stride, groups=4).sum(), rtol=1e-12)
            assert dw.shape == w.shape and (dw != 0).any() == (x.size > 0)


def test_derivatives_of_narrow_groups():
    x, w = RNG.normal(size=(2, 4, 5, 2)), RNG.normal(size=(3, 2, 1, 4))
    gradcheck(lambda x, w: (nn.conv(x, w, stride=2, groups=2) ** 3).sum(), x, w, order=2)


def test_batches_and_open_sizes_of_narrow_groups():
    x, w = RNG.normal(size=(3, 5, 2)), RNG.normal(size=(4, 3, 1, 4))
    found = dlvm.vmap(lambda w: nn.conv(x, w, stride=2, groups=2))(w)
    expected = [loops.conv(x, v, 2, groups=2) for v in w]
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-12, atol=1e-13)
    for stride in (1, 2):
        conv = lambda x, w, stride=stride: nn.conv(x, w, stride, groups=2)  # noqa: E731
        f = dlvm.function(conv, dynamic={"x": "B,N,2"})
        slope = dlvm.grad(lambda x, w, conv=conv: (conv(x, w) ** 2).sum())
        g = dlvm.function(slope, dynamic={"x": "B,N,2"})
        for shape in ((0, 4, 2), (2, 1, 2), (1, 7, 2)):
            x = RNG.normal(size=shape)
            want = loops.conv(x, w[0], stride, groups=2)
            np.testing.assert_allclose(f(x, w[0]), want, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(g(x, w[0]), slope(x, w[0]), rtol=1e-12, atol=1e-13)


# -- derivatives, batches, open sizes -------------------------------------------------------------

CURVED: dict[str, Any] = {
    "strided": lambda x, w: nn.conv(x, w, stride=2) ** 3,
    "dilated": lambda x, w: nn.conv(x, w, dilation=2, padding=((1, 2), (0, 1))) ** 3,
    "input dilated": lambda x, w: nn.conv(x, w, input_dilation=2, padding="VALID") ** 3,
    "in groups": lambda x, w: nn.conv(dlvm.concat([x, x], -1), w, groups=2) ** 3,
    "transposed": lambda x, w: nn.conv_transpose(x, w, 2, padding=1) ** 3,
    "pooled": lambda x, w: nn.avg_pool(nn.conv(x, w), 2, 1, "SAME", False) ** 3,
    "pooled by the largest": lambda x, w: nn.max_pool(nn.conv(x, w) ** 3, 2, 1, 1),
}


@pytest.mark.parametrize("name", CURVED)
def test_derivatives_of_first_and_second_order(name: str, in_depth: bool):
    """The references of all; machine code of a third."""
    x, w = RNG.normal(size=(2, 4, 5, 2)), RNG.normal(size=(3, 2, 2, 2))
    gradcheck(lambda x, w: CURVED[name](x, w).sum(), x, w, order=2, compiled=in_depth)


def test_derivatives_of_windows_of_many_taps():
    x, w = RNG.normal(size=(1, 8, 7, 1)), RNG.normal(size=(6, 6, 1, 2))
    gradcheck(lambda x, w: (nn.conv(x, w, stride=2) ** 3).sum(), x, w, order=2)


def test_batches_of_images_and_of_weights():
    x, w = RNG.normal(size=(3, 5, 2)), RNG.normal(size=(4, 3, 2, 2))
    by_weights = dlvm.vmap(lambda w: nn.conv(x, w, stride=2))(w)
    np.testing.assert_allclose(
        by_weights, np.stack([nn.conv(x, v, stride=2) for v in w]), rtol=1e-13, atol=1e-13
    )
    both = dlvm.vmap(lambda x, w: nn.conv(x[None], w))(x, w[:3])
    expected = np.stack([nn.conv(a[None], v) for a, v in zip(x, w[:3], strict=True)])
    np.testing.assert_allclose(both, expected, rtol=1e-13, atol=1e-13)
    pooled = dlvm.vmap(lambda x: nn.max_pool(x[None], 2)[0])(x)
    np.testing.assert_array_equal(pooled, nn.max_pool(x, 2))


def test_the_number_of_images_may_be_open():
    w = RNG.normal(size=(3, 3, 1, 2))
    net = lambda x, w: nn.max_pool(nn.conv(x, w), 2)  # noqa: E731
    f = dlvm.function(net, dynamic={"x": "B,6,6,1"})
    g = dlvm.function(dlvm.grad(lambda w, x: (net(x, w) ** 2).sum()), dynamic={"x": "B,6,6,1"})
    for size in (0, 1, 5):
        x = RNG.normal(size=(size, 6, 6, 1))
        np.testing.assert_allclose(f(x, w), loops.max_pool(loops.conv(x, w), 2), rtol=1e-12)
        expected = dlvm.grad(lambda w, x=x: (net(x, w) ** 2).sum())(w)
        np.testing.assert_allclose(g(w, x), expected, rtol=1e-11, atol=1e-12)


def test_the_size_of_the_images_may_be_open():
    w = RNG.normal(size=(3, 1, 2))
    f = dlvm.function(lambda x: nn.conv(x, w), dynamic={"x": "1,N,1"})
    g = dlvm.function(lambda x: nn.conv(x, w, 2, "VALID"), dynamic={"x": "1,N+3,1"})
    slope = dlvm.grad(lambda x: (nn.conv(x, w, 2) ** 2).sum())
    h = dlvm.function(slope, dynamic={"x": "1,N,1"})
    for size in (3, 4, 9):
        x = RNG.normal(size=(1, size, 1))
        np.testing.assert_allclose(f(x), loops.conv(x, w), rtol=1e-12)
        np.testing.assert_allclose(g(x), loops.conv(x, w, 2, "VALID"), rtol=1e-12)
        np.testing.assert_allclose(h(x), slope(x), rtol=1e-12, atol=1e-13)


# -- errors ---------------------------------------------------------------------------------------

X, W = np.ones((1, 6, 6, 4)), np.ones((3, 3, 4, 2))
WRONG: dict[str, tuple[Any, str]] = {
    "rank": (lambda: nn.conv(X[0], W), r"as many of each, found \(6, 6, 4\) and \(3, 3, 4, 2\)"),
    "channels": (lambda: nn.conv(X[..., :3], W), "3 channels in 1 groups .* from 4 to 2"),
    "groups": (lambda: nn.conv(X, W[:, :, :2, :1], groups=2), "from 2 to 1"),
    "no groups": (lambda: nn.conv(X, W, groups=True), "expected groups of 1 or more, found True"),
    "too large": (lambda: nn.conv(X[:, :2], W, padding="VALID"), "over 3 places does not fit"),
    "dilated": (lambda: nn.conv(X, W, dilation=3, padding=0), "over 7 places .* axis 0 of 6"),
    "stride": (lambda: nn.conv(X, W, stride=0), "expected stride of one whole number, 1 or more"),
    "strides": (lambda: nn.conv(X, W, stride=(1, 2, 3)), r"found \(1, 2, 3\)"),
    "padding": (lambda: nn.conv(X, W, padding="FULL"), "found 'FULL'"),
    "pairs": (lambda: nn.conv(X, W, padding=((1, 2, 3), 0)), "a pair of numbers for each of 2"),
    "half": (lambda: nn.conv(X, W, padding=0.5), "found 0.5"),
    "layout": (lambda: nn.conv(X, W, layout="NCHW"), "layout 'channels_last', 'channels_first' or"),
    "reversed": (lambda: nn.conv_transpose(X, W, padding="SAME_LOWER"), "found 'SAME_LOWER'"),
    "pool": (lambda: nn.max_pool(X, 7), "max_pool: a window over 7 places does not fit"),
    "pooled rank": (lambda: nn.avg_pool(X[0, 0], 2), "avg_pool: expected a batch axis"),
    "pool layout": (lambda: nn.max_pool(X, 2, layout="NHWC"), "expected layout 'channels_last' or"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_in_words(name: str):
    call, words = WRONG[name]
    with pytest.raises(dlvm.UserError, match=words) as caught:
        call()
    assert "help: " in str(caught.value)


def test_options_may_be_numbers_of_numpy():
    two = np.int64(2)
    found = nn.conv(X, W, stride=two, padding=[(two, 1), 0], groups=np.int32(1))
    np.testing.assert_array_equal(found, nn.conv(X, W, stride=2, padding=((2, 1), 0)))


def test_orders_of_axes_are_named_as_in_jax():
    x, w = RNG.normal(size=(2, 4, 5, 3)), RNG.normal(size=(3, 2, 3, 6))
    found = nn.conv(np.moveaxis(x, 0, 2), w.T, layout=("HWNC", "OIWH", "CNHW"))
    np.testing.assert_allclose(np.moveaxis(found, 0, -1), nn.conv(x, w), rtol=1e-12, atol=1e-12)
