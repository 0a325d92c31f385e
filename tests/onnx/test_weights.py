"""``m.weights`` is what a trainer changes: ten steps of Adam leave every model finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .cases import cases
from .test_extent import OPSETS
from .test_gradients import NETS
from .test_load import NODE, F, by_runtime, drawn, helper, made, onnx, value
from .test_operations import attention

MASK = np.triu(np.full((1, 3, 3), -3.4e38, np.float32), 1)


def stored(name: str, x: Any) -> Any:
    """A Constant node."""
    return NODE("Constant", [], [name], value=onnx.numpy_helper.from_array(np.asarray(x)))


def number(x: float) -> Any:
    return np.float32(x)


def normalised_by_root_mean_square() -> bytes:
    """As the exporter of PyTorch writes it: the exponent is an initialiser."""
    nodes = [
        NODE("MatMul", ["x", "w"], ["h"]),
        NODE("Pow", ["h", "val_1"], ["square"]),
        NODE("ReduceMean", ["square", "axes"], ["mean"], keepdims=1),
        NODE("Add", ["mean", "val_2"], ["moved"]),
        NODE("Sqrt", ["moved"], ["root"]),
        NODE("Reciprocal", ["root"], ["inverse"]),
        NODE("Mul", ["h", "inverse"], ["n"]),
        NODE("Mul", ["n", "gain"], ["y"]),
    ]
    numbers = dict(val_1=number(2), val_2=number(1e-6), axes=np.array([-1]))
    weights = dict(w=drawn(4, 4), gain=np.ones(4, np.float32))
    return made(nodes, [value("x", 3, 4)], [value("y", 3, 4)], **weights, **numbers)


def normalised_by_layer() -> bytes:
    """As versions of ONNX without LayerNormalization have it."""
    nodes = [
        NODE("ReduceMean", ["x"], ["mean"], axes=[-1]),
        NODE("Sub", ["x", "mean"], ["d"]),
        stored("two", number(2)),
        NODE("Pow", ["d", "two"], ["square"]),
        NODE("ReduceMean", ["square"], ["var"], axes=[-1]),
        NODE("Add", ["var", "eps"], ["moved"]),
        NODE("Sqrt", ["moved"], ["root"]),
        NODE("Div", ["d", "root"], ["n"]),
        NODE("Mul", ["n", "gain"], ["scaled"]),
        NODE("Add", ["scaled", "bias"], ["y"]),
    ]
    weights = dict(gain=drawn(4), bias=np.zeros(4, np.float32), eps=np.full(1, 1e-12, np.float32))
    return made(nodes, [value("x", 3, 4)], [value("y", 3, 4)], opset=13, **weights)


def clipped() -> bytes:
    """A convolution in whose results 0 and 6 are the limits."""
    nodes = [
        NODE("Conv", ["x", "w", "b"], ["c"]),
        NODE("Clip", ["c", "low", "high"], ["r"]),
        NODE("Mul", ["r", "third"], ["s"]),
        NODE("Max", ["s", "low"], ["y"]),
    ]
    numbers = dict(low=number(0), high=number(6), third=number(1 / 3))
    weights = dict(w=np.abs(drawn(2, 3, 1)), b=np.abs(drawn(2)))
    return made(nodes, [value("x", 2, 3, 5)], [value("y", 2, 2, 5)], **weights, **numbers)


def masked() -> bytes:
    """Scores with a mask that is added, and one that chooses; the bias of places is learned."""
    nodes = [
        NODE("MatMul", ["x", "w"], ["q"]),
        NODE("Transpose", ["x"], ["k"], perm=[0, 2, 1]),
        NODE("MatMul", ["q", "k"], ["s"]),
        NODE("Div", ["s", "root"], ["t"]),
        NODE("Add", ["t", "places"], ["u"]),
        NODE("Add", ["u", "mask"], ["v"]),
        NODE("Cast", ["kept"], ["keep"], to=9),
        NODE("Where", ["keep", "v", "least"], ["m"]),
        NODE("Softmax", ["m"], ["p"], axis=-1),
        NODE("MatMul", ["p", "x"], ["y"]),
    ]
    numbers = dict(root=number(2), mask=MASK, least=number(-1e9), kept=(MASK == 0).astype("f4"))
    weights = dict(w=drawn(4, 4), places=drawn(1, 3, 3))
    return made(nodes, [value("x", 2, 3, 4)], [value("y", 2, 3, 4)], **weights, **numbers)


def embedded() -> bytes:
    """A table of rows and one of places, and a head of one result whose bias is one number."""
    nodes = [
        NODE("Cast", ["x"], ["ids"], to=7),
        NODE("Gather", ["table", "ids"], ["rows"]),
        NODE("Add", ["rows", "places"], ["h"]),
        NODE("MatMul", ["h", "head"], ["s"]),
        NODE("Add", ["s", "b"], ["t"]),
        NODE("Mul", ["t", "scale"], ["y"]),
    ]
    weights = dict(table=drawn(5, 4), places=drawn(1, 3, 4), head=drawn(4, 1), b=drawn(1))
    outputs = [value("y", 2, 3, 1)]
    return made(nodes, [value("x", 2, 3)], outputs, **weights, scale=np.full(1, 0.5, "f4"))


def in_nodes() -> bytes:
    """A model whose arrays are Constant nodes, one of them turned before it is multiplied."""
    nodes = [
        stored("w", drawn(5, 4)),
        NODE("Transpose", ["w"], ["turned"], perm=[1, 0]),
        NODE("MatMul", ["x", "turned"], ["h"]),
        stored("b", drawn(5)),
        NODE("Add", ["h", "b"], ["s"]),
        stored("half", number(0.5)),
        NODE("Mul", ["s", "half"], ["t"]),
        stored("shape", np.array([-1])),
        NODE("Reshape", ["t", "shape"], ["y"]),
    ]
    return made(nodes, [value("x", 3, 4)], [value("y", 15)])


def in_branches() -> bytes:
    """Two branches that each hold a kernel of the same name, and a limit."""

    def branch(name: str) -> Any:
        steps = [
            stored(f"{name}_low", number(0)),
            NODE("Mul", ["x", "kernel"], [f"{name}_m"]),
            NODE("Max", [f"{name}_m", f"{name}_low"], [name]),
        ]
        held = onnx.numpy_helper.from_array(drawn(4), "kernel")
        return helper.make_graph(steps, name, [], [value(name, 3, 4)], [held])

    nodes = [
        NODE("ReduceSum", ["x"], ["s"], keepdims=0),
        NODE("Greater", ["s", "zero"], ["c"]),
        NODE("If", ["c"], ["y"], then_branch=branch("a"), else_branch=branch("b")),
    ]
    return made(nodes, [value("x", 3, 4)], [value("y", 3, 4)], zero=number(0))


def in_a_loop() -> bytes:
    """Three steps of ``s = tanh(s w)``, of which the loop holds w."""
    steps = [
        stored("w", drawn(4, 4)),
        NODE("MatMul", ["s", "w"], ["m"]),
        NODE("Tanh", ["m"], ["t"]),
        NODE("Identity", ["c"], ["d"]),
    ]
    flags = [value(n, kind=onnx.TensorProto.BOOL) for n in "cd"]
    start = [value("i", kind=onnx.TensorProto.INT64), flags[0], value("s", 3, 4)]
    inner = helper.make_graph(steps, "step", start, [flags[1], value("t", 3, 4)])
    nodes = [NODE("Loop", ["n", "", "x"], ["y"], body=inner)]
    return made(nodes, [value("x", 3, 4)], [value("y", 3, 4)], n=np.array(3))


def in_a_function() -> bytes:
    """A function of the model that holds a kernel, called twice."""
    nodes = [stored("w", drawn(4, 4)), NODE("MatMul", ["x", "w"], ["y"])]
    layer = helper.make_function("own", "Layer", ["x"], ["y"], nodes, OPSETS)
    graph = helper.make_graph(
        [NODE("Layer", [a], [b], domain="own") for a, b in ("xh", "hy")],
        "net",
        [value("x", 3, 4)],
        [value("y", 3, 4)],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, functions=[layer], ir_version=9)
    return model.SerializeToString()


def of_integers() -> bytes:
    """Weights of 8 bits with their scale, behind a normalisation with running averages."""
    nodes = [
        NODE("BatchNormalization", ["x", "g", "b", "m", "v"], ["n"]),
        NODE("DequantizeLinear", ["q", "scale", "zero"], ["w"], axis=0),
        NODE("MatMul", ["n", "w"], ["y"]),
    ]
    weights = dict(g=drawn(4), b=drawn(4), m=drawn(4), v=np.ones(4, np.float32))
    weights |= dict(q=np.ones((4, 2), np.int8), scale=drawn(4), zero=np.zeros(4, np.int8))
    return made(nodes, [value("x", 3, 4)], [value("y", 3, 2)], **weights)


MODELS: dict[str, tuple[Any, list[str], list[str]]] = {
    "rms": (normalised_by_root_mean_square, ["w", "gain"], ["val_1", "val_2"]),
    "layer": (normalised_by_layer, ["gain", "bias"], ["eps", "two"]),
    "clip": (clipped, ["w", "b"], ["low", "high", "third"]),
    "mask": (masked, ["w", "places"], ["root", "mask", "least", "kept"]),
    "embedding": (embedded, ["table", "places", "head", "b"], ["scale"]),
    "nodes": (in_nodes, ["w", "b"], ["half"]),
    "branches": (in_branches, ["kernel", "kernel_2"], ["zero", "a_low", "b_low"]),
    "loop": (in_a_loop, ["w"], []),
    "function": (in_a_function, ["w"], []),
    "integers": (of_integers, ["g", "b"], ["m", "v", "scale"]),
}
"""A model, its weights and its constants."""


def given(m: dlvm.onnx.Model) -> Any:
    """An input of the model; where it says indices, these are below 3."""
    shape = [n if isinstance(n, int) else 2 for n in m.inputs[0].shape or ()]
    x = np.abs(np.random.default_rng(1).normal(size=shape)) % 3
    return x.astype(m.inputs[0].dtype or np.float32)


def trained(m: dlvm.onnx.Model, x: Any, steps: int = 10) -> list[float]:
    """The losses of the training loop of the page."""
    optimizer = dlvm.optim.adam(1e-2)

    @dlvm.function
    def step(weights: Any, state: Any, x: Any) -> Any:
        def loss(weights: Any) -> Any:
            return ((m.function(weights, x)[0] - 1) ** 2).mean()

        value, slope = dlvm.value_and_grad(loss)(weights)
        updates, state = optimizer.update(slope, state, weights)
        return dlvm.optim.apply(weights, updates), state, value

    weights, state, losses = m.weights, optimizer.init(m.weights), list[float]()
    for _ in range(steps):
        weights, state, found = step(weights, state, x)
        losses.append(float(found))
    assert all(np.isfinite(w).all() for w in weights.values())
    return losses


@pytest.mark.parametrize("name", MODELS)
def test_weights_are_what_a_trainer_changes(name: str):
    make, weights, constants = MODELS[name]
    data = make()
    m = dlvm.onnx.load(data)
    assert list(m.weights) == weights and list(m.constants) == constants
    np.testing.assert_allclose(m(x := given(m))[0], by_runtime(data, x=x)[0], rtol=1e-4, atol=1e-5)
    losses = trained(m, x)
    assert np.isfinite(losses).all() and losses[-1] < losses[0]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NETS)
def test_ten_steps_of_adam_leave_a_model_finite(name: str):
    m = dlvm.onnx.load(NETS[name].data())
    if m.weights:
        assert np.isfinite(trained(m, given(m))).all()


@pytest.mark.drawn(3)
def test_ten_steps_of_adam_leave_the_models_of_pytorch_finite(drawn_third: slice):
    """Those that PyTorch has written for the package onnx."""
    finite = 0
    for case in [*cases("pytorch-converted", "pytorch-operator")][drawn_third]:
        m = dlvm.onnx.load(case.data)
        if m.weights and len(m.inputs) == 1:
            assert np.isfinite(trained(m, case.sets[0][0][0])).all(), case.name
            finite += 1
    assert finite > 10


def test_ten_steps_of_adam_leave_a_transformer_finite():
    m = dlvm.onnx.load(attention())
    assert "least" not in m.weights and np.isfinite(trained(m, given(m))).all()


def test_a_weight_in_a_node_is_replaced_as_any_other():
    m = dlvm.onnx.load(in_branches())
    x = given(m)
    before = m(x)[0]
    m.weights["kernel_2"] = 2 * m.weights["kernel_2"]  # in a file the attributes are sorted
    np.testing.assert_allclose(m(x)[0], 2 * before, rtol=1e-5)
    m.weights["kernel"] = 0 * m.weights["kernel"]
    np.testing.assert_allclose(m(x)[0], 2 * before, rtol=1e-5)


def test_a_constant_is_trained_where_the_caller_says_so():
    m = dlvm.onnx.load(clipped())
    x = given(m)

    def total(constant: Any) -> Any:
        return m.function({**m.weights, "third": constant}, x)[0].sum()

    assert abs(dlvm.grad(total)(m.constants["third"])) > 0
    assert not m.constants["third"].flags.writeable


def test_an_array_that_is_a_shape_somewhere_is_no_weight():
    nodes = [
        NODE("Resize", ["x", "", "scales"], ["r"], mode="nearest"),
        NODE("Mul", ["r", "scales"], ["y"]),
    ]
    scales = np.array([1, 2], np.float32)
    y = helper.make_tensor_value_info("y", F, None)
    m = dlvm.onnx.load(made(nodes, [value("x", 3, 1)], [y], scales=scales))
    assert not m.weights and list(m.constants) == ["scales"]


@pytest.mark.parametrize("of_file", [False, True])
def test_a_staged_function_calls_a_model_with_large_weights(of_file: bool, tmp_path: Path):
    w = drawn(600, 600)
    nodes = [NODE("MatMul", ["x", "w"], ["h"]), NODE("Relu", ["h"], ["y"])]
    data = made(nodes, [value("x", "batch", 600)], [value("y", "batch", 600)], w=w)
    (tmp_path / "large.onnx").write_bytes(data)
    m = dlvm.onnx.load(tmp_path / "large.onnx" if of_file else data)
    x = drawn(3, 600)
    expected = (x @ w).clip(0)

    @dlvm.function
    def by_function(x):
        return m.function(m.weights, x)[0] * 2

    @dlvm.function
    def by_call(x):
        return m(x=x)["y"] * 2

    for f in (by_function, by_call):
        np.testing.assert_allclose(f(x), expected * 2, rtol=1e-4, atol=1e-4)
    m.weights["w"] = w * 2
    m(x)  # takes a copy
    np.testing.assert_allclose(by_function(x), expected * 4, rtol=1e-4, atol=1e-4)
