"""Remedies of ``dlvm.onnx``, each with a refused script and what mends it."""

from __future__ import annotations

import numpy as np

from dlvm.onnx import messages as m
from dlvm.onnx.tensors import tensor
from dlvm.onnx.wire import write

from .typing_in import Script


def model(op: str = "Relu", opset_version: int = 18, folder: str = "") -> bytes:
    """A model of one operation of a vector of three; with a folder, it adds a weight there."""
    shape = m.Shape(dim=[m.Dimension(dim_value=3)])
    kind = m.Type(tensor_type=m.TensorType(elem_type=1, shape=shape))
    node = m.Node(input=["x"], output=["y"], op_type=op, domain="own" if op == "Twice" else "")
    graph = m.Graph(
        name="g",
        node=[node],
        input=[m.ValueInfo(name="x", type=kind)],
        output=[m.ValueInfo(name="y", type=kind)],
    )
    if folder:
        w = tensor("w", np.ones(3, np.float32))
        with open(f"{folder}/w.bin", "wb") as file:
            file.write(w.raw_data or b"")
        w.raw_data, w.data_location = None, 1
        w.external_data = [m.Entry(key="location", value="w.bin")]
        graph.initializer, node.input = [w], ["x", "w"]
    versions = [m.OperatorSetId(version=opset_version), m.OperatorSetId(domain="own", version=1)]
    data = write(m.Model(ir_version=9, graph=graph, opset_import=versions))
    if folder:
        with open(f"{folder}/net.onnx", "wb") as file:
            file.write(data)
    return data


MODEL = "from tests.names.typed_onnx import model\n"
LOADED = f"{MODEL}m = dlvm.onnx.load(model())\n"
FOLDER = "import tempfile\nfolder = tempfile.mkdtemp()\n"
BESIDE = f"{MODEL}{FOLDER}saved = model('Add', folder=folder)\n"

MODELS = (
    Script(
        f"{MODEL}dlvm.onnx.load(model(opset_version=99))",
        "(opset_version=.*)",
        f"{MODEL}dlvm.onnx.load(model({{0}}))(X.astype(np.float32))[0].astype(float)",
        "X",
    ),
    Script(
        f"{LOADED}m(np.ones((2, 3), np.float32))",
        r"(repr\(m\))",
        f"{LOADED}'f32[3]' in {{0}}",
        "True",
    ),
    Script(
        f"{LOADED}x = X\nm(x)",
        r"write (x\.astype.*)",
        f"{LOADED}x = X\nm({{0}})[0].astype(float)",
        "X",
    ),
    Script(
        f"{MODEL}dlvm.onnx.load(model('Twice'))",
        "(@dlvm.*)",
        "{0}\ndef twice(call, x):\n    return x + x\n"
        f"{MODEL}y = dlvm.onnx.load(model('Twice'))(X.astype(np.float32))[0].astype(float)\n"
        "(y, dlvm.onnx.table.TABLE.pop(('own', 'Twice')))[0]",
        "2 * X",
    ),
    Script(
        f"{BESIDE}dlvm.onnx.load(saved)",
        r"(dlvm\.onnx\.load\(path\))",
        f"{BESIDE}path = folder + '/net.onnx'\n{{0}}(X.astype(np.float32))[0].astype(float)",
        "X + 1",
    ),
)
