"""Derivatives of imported models: twenty pass ``gradcheck``, and one from PyTorch learns digits."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_load import NODE, WHOLE, F, by_runtime, drawn, helper, made, onnx, value
from .test_operations import attention

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "onnx"


@dataclass(frozen=True)
class Net:
    """A model with one float input ``x`` and results of which the first is ``y``."""

    nodes: list[Any]
    shape: tuple[int, ...]
    weights: dict[str, Any] = field(default_factory=dict[str, Any])

    def data(self) -> bytes:
        """The file; the type of the result is left to whoever reads it."""
        y = helper.make_tensor_value_info("y", F, None)
        return made(self.nodes, [value("x", *self.shape)], [y], **self.weights)


def whole(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def recurrent(op: str, gates: int) -> Net:
    nodes = [NODE(op, ["x", "w", "r", "b"], ["y"], hidden_size=2, direction="bidirectional")]
    weights = dict(w=drawn(2, 2 * gates, 3), r=drawn(2, 2 * gates, 2), b=drawn(2, 4 * gates))
    return Net(nodes, (4, 2, 3), weights)


def scanned() -> Net:
    """``h = tanh(h w + x)`` along the rows of x."""
    steps = [
        NODE("MatMul", ["h", "w"], ["p"]),
        NODE("Add", ["p", "row"], ["s"]),
        NODE("Tanh", ["s"], ["t"]),
        NODE("Identity", ["t"], ["o"]),
    ]
    inner = helper.make_graph(
        steps, "step", [value("h", 3), value("row", 3)], [value("t", 3), value("o", 3)]
    )
    nodes = [NODE("Scan", ["h0", "x"], ["last", "y"], num_scan_inputs=1, body=inner)]
    return Net(nodes, (4, 3), dict(h0=drawn(3), w=drawn(3, 3)))


def looped() -> Net:
    """``s = sin(s) w`` three times."""
    steps = [
        NODE("Sin", ["s"], ["t"]),
        NODE("Mul", ["t", "w"], ["u"]),
        NODE("Identity", ["c"], ["d"]),
    ]
    flag = [value(n, kind=onnx.TensorProto.BOOL) for n in "cd"]
    inner = helper.make_graph(
        steps, "step", [value("i", kind=WHOLE), flag[0], value("s", 3)], [flag[1], value("u", 3)]
    )
    constants = dict(n=np.array(3), w=drawn(3))
    return Net([NODE("Loop", ["n", "", "x"], ["y"], body=inner)], (3,), constants)


def branched() -> Net:
    """``x w`` if the sum of x is positive, else ``sin x``."""
    then = helper.make_graph([NODE("Mul", ["x", "w"], ["a"])], "then", [], [value("a", 3)])
    other = helper.make_graph([NODE("Sin", ["x"], ["b"])], "other", [], [value("b", 3)])
    nodes = [
        NODE("ReduceSum", ["x"], ["s"], keepdims=0),
        NODE("Greater", ["s", "zero"], ["c"]),
        NODE("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    return Net(nodes, (3,), dict(w=drawn(3), zero=np.float32(0)))


NETS: dict[str, Net] = {
    "perceptron": Net(
        [
            NODE("Gemm", ["x", "v", "b"], ["h"], transB=1, alpha=0.5),
            NODE("Tanh", ["h"], ["t"]),
            NODE("MatMul", ["t", "w"], ["z"]),
            NODE("LogSoftmax", ["z"], ["y"], axis=-1),
        ],
        (3, 4),
        dict(v=drawn(5, 4), b=drawn(5), w=drawn(5, 3)),
    ),
    "convolution": Net(
        [
            NODE("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 0, 0], strides=[2, 1]),
            NODE("Softplus", ["c"], ["s"]),
            NODE("AveragePool", ["s"], ["y"], kernel_shape=[2, 2]),
        ],
        (2, 2, 5, 5),
        dict(w=drawn(3, 2, 3, 3), b=drawn(3)),
    ),
    "groups of channels": Net(
        [NODE("Conv", ["x", "w"], ["y"], group=2, dilations=[2])],
        (2, 4, 7),
        dict(w=drawn(4, 2, 3)),
    ),
    "transposed convolution": Net(
        [NODE("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], output_padding=[1, 0])],
        (1, 2, 3, 3),
        dict(w=drawn(2, 3, 3, 2)),
    ),
    "pooling": Net(
        [
            NODE("MaxPool", ["x"], ["p"], kernel_shape=[2, 2]),
            NODE("LpPool", ["p"], ["l"], kernel_shape=[2, 2], p=2),
            NODE("GlobalAveragePool", ["l"], ["y"]),
        ],
        (2, 2, 5, 5),
    ),
    "batch normalisation": Net(
        [NODE("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"])],
        (2, 3, 4),
        dict(g=drawn(3), b=drawn(3), m=drawn(3), v=np.abs(drawn(3)) + 1),
    ),
    "layer normalisation": Net(
        [
            NODE("LayerNormalization", ["x", "g", "b"], ["n"]),
            NODE("Sigmoid", ["n"], ["s"]),
            NODE("Mul", ["n", "s"], ["y"]),
        ],
        (3, 5),
        dict(g=drawn(5), b=drawn(5)),
    ),
    "normalisation of images": Net(
        [NODE("InstanceNormalization", ["x", "g", "b"], ["i"]), NODE("LRN", ["i"], ["y"], size=3)],
        (2, 4, 3, 2),
        dict(g=drawn(4), b=drawn(4)),
    ),
    "lstm": recurrent("LSTM", 4),
    "gru": recurrent("GRU", 3),
    "rnn": recurrent("RNN", 1),
    "scan": scanned(),
    "loop": looped(),
    "branches": branched(),
    "einsum": Net(
        [NODE("Einsum", ["x", "w", "x"], ["y"], equation="bi,ij,bj->b")],
        (3, 4),
        dict(w=drawn(4, 4)),
    ),
    "resized": Net(
        [NODE("Resize", ["x", "", "scales"], ["y"], mode="cubic")],
        (1, 1, 4, 3),
        dict(scales=np.array([1, 1, 1.5, 2], np.float32)),
    ),
    "residual": Net(
        [
            NODE("MatMul", ["x", "w"], ["h"]),
            NODE("Elu", ["h"], ["e"]),
            NODE("Concat", ["x", "e"], ["c"], axis=1),
            NODE("Slice", ["c", "from", "to", "axis"], ["s"]),
            NODE("Add", ["s", "x"], ["y"]),
        ],
        (3, 4),
        {"w": drawn(4, 4), "from": whole(2), "to": whole(6), "axis": whole(1)},
    ),
    "picked and written": Net(
        [
            NODE("Gather", ["x", "rows"], ["g"], axis=0),
            NODE("ScatterElements", ["g", "at", "w"], ["s"], axis=1, reduction="add"),
            NODE("ReduceLogSumExp", ["s"], ["y"], keepdims=0),
        ],
        (4, 3),
        dict(rows=whole(2, 0, 2), at=np.array([[0, 1], [2, 0], [1, 2]]), w=drawn(3, 2)),
    ),
    "determinant": Net(
        [NODE("MatMul", ["x", "w"], ["m"]), NODE("Det", ["m"], ["y"])], (3, 3), dict(w=drawn(3, 3))
    ),
}


def checked(
    m: dlvm.onnx.Model, x: Any, order: int = 2, compiled: bool = True
) -> dlvm.testing.Report:
    """Derivatives with respect to all weights and the input, beside differences.

    The rest of each array is checked along one direction of all its elements.
    """
    weights, how = dict(m.weights), dict(order=order, elements=4, compiled=compiled)
    if m.inputs[0].dtype == np.float32:
        return dlvm.testing.gradcheck(lambda w, x: m.function(w, x)[0], weights, x, **how)
    return dlvm.testing.gradcheck(lambda w: m.function(w, x)[0], weights, **how)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NETS)
def test_derivatives_of_a_model_pass(name: str, in_depth: bool):
    """The references of all; machine code of a third."""
    data, x = NETS[name].data(), drawn(*NETS[name].shape)
    m = dlvm.onnx.load(data)
    np.testing.assert_allclose(m(x)[0], by_runtime(data, x=x)[0], rtol=2e-4, atol=2e-5)
    checked(m, x, compiled=in_depth)


def test_derivatives_of_a_transformer_pass():
    checked(dlvm.onnx.load(attention()), np.random.default_rng(0).integers(0, 11, (2, 3)), order=1)


def test_derivatives_of_a_network_of_pytorch_pass():
    m = dlvm.onnx.load(EXAMPLE / "digits.onnx")
    assert str(m.inputs[0]) == "f32[batch,64]" and not m.inputs[0].static
    checked(m, drawn(2, 64), order=1)


def test_a_network_of_pytorch_reads_97_of_100_new_digits(tmp_path: Path):
    command = [sys.executable, str(EXAMPLE / "train.py"), "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert not done.returncode and not done.stderr, done.stderr
    share = float(done.stdout.split("test accuracy ")[1].partition("%")[0])
    assert share >= 97
    kept = dlvm.load(tmp_path / "digits.safetensors")
    assert kept.keys() == dlvm.onnx.load(EXAMPLE / "digits.onnx").weights.keys()
