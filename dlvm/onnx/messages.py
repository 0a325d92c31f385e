"""The messages of an ONNX file: a table that is written as classes.

Each field states its number in the file. Its annotation says its kind, except for ``uint``,
``double`` and ``view``, which is bytes that stay in the file. A field that the file lacks is None,
or an empty list if it is repeated. ``wire`` reads and writes messages, and this file knows nothing
of bytes. The numbers are those of ``onnx.proto``, version 1.23.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar, dataclass_transform, get_args, get_type_hints

M = TypeVar("M")
MESSAGES: dict[str, type[Any]] = {}
"""The classes of all messages by name."""
KINDS = {int: "int", float: "float", str: "text", bytes: "bytes"}
"""The kinds of fields that hold no message, by their annotation."""


@dataclass_transform()
def message(cls: type[M]) -> type[M]:
    """A message of the table."""
    MESSAGES[cls.__name__] = made = dataclass(slots=True)(cls)
    return made


def one(number: int, kind: str = "") -> Any:
    """A field that a message has once or not at all."""
    return field(default=None, metadata={"entry": (number, kind, False)})


def many(number: int, kind: str = "") -> Any:
    """A repeated field."""
    return field(default_factory=list[Any], metadata={"entry": (number, kind, True)})


@message
class Entry:
    """A pair of texts, of which maps are made."""

    key: str | None = one(1)
    value: str | None = one(2)


@message
class OperatorSetId:
    """The version of a domain's operations that a model was written for."""

    domain: str | None = one(1)
    version: int | None = one(2)


@message
class Segment:
    """The part of a tensor that is stored in pieces; nobody writes such files."""

    begin: int | None = one(1)
    end: int | None = one(2)


@message
class Tensor:
    """An array: its elements lie in ``raw_data``, in one of the typed lists or in another file."""

    dims: list[int] = many(1)
    data_type: int | None = one(2)
    segment: Segment | None = one(3)
    float_data: list[float] = many(4)
    int32_data: list[int] = many(5)
    string_data: list[bytes] = many(6)
    int64_data: list[int] = many(7)
    name: str | None = one(8)
    raw_data: bytes | memoryview | None = one(9, "view")
    double_data: list[float] = many(10, "double")
    uint64_data: list[int] = many(11, "uint")
    doc_string: str | None = one(12)
    external_data: list[Entry] = many(13)
    data_location: int | None = one(14)
    metadata_props: list[Entry] = many(16)


@message
class SparseTensor:
    """An array given by the elements that are not zero."""

    values: Tensor | None = one(1)
    indices: Tensor | None = one(2)
    dims: list[int] = many(3)


@message
class Dimension:
    """A size: a number, a name, or unknown."""

    dim_value: int | None = one(1)
    dim_param: str | None = one(2)
    denotation: str | None = one(3)


@message
class Shape:
    """The sizes of an array."""

    dim: list[Dimension] = many(1)


@message
class TensorType:
    """The type of an array; without a shape even its rank is unknown."""

    elem_type: int | None = one(1)
    shape: Shape | None = one(2)


@message
class ElementType:
    """The type of what a sequence or an optional value holds."""

    elem_type: Type | None = one(1)


@message
class MapType:
    """The type of a dictionary."""

    key_type: int | None = one(1)
    value_type: Type | None = one(2)


@message
class Opaque:
    """A type that only its writer knows."""

    domain: str | None = one(1)
    name: str | None = one(2)


@message
class Type:
    """The type of a value: one of the fields is set."""

    tensor_type: TensorType | None = one(1)
    sequence_type: ElementType | None = one(4)
    map_type: MapType | None = one(5)
    denotation: str | None = one(6)
    opaque_type: Opaque | None = one(7)
    sparse_tensor_type: TensorType | None = one(8)
    optional_type: ElementType | None = one(9)


@message
class ValueInfo:
    """The name and the type of a value."""

    name: str | None = one(1)
    type: Type | None = one(2)
    doc_string: str | None = one(3)
    metadata_props: list[Entry] = many(4)


