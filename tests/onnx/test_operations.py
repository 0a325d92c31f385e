"""Operations for which the suite has no case, and networks of open sizes beside ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_load import NODE, WHOLE, by_runtime, drawn, made, value


def close(data: bytes, **given: Any) -> dlvm.onnx.Model:
    """A model gives what ONNX Runtime gives, with one program for all sizes."""
    m = dlvm.onnx.load(data)
    for found, expected in zip(m(**given), by_runtime(data, **given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return m


def test_a_separable_convolution_of_an_open_batch():
    nodes = [
        NODE("Conv", ["x", "a"], ["p"]),
        NODE("Relu", ["p"], ["q"]),
        NODE("Conv", ["q", "b", "c"], ["r"], group=6, pads=[1] * 4, strides=[2, 2]),
        NODE("Conv", ["r", "d"], ["y"]),
    ]
    weights = {
        "a": drawn(6, 3, 1, 1),
        "b": drawn(12, 1, 3, 3),
        "c": drawn(12),
        "d": drawn(4, 12, 1, 1),
    }
    data = made(nodes, [value("x", "n", 3, 7, 6)], [value("y", "n", 4, 4, 3)], **weights)
    m = close(data, x=drawn(2, 3, 7, 6))
    assert str(m.trace(drawn(2, 3, 7, 6))).count("matmul") == 2, "of the windows of one place"


@pytest.mark.parametrize("p", [1, 2, 3])
def test_the_norm_of_a_whole_image(p: int):
    nodes = [NODE("GlobalLpPool", ["x"], ["y"], p=p)]
    close(made(nodes, [value("x", 2, 3, 4, 5)], [value("y", 2, 3, 1, 1)]), x=drawn(2, 3, 4, 5))


def test_the_norm_that_onnx_runtime_writes():
    nodes = [NODE("SimplifiedLayerNormalization", ["x", "s"], ["y"], axis=-1)]
    close(made(nodes, [value("x", "n", 6)], [value("y", "n", 6)], s=drawn(6)), x=drawn(3, 6))


def random(op: str, like: bool, **attributes: Any) -> Any:
    """10,000 numbers that an operation draws."""
    options = attributes if like else {**attributes, "shape": [100, 100]}
    nodes = [NODE(op, ["x"] if like else [], ["y"], **options)]
    inputs = [value("x", 100, 100)] if like else []
    data = made(nodes, inputs, [value("y", 100, 100)])
    return dlvm.onnx.load(data)(*[drawn(100, 100)] * like)[0]


@pytest.mark.parametrize("like", [False, True])
def test_random_numbers_have_their_mean_and_spread(like: bool):
    suffix = "Like" if like else ""
    x = random(f"RandomNormal{suffix}", like, mean=3.0, scale=2.0, seed=1.0)
    assert x.dtype == np.float32 and abs(x.mean() - 3) < 0.1 and abs(x.std() - 2) < 0.1
    u = random(f"RandomUniform{suffix}", like, low=-1.0, high=2.0, seed=1.0)
    assert -1 <= u.min() < -0.9 and 1.9 < u.max() <= 2 and abs(u.mean() - 0.5) < 0.1
    again = random(f"RandomUniform{suffix}", like, low=-1.0, high=2.0, seed=1.0)
    other = random(f"RandomUniform{suffix}", like, low=-1.0, high=2.0, seed=2.0)
    assert (u == again).all() and not (u == other).all()


def test_categories_are_drawn_by_their_odds():
    nodes = [NODE("Multinomial", ["x"], ["y"], sample_size=4000, seed=3.0)]
    data = made(nodes, [value("x", 1, 3)], [value("y", 1, 4000, kind=6)])
    found = dlvm.onnx.load(data)(np.log(np.array([[0.2, 0.3, 0.5]], np.float32)))[0]
    assert found.dtype == np.int32
    shares = np.bincount(found[0], minlength=3) / 4000
    np.testing.assert_allclose(shares, [0.2, 0.3, 0.5], atol=0.04)


def test_a_convolutional_network_of_open_batch_and_space():
    nodes = [
        NODE("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
        NODE("Relu", ["c"], ["r"]),
        NODE("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        NODE("AveragePool", ["p"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        NODE("GlobalAveragePool", ["a"], ["g"]),
        NODE("Flatten", ["g"], ["f"]),
        NODE("Gemm", ["f", "v", "d"], ["y"], transB=1),
    ]
    weights = dict(w=drawn(8, 3, 3, 3), b=drawn(8), v=drawn(5, 8), d=drawn(5))
    data = made(nodes, [value("x", "N", 3, "H", "W")], [value("y", "N", 5)], **weights)
    m = close(data, x=drawn(2, 3, 16, 16))
    x = drawn(3, 3, 12, 20)
    np.testing.assert_allclose(m(x)[0], by_runtime(data, x=x)[0], rtol=1e-4, atol=1e-5)
    assert len(m.programs) == 1


def attention() -> bytes:
    """A block of a transformer as exporters write it, of open batch and length."""
    parts = [
        node
        for a in "qkv"
        for node in (
            NODE("Reshape", [a, "split"], [f"{a}r"]),
            NODE("Transpose", [f"{a}r"], [f"{a}t"], perm=[0, 2, 1, 3]),
        )
    ]
    nodes = [
        NODE("Gather", ["table", "ids"], ["x"]),
        NODE("Shape", ["ids"], ["s"]),
        NODE("Gather", ["s", "one"], ["T"], axis=0),
        NODE("Gather", ["s", "zero"], ["B"], axis=0),
        NODE("Range", ["zero", "T", "one"], ["pos"]),
        NODE("LayerNormalization", ["x", "g", "h"], ["n"]),
        NODE("MatMul", ["n", "wqkv"], ["qkv"]),
        NODE("Split", ["qkv"], ["q", "k", "v"], axis=-1, num_outputs=3),
        NODE("Unsqueeze", ["B", "first"], ["B1"]),
        NODE("Unsqueeze", ["T", "first"], ["T1"]),
        NODE("Concat", ["B1", "T1", "heads"], ["split"], axis=0),
        *parts,
        NODE("Transpose", ["kt"], ["kk"], perm=[0, 1, 3, 2]),
        NODE("MatMul", ["qt", "kk"], ["scores"]),
        NODE("Unsqueeze", ["pos", "first"], ["across"]),
        NODE("Unsqueeze", ["pos", "second"], ["down"]),
        NODE("LessOrEqual", ["across", "down"], ["seen"]),
        NODE("Where", ["seen", "scores", "least"], ["masked"]),
        NODE("Softmax", ["masked"], ["p"], axis=-1),
        NODE("MatMul", ["p", "vt"], ["o"]),
        NODE("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        NODE("Concat", ["B1", "T1", "all"], ["join"], axis=0),
        NODE("Reshape", ["ot", "join"], ["y"]),
    ]
    weights = dict(table=drawn(11, 8), g=drawn(8), h=drawn(8), wqkv=drawn(8, 24))
    whole = dict(one=1, zero=0, first=[0], second=[1], heads=[2, 4], all=[8])
    constants = {name: np.array(n) for name, n in whole.items()} | {"least": np.float32(-1e9)}
    inputs = [value("ids", "batch", "length", kind=WHOLE)]
    return made(nodes, inputs, [value("y", "batch", "length", 8)], **weights, **constants)


def test_a_transformer_of_open_batch_and_length():
    data = attention()
    ids = np.random.default_rng(0).integers(0, 11, (3, 7))
    m = close(data, ids=ids)
    found, expected = m(ids[:1, :4])[0], by_runtime(data, ids=ids[:1, :4])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(m.programs) == 1
    slope = dlvm.grad(lambda w: (m.function(w, ids)[0] ** 2).mean())(dict(m.weights))
    assert all(np.isfinite(s).all() for s in slope.values()) and np.abs(slope["wqkv"]).max() > 0


def test_a_recurrent_network_of_open_length_in_both_directions():
    nodes = [
        NODE(
            "LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=4, direction="bidirectional"
        )
    ]
    weights = dict(w=drawn(2, 16, 3), r=drawn(2, 16, 4), b=drawn(2, 32))
    outputs = [value("y", "T", 2, "N", 4), value("h", 2, "N", 4), value("c", 2, "N", 4)]
    close(made(nodes, [value("x", "T", "N", 3)], outputs, **weights), x=drawn(5, 2, 3))


@pytest.mark.parametrize("op", ["RNN", "GRU", "LSTM"])
def test_sequences_of_different_lengths_are_read_up_to_their_ends(op: str):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    nodes = [
        NODE(op, ["x", "w", "r", "b", "n"], ["y", "h"], hidden_size=4, direction="bidirectional")
    ]
    weights = dict(w=drawn(2, 4 * gates, 3), r=drawn(2, 4 * gates, 4), b=drawn(2, 8 * gates))
    inputs = [value("x", 5, 2, 3), value("n", 2, kind=6)]
    outputs = [value("y", 5, 2, 2, 4), value("h", 2, 2, 4)]
    lengths = np.array([5, 2], np.int32)
    close(made(nodes, inputs, outputs, **weights), x=drawn(5, 2, 3), n=lengths)
