"""Folds of transposed operands go along memory, and keep the order of rows."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice

RNG = np.random.default_rng(0)


def layer(x):
    centred = x - dlvm.mean(x, axis=-1, keepdims=True)
    return centred / dlvm.sqrt(dlvm.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


FOLDS = {
    "sum": lambda x: dlvm.sum(x, axis=-1),
    "sum of squares": lambda x: dlvm.sum(x * x + 1, axis=-1),
    "prod": lambda x: dlvm.prod(x * 0.1 + 1, axis=-1),
    "logsumexp": lambda x: dlvm.logsumexp(x, axis=-1),
    "argmax": lambda x: dlvm.argmax(x, axis=-1),
    "two sums": lambda x: dlvm.sum(x, axis=-1) + dlvm.sum(x**3, axis=-1),
    "softmax": lambda x: dlvm.nn.softmax(x, axis=-1),
    "layer norm": layer,
    "with a row": lambda x: dlvm.sum(x * dlvm.arange(x.shape[-1], dtype=x.dtype), axis=-1),
    "with a column": lambda x: dlvm.sum((x - dlvm.max(x, axis=-1, keepdims=True)) ** 2, axis=-1),
    "all axes": lambda x: dlvm.sum(x),
    "kept": lambda x: (dlvm.sum(x * 2, axis=-1), x * 2),
}
TURNS = {
    "a matrix": ((130, 67), (1, 0)),
    "one column": ((1, 67), (1, 0)),
    "a long one": ((5000, 5), (1, 0)),
    "matrices": ((3, 70, 33), (0, 2, 1)),
    "batch behind": ((70, 33, 3), (1, 2, 0)),
    "channels": ((2, 40, 5, 7), (0, 2, 3, 1)),
    "none": ((0, 7), (1, 0)),
}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("name", FOLDS)
def test_the_bits_are_those_of_a_copy(name, turn):
    fold, (shape, perm) = FOLDS[name], TURNS[turn]
    if turn == "none" and name in ("argmax", "with a column", "softmax"):
        pytest.skip("of nothing there is no largest")
    x = RNG.normal(size=shape).astype("f4")
    found = dlvm.function(lambda x: fold(x.transpose(perm)))(x)
    copied = dlvm.function(fold)(np.ascontiguousarray(x.transpose(perm)))
    for a, b in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(copied), strict=True):
        if name == "all axes":  # their order is another
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)
        else:
            assert np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)


@pytest.mark.parametrize("name", ["sum", "logsumexp", "softmax", "layer norm"])
def test_open_sizes(name):
    x = RNG.normal(size=(130, 67)).astype("f4")
    found = dlvm.function(lambda x: FOLDS[name](x.T), dynamic={"x": "N,M"})(x)
    copied = dlvm.function(FOLDS[name])(np.ascontiguousarray(x.T))
    assert np.array_equal(np.asarray(found), np.asarray(copied))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", ["sum", "logsumexp", "argmax", "softmax", "layer norm", "kept"])
@pytest.mark.parametrize("shape", [(130, 67), (5000, 5), (3, 400)])
def test_on_a_gpu(name, shape):
    x = RNG.normal(size=shape).astype("f4")
    with using(EmulatedDevice()):
        found = dlvm.function(lambda x: FOLDS[name](x.T), target="cuda:sm_75")(x)
    copied = dlvm.function(FOLDS[name])(np.ascontiguousarray(x.T))
    for a, b in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(copied), strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("name", ["sum of squares", "logsumexp", "softmax", "layer norm"])
def test_gradients(name):
    def loss(x):
        return dlvm.sum(FOLDS[name](x) ** 2)

    x = RNG.normal(size=(40, 33))
    found = dlvm.function(dlvm.grad(lambda x: loss(x.T)))(x)
    copied = dlvm.function(dlvm.grad(loss))(np.ascontiguousarray(x.T))
    np.testing.assert_allclose(np.asarray(found), np.asarray(copied).T, rtol=1e-12, atol=1e-14)


def kernels(f, shape):
    text = dlvm.function(f).compile(dlvm.spec(f"f32[{','.join(map(str, shape))}]")).text("kernels")
    return str(text)


def test_the_fold_goes_along_the_other_axis():
    text = kernels(lambda s: dlvm.logsumexp(s.T, axis=1), (130, 67))
    assert "permute" not in text
    assert "axes=(0)" in text
    assert "tree" not in text  # that of rows is not printed


def test_transposes_of_a_gradient_cancel():
    text = kernels(dlvm.grad(lambda s: dlvm.sum(dlvm.nn.softmax(s.T, axis=1) ** 2)), (130, 67))
    assert "permute" not in text


def test_columns_become_rows():
    """Their order is that of rows, which loses fewer digits."""
    text = kernels(lambda s: dlvm.sum(s.T, axis=0), (130, 67))
    assert text == kernels(lambda s: dlvm.sum(s, axis=1), (130, 67))


def test_what_is_not_transposed_as_the_rest_is_read_as_before():
    text = kernels(lambda s: dlvm.sum(s.T * s, axis=1), (67, 67))
    assert "permute" in text


def test_orders_are_not_mixed():
    """A sum of columns keeps its own order beside one that was turned."""
    x = RNG.normal(size=(300, 67)).astype("f4")
    both = dlvm.function(lambda x: (dlvm.sum(x, axis=0), dlvm.sum(x.T, axis=1)))(x)
    assert np.array_equal(both[0], dlvm.function(lambda x: dlvm.sum(x, axis=0))(x))
    rows = dlvm.function(lambda x: dlvm.sum(x, axis=1))(np.ascontiguousarray(x.T))
    assert np.array_equal(both[1], rows)
