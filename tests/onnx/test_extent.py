"""Models that say little and ask for much: each is refused with a remedy, or runs, in seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_load import NODE, helper, made, value

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def calling(bodies: dict[str, list[Any]], first: str) -> bytes:
    """A model of local functions from x to y, of which the graph calls one."""
    functions = [
        helper.make_function("own", name, ["x"], ["y"], nodes, OPSETS)
        for name, nodes in bodies.items()
    ]
    graph = helper.make_graph(
        [NODE(first, ["x"], ["y"], domain="own")], "net", [value("x", 4)], [value("y", 4)]
    )
    model = helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=9)
    return model.SerializeToString()


def call(name: str, *names: str) -> Any:
    return NODE(name, [names[0]], [names[1]], domain="own")


def doubling(length: int) -> bytes:
    bodies = {"F0": [NODE("Sin", ["x"], ["y"])]}
    for k in range(1, length):
        bodies[f"F{k}"] = [call(f"F{k - 1}", "x", "h"), call(f"F{k - 1}", "h", "y")]
    return calling(bodies, f"F{length - 1}")


def test_functions_that_double_run_up_to_a_budget_of_nodes():
    wanted = X
    for _ in range(16):
        wanted = np.sin(wanted)
    np.testing.assert_allclose(dlvm.onnx.load(doubling(5))(X)["y"], wanted, rtol=1e-5)
    with pytest.raises(dlvm.UserError, match=r"at most 100,000 nodes.*found 3,221,225,470.*'F30'"):
        dlvm.onnx.load(doubling(31))


def test_a_function_that_calls_itself_is_refused_by_name():
    with pytest.raises(dlvm.UserError, match="'A' calls itself: 'A' -> 'B' -> 'A'") as caught:
        dlvm.onnx.load(calling({"A": [call("B", "x", "y")], "B": [call("A", "x", "y")]}, "A"))
    assert "Loop" in str(caught.value)


def test_functions_that_nest_too_deeply_are_refused():
    bodies = {"F0": [NODE("Sin", ["x"], ["y"])]}
    bodies |= {f"F{k}": [call(f"F{k - 1}", "x", "y")] for k in range(1, 1000)}
    dlvm.onnx.load(calling(bodies, "F50"))
    with pytest.raises(dlvm.UserError, match="at most 50 deep, found more at 'F948'"):
        dlvm.onnx.load(calling(bodies, "F999"))


def joined(times: int, **weights: Any) -> bytes:
    """An array that is joined to itself again and again, and summed."""
    nodes = [NODE("Concat", [f"x{k}"] * 2, [f"x{k + 1}"], axis=0) for k in range(times)]
    nodes.append(NODE("ReduceSum", [f"x{times}"], ["y"], keepdims=0))
    given = [] if weights else [value("x0", 4)]
    return made(nodes, given, [value("y")], **weights)


def test_an_array_that_is_joined_to_itself_twenty_times_runs():
    found = dlvm.onnx.load(joined(20))(np.ones(4, np.float32))["y"]
    assert found == 4 * 2**20


def test_constants_that_grow_beyond_what_weights_allow_are_refused(monkeypatch):
    monkeypatch.setattr("dlvm.onnx.graphs.MOST_BYTES", 1 << 20)
    with pytest.raises(dlvm.UserError, match=r"Concat.*makes 524,288 bytes of constants") as caught:
        dlvm.onnx.load(joined(40, x0=np.arange(8192)))()
    assert "inputs of the model" in str(caught.value)


def test_a_function_that_the_graph_calls_twice_runs():
    layer = helper.make_function("own", "F", ["x"], ["y"], [NODE("Sin", ["x"], ["y"])], OPSETS)
    nodes = [call("F", "x", "h"), call("F", "h", "y")]
    graph = helper.make_graph(nodes, "net", [value("x", 4)], [value("y", 4)])
    model = helper.make_model(graph, opset_imports=OPSETS, functions=[layer], ir_version=9)
    found = dlvm.onnx.load(model.SerializeToString())(X)["y"]
    np.testing.assert_allclose(found, np.sin(np.sin(X)), rtol=1e-5)
