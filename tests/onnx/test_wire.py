"""The reader and the writer of ONNX files beside those of the package onnx, and hostile bytes."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.onnx import messages, wire
from dlvm.onnx.messages import TABLE, Entry, Graph, Model, Node, Tensor
from dlvm.onnx.tensors import TYPES, array, tensor

onnx = pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")


DEVICES = ("device_configurations", "configuration")
"""On which devices a model runs: skipped as any unknown field is."""


def small() -> bytes:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node("Gemm", ["x", "w"], ["y"], alpha=0.5, transB=1)],
            "g",
            [onnx.helper.make_tensor_value_info("x", 1, ["batch", 3])],
            [onnx.helper.make_tensor_value_info("y", 1, ["batch", 2])],
            [onnx.numpy_helper.from_array(x, "w")],
        )
    )
    return made.SerializeToString()


def alike(ours: Any, theirs: Any) -> None:
    """Every field of a message has the value that protobuf reads."""
    for entry in TABLE[type(ours).__name__].values():
        mine, other = getattr(ours, entry.name), getattr(theirs, entry.name)
        if entry.repeated:
            assert len(mine) == len(other)
        elif mine is None:
            assert not theirs.HasField(entry.name)
            continue
        pairs = zip(mine, other, strict=True) if entry.repeated else [(mine, other)]
        for a, b in pairs:
            if entry.kind in TABLE:
                alike(a, b)
            else:
                assert a == b or a != a


def test_every_field_of_protobuf_is_in_the_table():
    for name in TABLE:
        theirs = {"Type": "TypeProto", "OperatorSetId": "OperatorSetIdProto"}
        nested = {
            "TensorType": "TypeProto.Tensor",
            "MapType": "TypeProto.Map",
            "ElementType": "TypeProto.Sequence",
            "Opaque": "TypeProto.Opaque",
            "Segment": "TensorProto.Segment",
            "Dimension": "TensorShapeProto.Dimension",
            "Shape": "TensorShapeProto",
            "Entry": "StringStringEntryProto",
            "Annotation": "TensorAnnotation",
            "TrainingInfo": "TrainingInfoProto",
            "ValueInfo": "ValueInfoProto",
        }
        made: Any = onnx
        for part in (nested.get(name) or theirs.get(name) or f"{name}Proto").split("."):
            made = getattr(made, part, None)
        known = {f.number: f.name for f in made.DESCRIPTOR.fields if f.name not in DEVICES}
        assert {n: f.name for n, f in TABLE[name].items()} == known, name


def test_a_model_reads_as_protobuf_reads_it_and_is_written_back():
    data = small()
    model = wire.read(data)
    theirs = onnx.ModelProto.FromString(data)
    alike(model, theirs)
    assert onnx.ModelProto.FromString(wire.write(model)) == theirs


def test_weights_are_views_of_the_bytes():
    data = small()
    w = array(wire.read(data).graph.initializer[0])
    np.testing.assert_array_equal(w, np.arange(6, dtype=np.float32).reshape(2, 3))
    again = Tensor(dims=[2], data_type=2, raw_data=memoryview(b"ab"))
    assert np.shares_memory(array(again), np.frombuffer(again.raw_data or b"", np.uint8))


@pytest.mark.parametrize("number", TYPES)
def test_elements_of_every_type_go_there_and_back(number: int):
    x = np.array([0, 1, 1, 0], TYPES[number]).reshape(2, 2)
    ours = tensor("x", x)
    assert ours.data_type == number
    theirs = onnx.TensorProto.FromString(wire.write(ours))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(theirs), x)
    np.testing.assert_array_equal(array(ours), x)
    listed = onnx.helper.make_tensor("x", number, [2, 2], x.reshape(-1).tolist())
    np.testing.assert_array_equal(array(wire.read(listed.SerializeToString(), "Tensor")), x)


def test_bytes_that_are_no_model_are_malformed_and_nothing_else():
    rng, data = random.Random(0), small()
    failures = 0
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        if rng.random() < 0.3:
            del changed[rng.randrange(len(changed)) :]
        try:
            model: Model = wire.read(changed)
            for t in model.graph.initializer if model.graph else []:
                array(t)
        except dlvm.UserError:
            failures += 1
    assert 100 < failures < 2000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Tensor(dims=[3], data_type=1, raw_data=b"12345678"), "expected 3 elements"),
        (Tensor(dims=[2], data_type=1, raw_data=b"1234567"), "elements of 4 bytes"),
        (Tensor(dims=[-1], data_type=1), "none negative"),
        (Tensor(dims=[2**40, 2**40], data_type=1), "none negative"),
        (Tensor(dims=[1] * 40, data_type=1), "at most 32 sizes"),
        (Tensor(dims=[1], data_type=22), "INT4"),
    ],
)
def test_tensors_that_do_not_fit_their_bytes_are_refused(given: Tensor, said: str):
    with pytest.raises(dlvm.UserError, match=said):
        array(given)


def external(location: str, **more: str) -> Tensor:
    entries = {"location": location, **more}
    pairs = [Entry(key=k, value=v) for k, v in entries.items()]
    return Tensor(dims=[2], data_type=1, data_location=1, external_data=pairs, name="w")


def test_weights_in_another_file_lie_in_the_folder_of_the_model(tmp_path: Path):
    folder = tmp_path / "model"
    folder.mkdir()
    values = np.array([9, 1, 2], np.float32)
    for place in (folder, tmp_path):
        (place / "w.bin").write_bytes(values.tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    found = array(external("w.bin", offset="4", length="8"), folder)
    np.testing.assert_array_equal(found, values[1:])
    for location in ("../w.bin", str(tmp_path / "w.bin"), "link.bin", "", "missing", "."):
        with pytest.raises(wire.Malformed, match="in the folder of the model"):
            array(external(location, length="8"), folder)
    with pytest.raises(wire.Malformed, match="expected 16 bytes"):
        array(external("w.bin", offset="8", length="8"), folder)
    with pytest.raises(wire.Malformed, match="a number of bytes"):
        array(external("w.bin", offset="-4"), folder)
    with pytest.raises(dlvm.UserError, match="given as bytes"):
        array(external("w.bin"))


def test_messages_too_deep_are_malformed():
    inner = Graph(name="innermost")
    for _ in range(40):
        attribute = messages.Attribute(name="body", g=inner, type=5)
        inner = Graph(node=[Node(op_type="If", attribute=[attribute])])
    with pytest.raises(wire.Malformed, match="nested more than"):
        wire.read(wire.write(Model(graph=inner)))
