"""What is exported as ONNX: the checker passes in full, and onnxruntime computes what we do."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

from .programs import CASES

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install onnx")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnxruntime")

NO_KERNEL = {"shifts": "BitShift takes unsigned integers", "halves": "few kernels take f16"}


def run(data, arrays):
    onnx.checker.check_model(onnx.load_model_from_string(data), full_check=True)
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def flat(found):
    return [np.asarray(leaf) for leaf in dlvm.tree.leaves(found)]


@pytest.mark.parametrize("name", [n for n in CASES if n not in NO_KERNEL])
def test_onnxruntime_computes_what_we_compute(name: str):
    case = CASES[name]
    data = dlvm.export(case.f, *case.types, format="onnx")
    expected = flat(dlvm.function(case.f)(*case.args))
    found = run(data, [np.asarray(a) for a in case.args])
    assert [a.dtype for a in found] == [a.dtype for a in expected]
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=5e-6)


def test_open_sizes_keep_their_names():
    case = CASES["open gradient"]
    data = dlvm.export(case.f, *case.types, format="onnx")
    model = onnx.load_model_from_string(data)
    sizes = [d.dim_param or d.dim_value for d in model.graph.input[2].type.tensor_type.shape.dim]
    assert sizes == ["N", 3]
    assert (model.ir_version, model.opset_import[0].version) == (10, 18)
    for batch in (1, 7):
        args = (*case.args[:2], np.ones((batch, 3), np.float32))
        for theirs, ours in zip(run(data, args), flat(case.f(*args)), strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-6)


def test_a_newer_version_is_written_where_it_is_asked_for():
    data = dlvm.export(lambda x: dlvm.sort(x), np.ones(3, np.float32), format="onnx", opset=21)
    assert onnx.load_model_from_string(data).opset_import[0].version == 21
    with pytest.raises(dlvm.UserError, match="expected a version from 18 to 25"):
        dlvm.export(lambda x: x + 1, 1.0, format="onnx", opset=7)


def test_what_has_no_form_is_refused_with_its_name_and_line():
    with pytest.raises(dlvm.UserError, match="ONNX has no form for the operation lgamma") as caught:
        dlvm.export(lambda x: dlvm.lgamma(x), np.ones(3), format="onnx")
    assert "dlvm.lgamma(x)" in str(caught.value)
    with pytest.raises(dlvm.UserError, match="shift_left"):
        dlvm.export(lambda n: n << 2, np.arange(3), format="onnx")


def test_an_index_outside_reads_the_nearest_and_writes_nothing():
    x, i = np.arange(4.0, dtype=np.float32), np.array([1, 9, -9])
    read, written = run(
        dlvm.export(lambda x, i: (x[i], x.at[i].set(-1.0)), x, i, format="onnx"), [x, i]
    )
    np.testing.assert_array_equal(read, [1, 3, 0])
    np.testing.assert_array_equal(written, [0, -1, 2, 3])


def test_what_we_export_we_load():
    f = lambda x: dlvm.tanh(x @ x.T).sum(1)  # noqa: E731
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    (found,) = dlvm.onnx.load(dlvm.export(f, x, format="onnx"))(x)
    np.testing.assert_allclose(found, f(x), rtol=1e-6)
