"""How many kernels well-known programs become, and that they stay right."""

import numpy as np
import pytest

import dlvm

from .road import agree, differences, normal

ROWS, WIDTH = 48, 96


def layer_norm(x, residual, scale, shift):
    x = x + residual
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    return centred / dlvm.sqrt(variance + 1e-5) * scale + shift


def operands(dtype=np.float32, rows=ROWS):
    wide = [normal(rows, WIDTH, dtype=dtype) for _ in range(2)]
    return *wide, normal(WIDTH, dtype=dtype), normal(WIDTH, dtype=dtype)


def test_layer_norm_with_its_residual_is_one_kernel():
    staged, given = dlvm.function(layer_norm), operands()
    assert staged.compile(*given).report.kernels == 1
    np.testing.assert_allclose(staged(*given), layer_norm(*given), rtol=2e-4, atol=2e-5)
    for rows in (0, 1, 7):
        agree(staged, *operands(rows=rows), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_layer_norm_forwards_and_backwards_is_three_kernels(dtype):
    @dlvm.function
    def both(x, residual, scale, shift, seed):
        y, pullback = dlvm.vjp(layer_norm, x, residual, scale, shift)
        return y, pullback(seed)

    given = (*operands(dtype), normal(ROWS, WIDTH, dtype=dtype))
    assert both.compile(*given).report.kernels <= 3
    agree(both, *given, rtol=2e-4, atol=1e-4)


def test_the_gradient_of_a_layer_norm_is_right():
    given, seed = operands(np.float64, rows=3), normal(3, WIDTH, dtype=np.float64)

    def loss(x, residual, scale, shift):
        return (layer_norm(x, residual, scale, shift) * seed).sum()

    found = dlvm.grad(loss, wrt=(0, 1, 2, 3))(*given)
    for i, gradient in enumerate(found):
        expected = differences(lambda v, i=i: loss(*given[:i], v, *given[i + 1 :]), given[i])
        np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-7)


def adam(params, means, squares, gradients, step):
    means = dlvm.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, gradients)
    squares = dlvm.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, gradients)
    params = dlvm.tree.map(
        lambda p, m, v: p - step * m / (dlvm.sqrt(v) + 1e-8), params, means, squares
    )
    return params, means, squares


def moments(shapes):
    return [[np.abs(normal(*shape)) for shape in shapes] for _ in range(4)]


def test_adam_updates_all_parameters_in_one_sweep():
    given = (*moments([(300, 120), (120,), (120, 10), (10,), ()]), np.float32(1e-3))
    staged = dlvm.function(adam)
    assert staged.compile(*given).report.kernels == 1
    agree(staged, *given)
    expected, found = adam(*given), staged(*given)
    for a, b in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_donated_parameters_are_updated_in_place_by_that_one_kernel():
    *given, step = (*moments([(300, 120), (7,)]), np.float32(1e-3))
    staged = dlvm.function(adam, donate=("params", "means", "squares"))
    copies = [[x.copy() for x in part] for part in given]
    compiled = staged.compile(*given, step)
    assert compiled.report.kernels == 1 and compiled.report.peak_bytes < 10_000
    expected = adam(*copies, step)
    for a, b in zip(
        dlvm.tree.leaves(staged(*given, step)), dlvm.tree.leaves(expected), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_large_gradients_do_not_wait_for_one_another():
    """Each parameter of a step is updated as soon as its gradient is there, which then dies."""
    layers = 6

    def loss(weights, x):
        for w in weights:
            x = dlvm.tanh(x @ w)
        return (x * x).mean()

    @dlvm.function(donate=("weights",))
    def step(weights, x):
        gradients = dlvm.grad(loss)(weights, x)
        return dlvm.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = [normal(256, 256) * np.float32(0.05) for _ in range(layers)]
    peak = step.compile(weights, normal(8, 256)).report.peak_bytes
    assert peak < 2.5 * weights[0].nbytes


def test_a_room_is_read_before_its_own_result_is_written():
    """The exponentials are kept in the room of a result that is no function of them."""

    @dlvm.function(dynamic={"x": "B,5"})
    def f(x):
        rest = x - x.max(1, keepdims=True)
        powers = np.exp(rest)
        total = powers.sum(1, keepdims=True)
        return rest, np.log(total), powers * (1 / total)

    x = np.random.default_rng(0).normal(size=(17, 5))
    rest = x - x.max(1, keepdims=True)
    total = np.exp(rest).sum(1, keepdims=True)
    for found, expected in zip(f(x), (rest, np.log(total), np.exp(rest) / total), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)
