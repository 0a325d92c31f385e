"""The messages of an ONNX file: a table that is written as dataclasses.

Each field states its number in the file and its kind: ``int``, ``uint``, ``float``, ``double``,
``text``, ``bytes``, ``view`` (bytes that stay in the file) or the name of a message. A field that
the file does not have is None, a repeated one is an empty list. ``wire`` reads and writes them, and
this file knows nothing of bytes. The numbers are those of ``onnx.proto``, version 1.23.
"""

# ruff: noqa: RUF009  (a field states its entry of the table)

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple


def one(number: int, kind: str) -> Any:
    """A field that a message has once or not at all."""
    return field(default=None, metadata={"entry": (number, kind, False)})


def many(number: int, kind: str) -> Any:
    """A repeated field."""
    return field(default_factory=list[Any], metadata={"entry": (number, kind, True)})


@dataclass(slots=True)
class Entry:
    """A pair of texts, of which maps are made."""

    key: str | None = one(1, "text")
    value: str | None = one(2, "text")


@dataclass(slots=True)
class OperatorSetId:
    """The version of a domain's operations that a model was written for."""

    domain: str | None = one(1, "text")
    version: int | None = one(2, "int")


@dataclass(slots=True)
class Segment:
    """The part of a tensor that is stored in pieces; nobody writes such files."""

    begin: int | None = one(1, "int")
    end: int | None = one(2, "int")


@dataclass(slots=True)
class Tensor:
    """An array: its elements lie in ``raw_data``, in one of the typed lists or in another file."""

    dims: list[int] = many(1, "int")
    data_type: int | None = one(2, "int")
    segment: Segment | None = one(3, "Segment")
    float_data: list[float] = many(4, "float")
    int32_data: list[int] = many(5, "int")
    string_data: list[bytes] = many(6, "bytes")
    int64_data: list[int] = many(7, "int")
    name: str | None = one(8, "text")
    raw_data: bytes | memoryview | None = one(9, "view")
    double_data: list[float] = many(10, "double")
    uint64_data: list[int] = many(11, "uint")
    doc_string: str | None = one(12, "text")
    external_data: list[Entry] = many(13, "Entry")
    data_location: int | None = one(14, "int")
    metadata_props: list[Entry] = many(16, "Entry")


@dataclass(slots=True)
class SparseTensor:
    """An array given by the elements that are not zero."""

    values: Tensor | None = one(1, "Tensor")
    indices: Tensor | None = one(2, "Tensor")
    dims: list[int] = many(3, "int")


@dataclass(slots=True)
class Dimension:
    """A size: a number, a name, or unknown."""

    dim_value: int | None = one(1, "int")
    dim_param: str | None = one(2, "text")
    denotation: str | None = one(3, "text")


@dataclass(slots=True)
class Shape:
    """The sizes of an array."""

    dim: list[Dimension] = many(1, "Dimension")


@dataclass(slots=True)
class TensorType:
    """The type of an array; without a shape even its rank is unknown."""

    elem_type: int | None = one(1, "int")
    shape: Shape | None = one(2, "Shape")


@dataclass(slots=True)
class ElementType:
    """The type of what a sequence or an optional value holds."""

    elem_type: Type | None = one(1, "Type")


@dataclass(slots=True)
class MapType:
    """The type of a dictionary."""

    key_type: int | None = one(1, "int")
    value_type: Type | None = one(2, "Type")


@dataclass(slots=True)
class Opaque:
    """A type that only its writer knows."""

    domain: str | None = one(1, "text")
    name: str | None = one(2, "text")


@dataclass(slots=True)
class Type:
    """The type of a value: one of the fields is set."""

    tensor_type: TensorType | None = one(1, "TensorType")
    sequence_type: ElementType | None = one(4, "ElementType")
    map_type: MapType | None = one(5, "MapType")
    denotation: str | None = one(6, "text")
    opaque_type: Opaque | None = one(7, "Opaque")
    sparse_tensor_type: TensorType | None = one(8, "TensorType")
    optional_type: ElementType | None = one(9, "ElementType")


@dataclass(slots=True)
class ValueInfo:
    """The name and the type of a value."""

    name: str | None = one(1, "text")
    type: Type | None = one(2, "Type")
    doc_string: str | None = one(3, "text")
    metadata_props: list[Entry] = many(4, "Entry")


