"""The tests of backends in the package onnx as cases: a model, inputs, expected outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

NAMES = """
Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool
BatchNormalization BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Celu
CenterCropPad Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumProd
CumSum DepthToSpace Det Div Dropout Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU
Gather GatherElements GatherND Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual
GroupNormalization HardSigmoid HardSwish Hardmax Identity If InstanceNormalization IsInf IsNaN
LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax Loop LpNormalization
LpPool MatMul Max MaxPool Mean MeanVarianceNormalization Min Mish Mod Mul Neg
NegativeLogLikelihoodLoss Not OneHot Or PRelu Pad Pow RMSNormalization RNN Range Reciprocal
ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd
ReduceSum ReduceSumSquare Relu Reshape Resize ReverseSequence RotaryEmbedding Round Scan Scatter
ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax
SoftmaxCrossEntropyLoss Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum SwiGLU Swish
Tan Tanh TensorScatter ThresholdedRelu Tile TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""
CORE = frozenset(NAMES.split())
"""Operations of linear algebra and of networks; a core case uses no other one."""
PLAIN = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16}
"""Element types that dlvm has."""
RANDOM = ("bernoulli", "randomuniform", "randomnormal", "training_dropout", "multinomial")
"""Cases whose values are random: only their types are compared."""


@dataclass
class Case:
    """A case of the suite; ``random`` says that only shapes and types of results are compared."""

    name: str
    kind: str
    model: Any
    data: Path | bytes
    sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float
    random: bool

    def is_core(self) -> bool:
        """Whether the model uses only core operations and element types that dlvm has."""
        nodes = _nodes(self.model.graph)
        core = all(n.op_type in CORE and n.domain in ("", "ai.onnx") for n in nodes)
        return core and self.has_plain_types()

    def has_plain_types(self) -> bool:
        """Whether all inputs and outputs are arrays of element types that dlvm has."""
        return all(
            x.type.HasField("tensor_type") and x.type.tensor_type.elem_type in PLAIN
            for x in (*self.model.graph.input, *self.model.graph.output)
        )


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for a in node.attribute:
            for body in ([a.g] if a.HasField("g") else []) + list(a.graphs):
                yield from _nodes(body)


def cases(*kinds: str) -> Iterator[Case]:
    """Every case of the kinds, by default of all of them."""
    from onnx.backend.test.loader import load_model_tests

    for kind in kinds or ("node", "simple", "pytorch-converted", "pytorch-operator", "real"):
        for found in sorted(load_model_tests(kind=kind), key=lambda c: c.name):
            yield _case(found, kind)


def _case(found: Any, kind: str) -> Case:
    import onnx

    is_random = any(word in found.name for word in RANDOM)
    if found.model is not None:
        data: Path | bytes = found.model.SerializeToString()
        model = found.model
        sets = [([*map(_array, xs)], [*map(_array, ys)]) for xs, ys in found.data_sets]
    elif found.model_dir is not None:
        data = Path(found.model_dir) / "model.onnx"
        model = onnx.load(data)
        sets = [_stored(model, folder) for folder in sorted(data.parent.glob("test_data_set_*"))]
    else:
        data = Path(onnx.__file__).parents[1] / found.url
        model = onnx.load(data)
        sets = [_light(model, data)]
    return Case(found.name, kind, model, data, sets, found.rtol, found.atol, is_random)


def _array(x: Any) -> Any:
    """An array of the suite, which has some as messages."""
    import onnx

    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def _stored(model: Any, folder: Path) -> tuple[list[Any], list[Any]]:
    return _read(folder, "input", model.graph.input), _read(folder, "output", model.graph.output)


def _read(folder: Path, word: str, values: Any) -> list[Any]:
    import onnx

    found: list[Any] = []
    for k, value in enumerate(values):
        file = folder / f"{word}_{k}.pb"
        if not file.exists():
            break
        if not value.type.HasField("tensor_type"):
            found.append(None)
            continue
        made = onnx.TensorProto.FromString(file.read_bytes())
        found.append(onnx.numpy_helper.to_array(made))
    return found


def _light(model: Any, path: Path) -> tuple[list[Any], list[Any]]:
    """The input that the runner of onnx makes for a real network, and what is expected for it."""
    import onnx

    names = {t.name for t in model.graph.initializer}
    inputs: list[Any] = []
    for x in model.graph.input:
        if x.name not in names:
            shape = tuple(d.dim_value for d in x.type.tensor_type.shape.dim)
            n = np.prod(shape)
            inputs.append((np.arange(n).reshape(shape) / n).astype(np.float32))
    expected = path.with_name(f"{path.stem}_output_0.pb")
    made = onnx.TensorProto.FromString(expected.read_bytes())
    return inputs, [onnx.numpy_helper.to_array(made)]