@message
class Attribute:
    """A constant of a node; ``type`` says which of the fields holds it."""

    name: str | None = one(1)
    f: float | None = one(2)
    i: int | None = one(3)
    s: bytes | None = one(4)
    t: Tensor | None = one(5)
    g: Graph | None = one(6)
    floats: list[float] = many(7)
    ints: list[int] = many(8)
    strings: list[bytes] = many(9)
    tensors: list[Tensor] = many(10)
    graphs: list[Graph] = many(11)
    doc_string: str | None = one(13)
    tp: Type | None = one(14)
    type_protos: list[Type] = many(15)
    type: int | None = one(20)
    ref_attr_name: str | None = one(21)
    sparse_tensor: SparseTensor | None = one(22)
    sparse_tensors: list[SparseTensor] = many(23)


@message
class Node:
    """One operation of a graph; an empty name among its inputs or outputs stands for nothing."""

    input: list[str] = many(1)
    output: list[str] = many(2)
    name: str | None = one(3)
    op_type: str | None = one(4)
    attribute: list[Attribute] = many(5)
    doc_string: str | None = one(6)
    domain: str | None = one(7)
    overload: str | None = one(8)
    metadata_props: list[Entry] = many(9)


@message
class Annotation:
    """What is known of the quantisation of a tensor."""

    tensor_name: str | None = one(1)
    quant_parameter_tensor_names: list[Entry] = many(2)


@message
class Graph:
    """Nodes in the order in which they run, with their constants, inputs and outputs."""

    node: list[Node] = many(1)
    name: str | None = one(2)
    initializer: list[Tensor] = many(5)
    doc_string: str | None = one(10)
    input: list[ValueInfo] = many(11)
    output: list[ValueInfo] = many(12)
    value_info: list[ValueInfo] = many(13)
    quantization_annotation: list[Annotation] = many(14)
    sparse_initializer: list[SparseTensor] = many(15)
    metadata_props: list[Entry] = many(16)


@message
class TrainingInfo:
    """A graph that trains a model, and which of its outputs become which weights."""

    initialization: Graph | None = one(1)
    algorithm: Graph | None = one(2)
    initialization_binding: list[Entry] = many(3)
    update_binding: list[Entry] = many(4)


@message
class Function:
    """An operation that a model defines by nodes."""

    name: str | None = one(1)
    input: list[str] = many(4)
    output: list[str] = many(5)
    attribute: list[str] = many(6)
    node: list[Node] = many(7)
    doc_string: str | None = one(8)
    opset_import: list[OperatorSetId] = many(9)
    domain: str | None = one(10)
    attribute_proto: list[Attribute] = many(11)
    value_info: list[ValueInfo] = many(12)
    overload: str | None = one(13)
    metadata_props: list[Entry] = many(14)


@message
class Model:
    """A whole file."""

    ir_version: int | None = one(1)
    producer_name: str | None = one(2)
    producer_version: str | None = one(3)
    domain: str | None = one(4)
    model_version: int | None = one(5)
    doc_string: str | None = one(6)
    graph: Graph | None = one(7)
    opset_import: list[OperatorSetId] = many(8)
    metadata_props: list[Entry] = many(14)
    training_info: list[TrainingInfo] = many(20)
    functions: list[Function] = many(25)


class Field(NamedTuple):
    """A field: its name, its kind or the name of its message, and whether it is repeated."""

    name: str
    kind: str
    repeated: bool


def _table(cls: type[Any]) -> dict[int, Field]:
    """The fields of a message by number, in the order of the numbers."""
    found: dict[int, Field] = {}
    hints = get_type_hints(cls)
    for f in fields(cls):
        number, kind, repeated = f.metadata["entry"]
        held = get_args(hints[f.name])[0]
        found[number] = Field(f.name, kind or KINDS.get(held) or held.__name__, repeated)
    return dict(sorted(found.items()))


TABLE: dict[str, dict[int, Field]] = {name: _table(cls) for name, cls in MESSAGES.items()}
"""The fields of every message by number."""
