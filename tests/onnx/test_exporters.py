"""What the exporters of PyTorch and TensorFlow write: names that are used again, and their loops.

PyTorch gives values of functions and branches the names of others outside, and writes a weight that
layers share once. ``tf2onnx`` writes ``tf.while_loop`` as a Loop without a limit or with the
largest one, and loops over the rows of an array as a Loop with a limit that is a size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_load import NODE, by_runtime, drawn, helper, onnx, value
from .test_weights import stored

OPSET = [helper.make_opsetid("", 18), helper.make_opsetid("pkg", 1)]
W, BIAS = drawn(4, 4), drawn(4)
X = value("x", "batch", 4)


def graph(nodes: Any, inputs: Any, outputs: Any, **weights: Any) -> Any:
    arrays = [onnx.numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()]
    return helper.make_graph(nodes, "graph", inputs, outputs, arrays)


def model(whole: Any, *functions: Any) -> bytes:
    made = helper.make_model(whole, opset_imports=OPSET, functions=list(functions))
    made.ir_version = 10
    onnx.checker.check_model(made, full_check=True)
    return made.SerializeToString()


def function(name: str, inputs: list[str], outputs: list[str], nodes: Any) -> Any:
    return helper.make_function("pkg", name, inputs, outputs, nodes, OPSET)


def call(name: str, inputs: list[str], outputs: list[str]) -> Any:
    return NODE(name, inputs, outputs, domain="pkg")


def a_layer_that_is_called_twice() -> bytes:
    """Its values are called as values outside, and both calls have the same weights."""
    nodes = [
        NODE("Transpose", ["weight"], ["t"], perm=[1, 0]),
        NODE("MatMul", ["input", "t"], ["val_0"]),
        NODE("Add", ["val_0", "bias"], ["output"]),
    ]
    linear = function("Linear", ["input", "weight", "bias"], ["output"], nodes)
    outer = [
        call("Linear", ["x", "w", "b"], ["val_0"]),
        NODE("Relu", ["val_0"], ["t"]),
        call("Linear", ["t", "w", "b"], ["output"]),
    ]
    return model(graph(outer, [X], [value("output", "batch", 4)], w=W, b=BIAS), linear)


def constants_of_one_name() -> bytes:
    """In two functions, of which one calls the other."""
    inner = [stored("c", W), NODE("MatMul", ["x", "c"], ["y"])]
    outer = [stored("c", W * 2), call("A", ["x"], ["h"]), NODE("MatMul", ["h", "c"], ["y"])]
    functions = [function(n, ["x"], ["y"], nodes) for n, nodes in (("A", inner), ("B", outer))]
    nodes = [call("B", ["x"], ["h"]), call("A", ["h"], ["y"])]
    return model(graph(nodes, [X], [value("y", "batch", 4)]), *functions)


def a_table_that_is_also_a_product() -> bytes:
    nodes = [
        NODE("ReduceSum", ["x"], ["sum"], keepdims=0),
        NODE("Cast", ["sum"], ["whole"], to=7),
        NODE("Mul", ["whole", "zero"], ["i"]),
        NODE("Gather", ["w", "i"], ["row"]),
        NODE("Add", ["x", "row"], ["h"]),
        NODE("Transpose", ["w"], ["turned"], perm=[1, 0]),
        NODE("MatMul", ["h", "turned"], ["y"]),
    ]
    return model(graph(nodes, [X], [value("y", "batch", 4)], w=W, zero=np.int64(0)))


def branches_that_share_names() -> bytes:
    """Each has a weight ``w`` and a value ``h`` of its own, and the graph around has both, too."""

    def branch(factor: float) -> Any:
        nodes = [NODE("MatMul", ["x", "inner"], ["part"]), NODE("Tanh", ["part"], ["out"])]
        return graph(nodes, [], [value("out", "batch", 4)], inner=W * np.float32(factor))

    nodes = [
        NODE("MatMul", ["x", "w"], ["h"]),
        NODE("ReduceSum", ["h"], ["sum"], keepdims=0),
        NODE("Greater", ["sum", "zero"], ["above"]),
        NODE("If", ["above"], ["y"], then_branch=branch(1), else_branch=branch(3)),
    ]
    return model(graph(nodes, [X], [value("y", "batch", 4)], w=W, zero=np.float32(0)))


def while_loop(limit: str, **weights: Any) -> bytes:
    body = graph(
        [
            NODE("Add", ["i", "one"], ["i_out"]),
            NODE("MatMul", ["a", "w"], ["product"]),
            NODE("Tanh", ["product"], ["a_out"]),
            NODE("Less", ["i_out", "n"], ["goes_on"]),
        ],
        [value("iter", kind=7), value("c", kind=9), value("i", kind=6), value("a", "batch", 4)],
        [value("goes_on", kind=9), value("i_out", kind=6), value("a_out", "batch", 4)],
    )
    nodes = [
        NODE("Less", ["start", "n"], ["begins"]),
        NODE("Loop", [limit, "begins", "start", "x"], ["last", "y"], body=body),
    ]
    numbers = dict(start=np.int32(0), one=np.int32(1), n=np.int32(5))
    return model(graph(nodes, [X], [value("y", "batch", 4)], w=W, **numbers, **weights))


def rows_of_an_array() -> bytes:
    """A running sum: the limit is the size of the batch, the number of a step reads a row."""
    body = graph(
        [
            NODE("Gather", ["x", "iter"], ["row"], axis=0),
            NODE("Add", ["row", "s"], ["s_out"]),
            NODE("Mul", ["s_out", "b"], ["scan"]),
            NODE("Identity", ["c"], ["goes_on"]),
        ],
        [value("iter", kind=7), value("c", kind=9), value("s", 4)],
        [value("goes_on", kind=9), value("s_out", 4), value("scan", 4)],
    )
    nodes = [
        NODE("Shape", ["x"], ["shape"]),
        NODE("Gather", ["shape", "first"], ["n"], axis=0),
        NODE("Loop", ["n", "", "zeros"], ["last", "y"], body=body),
    ]
    numbers = dict(first=np.int64(0), zeros=np.zeros(4, np.float32))
    return model(graph(nodes, [X], [value("y", "batch", 4)], b=BIAS, **numbers))


MODELS: dict[str, Callable[[], bytes]] = {
    "a layer that is called twice": a_layer_that_is_called_twice,
    "constants of one name": constants_of_one_name,
    "a table that is also a product": a_table_that_is_also_a_product,
    "branches that share names": branches_that_share_names,
    "while without a limit": lambda: while_loop(""),
    "while with the largest limit": lambda: while_loop("most", most=np.int64(2**63 - 1)),
    "rows of an array": rows_of_an_array,
}


@pytest.mark.parametrize("name", MODELS)
def test_one_program_gives_what_the_runtime_gives(name: str):
    data = MODELS[name]()
    m = dlvm.onnx.load(data)
    for batch in (3, 5):
        x = drawn(batch, 4)
        for ours, theirs in zip(m(x), by_runtime(data, x=x), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    assert len(m.programs) == 1


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_that_is_used_has_a_gradient(name: str):
    m, x = dlvm.onnx.load(MODELS[name]()), drawn(3, 4)

    def loss(weights):
        return sum(y.sum() for y in m.function(weights, x))

    slopes = dlvm.function(dlvm.grad(loss))(m.weights)
    used = [n for n, slope in slopes.items() if np.abs(slope).sum() > 0]
    assert used and all(np.isfinite(slope).all() for slope in slopes.values())
    if "branch" not in name:
        assert used == [*m.weights]
