"""Models as functions: calls by name and position, open sizes, weights that are trained."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm

onnx = pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
runtime = pytest.importorskip("onnxruntime")
helper = onnx.helper
F, WHOLE = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def value(name: str, *shape: Any, kind: int = F) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def made(nodes: Any, inputs: Any, outputs: Any, opset: int = 18, **weights: Any) -> bytes:
    tensors = [onnx.numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, tensors)
    model = helper.make_model(
        graph,
        opset_imports=[
            helper.make_opsetid("", opset),
            helper.make_opsetid("com.microsoft", 1),
            helper.make_opsetid("own", 1),
        ],
        ir_version=9,
    )
    return model.SerializeToString()


def by_runtime(data: bytes, **given: Any) -> Any:
    return runtime.InferenceSession(data).run(None, given)


W1, B1, W2 = drawn(12, 8), drawn(8), drawn(8, 3)
NODE = helper.make_node


def network() -> bytes:
    """A batch of open size, flattened by the arithmetic of shapes that exporters write."""
    return made(
        [
            NODE("Shape", ["input.1"], ["s"]),
            NODE("Gather", ["s", "zero"], ["n"], axis=0),
            NODE("Unsqueeze", ["n", "axes"], ["n1"]),
            NODE("Concat", ["n1", "rest"], ["wanted"], axis=0),
            NODE("Reshape", ["input.1", "wanted"], ["flat"]),
            NODE("Gemm", ["flat", "w1", "b1"], ["h"]),
            NODE("Relu", ["h"], ["r"]),
            NODE("MatMul", ["r", "w2"], ["y"]),
            NODE("Softmax", ["y"], ["p"], axis=-1),
        ],
        [value("input.1", "batch", 3, 4)],
        [value("y", "batch", 3), value("p", "batch", 3)],
        zero=np.array(0),
        axes=np.array([0]),
        rest=np.array([-1]),
        w1=W1,
        b1=B1,
        w2=W2,
    )


def test_a_model_runs_by_name_and_by_position_with_any_batch():
    data = network()
    m = dlvm.onnx.load(data)
    for batch in (1, 5):
        x = drawn(batch, 3, 4)
        y, p = m(x)
        expected = by_runtime(data, **{"input.1": x})
        np.testing.assert_allclose(y, expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(p, expected[1], rtol=1e-5, atol=1e-6)
        named = m(**{"input.1": x})
        assert named.names == ("y", "p")
        np.testing.assert_array_equal(named["p"], p)
    assert len(m.programs) == 1  # one program for every batch


def test_arithmetic_of_sizes_leaves_no_operation_behind():
    text = str(dlvm.onnx.load(network()).trace(drawn(2, 3, 4)))
    assert "f32[batch,3,4]" in text and "shape=(batch, 12)" in text
    assert "gather" not in text and "concat" not in text and "dim" not in text


def test_the_weights_are_trained_in_the_graph_of_the_file():
    m = dlvm.onnx.load(network())
    assert list(m.weights) == ["w1", "b1", "w2"]
    x, target = drawn(4, 3, 4), np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]

    def loss(weights: Any, x: Any) -> Any:
        y, _ = m.function(weights, x)
        return ((y - target) ** 2).mean()

    step = dlvm.function(dlvm.value_and_grad(loss))
    weights, losses = dict(m.weights), []
    for _ in range(30):
        found, slope = step(weights, x)
        losses.append(float(found))
        weights = {n: w - np.float32(0.05) * slope[n] for n, w in weights.items()}
    assert losses[-1] < 0.2 * losses[0]
    eps = np.float32(1e-2)
    moved = {**m.weights, "b1": m.weights["b1"] + eps * np.eye(8, dtype=np.float32)[0]}
    back = {**m.weights, "b1": m.weights["b1"] - eps * np.eye(8, dtype=np.float32)[0]}
    _, slope = step(dict(m.weights), x)
    differences = (float(loss(moved, x)) - float(loss(back, x))) / (2 * eps)
    assert abs(differences - slope["b1"][0]) < 1e-2


def program_of(m: dlvm.onnx.Model) -> Any:
    (found,) = m.programs
    return found


IMAGES = (1, 32, 4, 4)
CONVOLUTION = made(
    [NODE("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
    [value("x", *IMAGES)],
    [value("y", *IMAGES)],
    w=drawn(32, 32, 3, 3),
)


def test_weights_are_turned_when_the_program_is_made():
    m, x = dlvm.onnx.load(CONVOLUTION), drawn(*IMAGES)
    (y,) = m(x)
    np.testing.assert_allclose(y, by_runtime(CONVOLUTION, x=x)[0], rtol=1e-4, atol=1e-5)
    text = str(program_of(m).text("optimized"))
    assert (
        f"constant value=#0 known=true : f32[1,32,{9 * 32}]" in text and "[32,32,3,3]" not in text
    )


def test_weights_that_are_replaced_are_used():
    m, x = dlvm.onnx.load(CONVOLUTION), drawn(*IMAGES)
    (before,) = m(x)
    with pytest.raises(ValueError, match="read-only"):
        m.weights["w"][:] = 0
    loaded = m.weights["w"]
    for factor in (2, 3):
        m.weights["w"] = np.float32(factor) * loaded
        np.testing.assert_allclose(m(x)[0], factor * before, rtol=1e-4, atol=1e-5)
    text = str(program_of(m).text("optimized"))
    assert (
        f"constant value=#0 known=true : f32[1,32,{9 * 32}]" in text and "[32,32,3,3]" not in text
    )
    m.weights["w"] = loaded
    np.testing.assert_array_equal(m(x)[0], before)


def test_the_owner_of_a_weight_does_not_reach_what_is_prepared():
    m, x = dlvm.onnx.load(CONVOLUTION), drawn(*IMAGES)
    (before,) = m(x)
    own = 2 * m.weights["w"]
    m.weights["w"] = own
    (after,) = m(x)
    own[:] = 0
    np.testing.assert_array_equal(m(x)[0], after)
    assert not m.weights["w"].flags.writeable and np.abs(after - 2 * before).max() < 1e-4
    with pytest.raises(ValueError, match="read-only"):
        m.weights["w"] *= 0


def test_other_weights_compile_nothing(monkeypatch: pytest.MonkeyPatch):
    nodes, ends = [NODE("Conv", ["x", "w", "b"], ["y"])], ([value("x", *IMAGES)], [value("y")])
    m = dlvm.onnx.load(made(nodes, *ends, w=drawn(32, 32, 3, 3), b=drawn(32)))
    x = drawn(*IMAGES)
    (before,) = m(x)
    monkeypatch.setattr("dlvm.passes.run", None)
    m.weights.update({name: -w for name, w in m.weights.items()})
    np.testing.assert_array_equal(m(x)[0], -before)
    for _ in range(9):
        m(x)
    assert len(m.programs) == 1


def test_threads_see_weights_of_one_moment():
    """Both weights are replaced while others call: a result is of an old or of a new pair."""
    nodes = [NODE("MatMul", ["x", "a"], ["h"]), NODE("MatMul", ["x", "b"], ["g"])]
    nodes.append(NODE("Concat", ["h", "g"], ["y"], axis=1))
    one = np.ones((40, 40), np.float32)
    m = dlvm.onnx.load(made(nodes, [value("x", 1, 40)], [value("y", 1, 80)], a=one, b=one))
    x, seen = np.ones((1, 40), np.float32), set[tuple[float, ...]]()

    def call() -> None:
        for _ in range(50):
            (y,) = m(x)
            seen.add(tuple(sorted(set(y.ravel() / 40))))

    threads = [threading.Thread(target=call) for _ in range(3)]
    for t in threads:
        t.start()
    for factor in (2, 3):
        m.weights.update(a=factor * one, b=factor * one)
    for t in threads:
        t.join()
    assert seen <= {(1.0,), (2.0,), (3.0,)} and set(m(x)[0].ravel() / 40) == {3.0}


def test_bytes_that_are_written_over_change_no_model():
    data = bytearray(CONVOLUTION)
    m, x = dlvm.onnx.load(data), drawn(*IMAGES)
    expected = dlvm.onnx.load(CONVOLUTION)(x)[0]
    data[:] = bytes(len(data))
    np.testing.assert_array_equal(m(x)[0], expected)


def test_a_model_from_a_file_with_weights_beside_it(tmp_path: Path):
    model = onnx.load_from_string(network())
    path = tmp_path / "net.onnx"
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").exists()
    x = drawn(2, 3, 4)
    np.testing.assert_array_equal(dlvm.onnx.load(path)(x)[0], dlvm.onnx.load(network())(x)[0])
    with pytest.raises(dlvm.UserError, match="given as bytes"):
        dlvm.onnx.load(path.read_bytes())
    assert dlvm.onnx.load(path.read_bytes(), folder=tmp_path)(x)["y"].shape == (2, 3)


def test_an_input_that_is_a_shape_is_static_by_value():
    data = made(
        [NODE("Reshape", ["x", "to"], ["y"])],
        [value("x", "n", 6), value("to", 2, kind=WHOLE)],
        [value("y", "a", "b")],
    )
    m = dlvm.onnx.load(data)
    assert [v.static for v in m.inputs] == [False, True]
    x = np.ones((2, 6), np.float32)
    assert m(x, np.array([3, 4]))["y"].shape == (3, 4)  # for which n has to be 2
    assert m(x, np.array([-1, 2]))["y"].shape == (6, 2)
    with pytest.raises(dlvm.onnx.Unsupported, match="not known while the program is made"):
        dlvm.function(lambda x, to: m.function({}, x, to))(drawn(2, 6), np.array([3, 4]))


def test_names_of_sizes_can_be_fixed():
    m = dlvm.onnx.load(network(), sizes={"batch": 2})
    assert m.inputs[0].shape == (2, 3, 4)
    with pytest.raises(dlvm.ShapeError, match=r"expected the input 'input.1' of type f32\[2,3,4\]"):
        m(drawn(5, 3, 4))


def test_the_text_of_a_model_is_a_table():
    assert repr(dlvm.onnx.load(network())).splitlines() == [
        "ONNX model 'net', opset 18",
        "  input   input.1  f32[batch,3,4]",
        "  output  y        f32[batch,3]",
        "  output  p        f32[batch,3]",
        "  weight  w1       f32[12, 8]",
        "  weight  b1       f32[8]",
        "  weight  w2       f32[8, 3]",
        "  128 parameters in all",
    ]


def test_wrong_calls_say_what_the_model_takes():
    m = dlvm.onnx.load(network())
    x = drawn(1, 3, 4)
    for call, said in (
        (lambda: m(), "needs the input 'input.1'"),
        (lambda: m(x, x), "each once"),
        (lambda: m(x, **{"input.2": x}), "has no input 'input.2'; did you mean 'input.1'"),
        (lambda: m(x.astype(np.float64)), "found elements of float64"),
        (lambda: m(x)["q"], "has no output 'q'"),
        (lambda: m.function({}, x), "none for 'b1'"),
    ):
        with pytest.raises(dlvm.UserError, match=said):
            call()


def test_operations_that_are_not_known_are_refused_before_anything_runs():
    nodes = [NODE("Frobnicate", ["x"], ["y"], domain="own", name="f1")]
    with pytest.raises(dlvm.onnx.Unsupported, match="own::Frobnicate, which the node 'f1' is"):
        dlvm.onnx.load(made(nodes, [value("x", 2)], [value("y", 2)]))
    inner = helper.make_graph([NODE("Nonzeros", ["x"], ["z"])], "b", [], [value("z", 2)])
    nodes = [NODE("If", ["c"], ["y"], then_branch=inner, else_branch=inner)]
    inputs = [value("x", 2), value("c", kind=onnx.TensorProto.BOOL)]
    with pytest.raises(dlvm.onnx.Unsupported, match="did you mean 'NonZero'"):
        dlvm.onnx.load(made(nodes, inputs, [value("y", 2)]))
    nodes = [NODE("Relu", ["x"], ["y"])]
    with pytest.raises(dlvm.onnx.Unsupported, match="version 99"):
        dlvm.onnx.load(made(nodes, [value("x", 2)], [value("y", 2)], opset=99))


def test_a_user_adds_an_operation():
    key = ("com.microsoft", "BiasGelu")
    assert key not in dlvm.onnx.table.TABLE

    @dlvm.onnx.operation("com.microsoft::BiasGelu")
    def bias_gelu(call: Any, x: Any, bias: Any) -> Any:
        return dlvm.nn.gelu(x + bias, approximate=False)

    nodes = [NODE("BiasGelu", ["x", "b"], ["y"], domain="com.microsoft")]
    data = made(nodes, [value("x", "n", 4)], [value("y", "n", 4)], b=drawn(4))
    x = drawn(3, 4)
    try:
        found = dlvm.onnx.load(data)(x)["y"]
    finally:
        del dlvm.onnx.table.TABLE[key]
    np.testing.assert_allclose(found, by_runtime(data, x=x)[0], rtol=1e-4, atol=1e-6)


def test_functions_of_a_model_are_called_with_their_attributes():
    body = [
        NODE("Constant", [], ["a"]),
        NODE("Mul", ["x", "a"], ["y"]),
    ]
    body[0].attribute.append(
        onnx.AttributeProto(name="value_float", ref_attr_name="by", type=onnx.AttributeProto.FLOAT)
    )
    scaled = helper.make_function(
        "own", "Scaled", ["x"], ["y"], body, [helper.make_opsetid("", 18)], ["by"]
    )
    graph = helper.make_graph(
        [NODE("Scaled", ["x"], ["y"], domain="own", by=3.0)], "g", [value("x", 2)], [value("y", 2)]
    )
    model = helper.make_model(
        graph,
        functions=[scaled],
        opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("own", 1)],
    )
    x = drawn(2)
    np.testing.assert_array_equal(dlvm.onnx.load(model.SerializeToString())(x)["y"], 3 * x)


def loop(cond_op: str, outputs: Any, **options: Any) -> bytes:
    """A loop that doubles x until its sum is 100 or its steps are over."""
    body = helper.make_graph(
        [
            NODE("Add", ["v", "v"], ["v2"]),
            NODE("ReduceSum", ["v2"], ["total"], keepdims=0),
            NODE("Constant", [], ["limit"], value_float=100.0),
            NODE(cond_op, ["total", "limit"], ["go"]),
            NODE("Identity", ["v2"], ["row"]),
        ],
        "body",
        [value("k", kind=WHOLE), value("c", kind=onnx.TensorProto.BOOL), value("v", 2)],
        [value("go", kind=onnx.TensorProto.BOOL), value("v2", 2), *options.get("rows", [])],
    )
    return made(
        [NODE("Loop", ["steps", "", "x"], [o.name for o in outputs], body=body)],
        [value("x", 2)],
        outputs,
        steps=np.array(10),
    )


def test_a_loop_whose_condition_depends_on_data_is_a_while_loop_with_a_gradient():
    m = dlvm.onnx.load(loop("Less", [value("y", 2)]))
    x = np.array([1.0, 2.0], np.float32)
    np.testing.assert_array_equal(m(x)["y"], x * 64)
    slope = dlvm.grad(lambda x: m.function(m.weights, x)[0].sum())(x)
    np.testing.assert_array_equal(slope, [64.0, 64.0])


def test_a_loop_of_unknown_length_that_stacks_results_is_refused():
    outputs = [value("y", 2), value("rows", "n", 2)]
    m = dlvm.onnx.load(loop("Less", outputs, rows=[value("row", 2)]))
    with pytest.raises(dlvm.onnx.Unsupported, match="how many steps it has depends on data"):
        m(np.array([1.0, 2.0], np.float32))


def test_training_uses_the_statistics_of_the_batch_and_drops():
    nodes = [
        NODE("BatchNormalization", ["x", "s", "b", "mean", "var"], ["n"]),
        NODE("Dropout", ["n", "half"], ["y"]),
    ]
    weights = dict(s=np.ones(3, np.float32), b=np.zeros(3, np.float32), half=np.float32(0.5))
    weights |= dict(mean=np.zeros(3, np.float32), var=np.ones(3, np.float32))
    data = made(nodes, [value("x", "n", 3)], [value("y", "n", 3)], **weights)
    x = 5 + drawn(2000, 3)
    np.testing.assert_allclose(dlvm.onnx.load(data)(x)[0], x, rtol=1e-4)
    m = dlvm.onnx.load(data, training=True)
    with pytest.raises(dlvm.onnx.Unsupported, match="give a key"):
        m(x)
    (y,) = m.function(m.weights, x, random_key=dlvm.random.key(1))
    dropped = y == 0
    assert 0.4 < dropped.mean() < 0.6
    kept = (x - x.mean(0)) / x.std(0)
    np.testing.assert_allclose(y[~dropped], 2 * kept[~dropped], rtol=1e-2, atol=1e-2)


@pytest.mark.filterwarnings("ignore:onnx.*program for each list of sizes")
@pytest.mark.parametrize("cut", range(0, 700, 23))
def test_damaged_models_are_errors_of_users(cut: int):
    data = bytearray(network())
    rng = np.random.default_rng(cut)
    for _ in range(3):
        data[rng.integers(len(data))] = rng.integers(256)
    with contextlib.suppress(dlvm.UserError):
        dlvm.onnx.load(data)(np.ones((2, 3, 4), np.float32))
