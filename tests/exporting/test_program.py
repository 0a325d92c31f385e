"""What every format gets: one function, with captured arrays as constants; and the options."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import ops
from dlvm.cli import main
from dlvm.exporting.program import Language, in_words, program_of
from dlvm.ir import Module

W = np.arange(6, dtype=np.float32).reshape(3, 2)


def layer(x):
    return dlvm.tanh(x @ W)


def test_captured_arrays_are_constants():
    program = program_of(layer, [dlvm.spec("f32[B,3]")], {})
    assert program.arguments == ("x",)
    assert [str(p.type) for p in program.function.params] == ["f32[B,3]"]
    held = [op.value for op in program.function.ops if isinstance(op, ops.Constant)]
    np.testing.assert_array_equal(held[0], W)
    x = np.ones((2, 3), np.float32)
    (found,) = Module((program.function,)).run(program.function.name, x)
    np.testing.assert_allclose(found, layer(x), rtol=1e-6)


@dlvm.function(donate=("w",))
def step(w, x):
    return w - 0.1 * dlvm.grad(lambda w: dlvm.checkpoint(lambda w: dlvm.sin(x @ w).sum())(w))(w)


def test_calls_and_checkpoints_are_written_where_they_stand():
    program = program_of(step, [np.ones(3), np.ones((4, 3))], {})
    kinds = {type(op) for op in program.function.walk()}
    assert not kinds & {ops.Call, ops.Checkpoint, ops.Recompute}
    (found,) = Module((program.function,)).run(program.function.name, np.ones(3), np.ones((4, 3)))
    np.testing.assert_allclose(found, step(np.ones(3), np.ones((4, 3))), rtol=1e-12)


FEW = (ops.Add, ops.Sub, ops.Mul, ops.Div, ops.Neg, ops.Exp, ops.Log1p, ops.Abs, ops.Maximum)
BASIC = (*FEW, ops.Less, ops.Equal, ops.Select, ops.Constant, ops.Broadcast, ops.Permute, ops.Scan)


@pytest.mark.parametrize(
    "f", [dlvm.sigmoid, lambda x: dlvm.logaddexp(x, -x), lambda x: dlvm.cumprod(x, axis=0)]
)
def test_what_a_format_lacks_is_written_in_what_it_has(f):
    x = np.array([[-90.0, 0.5], [3.0, -0.0]])
    program = program_of(f, [x], {})
    language = Language("basic", lambda op: isinstance(op, BASIC), {})
    plain = in_words(program.function, language)
    assert {type(op) for op in plain.walk()} <= {*BASIC}
    (found,) = Module((plain,)).verify().run(plain.name, x)
    np.testing.assert_allclose(found, dlvm.function(f)(x), rtol=1e-12)


def test_options_that_a_format_lacks_are_refused():
    with pytest.raises(dlvm.UserError, match="'stablehlo' has no option 'opset'; it has none"):
        dlvm.export(layer, np.ones((1, 3), np.float32), format="stablehlo", opset=18)
    with pytest.raises(dlvm.UserError, match="expected one of 'onnx', 'stablehlo'"):
        dlvm.export(layer, np.ones((1, 3), np.float32), format="gguf")


def test_the_command_writes_a_file(tmp_path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "model.py"
    script.write_text("import dlvm\n\n\ndef f(x):\n    return dlvm.sin(x)\n")
    out = tmp_path / "f.onnx"
    assert main(["export", f"{script}:f", "f32[B]", "--to", "onnx", "--out", str(out)]) == 0
    assert dlvm.onnx.load(out)(np.zeros(3, np.float32))[0].shape == (3,)
    assert main(["export", f"{script}:f", "f32[B]", "--to", "stablehlo"]) == 0
    assert "stablehlo.sine" in capsys.readouterr().out
    assert main(["export", f"{script}:f", "f32[B]", "--to", "gguf"]) == 1