@dataclass(slots=True)
class Attribute:
    """A constant of a node; ``type`` says which of the fields holds it."""

    name: str | None = one(1, "text")
    f: float | None = one(2, "float")
    i: int | None = one(3, "int")
    s: bytes | None = one(4, "bytes")
    t: Tensor | None = one(5, "Tensor")
    g: Graph | None = one(6, "Graph")
    floats: list[float] = many(7, "float")
    ints: list[int] = many(8, "int")
    strings: list[bytes] = many(9, "bytes")
    tensors: list[Tensor] = many(10, "Tensor")
    graphs: list[Graph] = many(11, "Graph")
    doc_string: str | None = one(13, "text")
    tp: Type | None = one(14, "Type")
    type_protos: list[Type] = many(15, "Type")
    type: int | None = one(20, "int")
    ref_attr_name: str | None = one(21, "text")
    sparse_tensor: SparseTensor | None = one(22, "SparseTensor")
    sparse_tensors: list[SparseTensor] = many(23, "SparseTensor")


@dataclass(slots=True)
class Node:
    """One operation of a graph; an empty name among its inputs or outputs stands for nothing."""

    input: list[str] = many(1, "text")
    output: list[str] = many(2, "text")
    name: str | None = one(3, "text")
    op_type: str | None = one(4, "text")
    attribute: list[Attribute] = many(5, "Attribute")
    doc_string: str | None = one(6, "text")
    domain: str | None = one(7, "text")
    overload: str | None = one(8, "text")
    metadata_props: list[Entry] = many(9, "Entry")


@dataclass(slots=True)
class Annotation:
    """What is known of the quantisation of a tensor."""

    tensor_name: str | None = one(1, "text")
    quant_parameter_tensor_names: list[Entry] = many(2, "Entry")


@dataclass(slots=True)
class Graph:
    """Nodes in the order in which they run, with their constants, inputs and outputs."""

    node: list[Node] = many(1, "Node")
    name: str | None = one(2, "text")
    initializer: list[Tensor] = many(5, "Tensor")
    doc_string: str | None = one(10, "text")
    input: list[ValueInfo] = many(11, "ValueInfo")
    output: list[ValueInfo] = many(12, "ValueInfo")
    value_info: list[ValueInfo] = many(13, "ValueInfo")
    quantization_annotation: list[Annotation] = many(14, "Annotation")
    sparse_initializer: list[SparseTensor] = many(15, "SparseTensor")
    metadata_props: list[Entry] = many(16, "Entry")


@dataclass(slots=True)
class TrainingInfo:
    """A graph that trains a model, and which of its outputs become which weights."""

    initialization: Graph | None = one(1, "Graph")
    algorithm: Graph | None = one(2, "Graph")
    initialization_binding: list[Entry] = many(3, "Entry")
    update_binding: list[Entry] = many(4, "Entry")


@dataclass(slots=True)
class Function:
    """An operation that a model defines by nodes."""

    name: str | None = one(1, "text")
    input: list[str] = many(4, "text")
    output: list[str] = many(5, "text")
    attribute: list[str] = many(6, "text")
    node: list[Node] = many(7, "Node")
    doc_string: str | None = one(8, "text")
    opset_import: list[OperatorSetId] = many(9, "OperatorSetId")
    domain: str | None = one(10, "text")
    attribute_proto: list[Attribute] = many(11, "Attribute")
    value_info: list[ValueInfo] = many(12, "ValueInfo")
    overload: str | None = one(13, "text")
    metadata_props: list[Entry] = many(14, "Entry")


@dataclass(slots=True)
class Model:
    """A whole file."""

    ir_version: int | None = one(1, "int")
    producer_name: str | None = one(2, "text")
    producer_version: str | None = one(3, "text")
    domain: str | None = one(4, "text")
    model_version: int | None = one(5, "int")
    doc_string: str | None = one(6, "text")
    graph: Graph | None = one(7, "Graph")
    opset_import: list[OperatorSetId] = many(8, "OperatorSetId")
    metadata_props: list[Entry] = many(14, "Entry")
    training_info: list[TrainingInfo] = many(20, "TrainingInfo")
    functions: list[Function] = many(25, "Function")


class Field(NamedTuple):
    """A field of a message: its name, its kind, and whether it is repeated."""

    name: str
    kind: str
    repeated: bool


MESSAGES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        *(Entry, OperatorSetId, Segment, Tensor, SparseTensor, Dimension, Shape, TensorType),
        *(ElementType, MapType, Opaque, Type, ValueInfo, Attribute, Node, Annotation, Graph),
        *(TrainingInfo, Function, Model),
    )
}
"""The classes of all messages by name."""


def _table(cls: type[Any]) -> dict[int, Field]:
    """The fields of a message by number, in the order of the numbers."""
    found: dict[int, Field] = {}
    for f in fields(cls):
        number, kind, repeated = f.metadata["entry"]
        found[number] = Field(f.name, kind, repeated)
    return dict(sorted(found.items()))


TABLE: dict[str, dict[int, Field]] = {name: _table(cls) for name, cls in MESSAGES.items()}
"""The fields of every message by number."""
