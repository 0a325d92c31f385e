"""The attributes of a node as Python values: numbers, texts, lists, arrays and graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from .messages import Attribute, Node
from .table import Unsupported, described
from .tensors import array
from .wire import Malformed

FLOAT, INT, STRING, TENSOR, GRAPH, FLOATS, INTS, STRINGS = range(1, 9)
READERS: dict[int, Callable[[Attribute], Any]] = {
    FLOAT: lambda a: a.f or 0.0,
    INT: lambda a: a.i or 0,
    STRING: lambda a: text(a.s or b""),
    GRAPH: lambda a: a.g,
    FLOATS: lambda a: list(a.floats),
    INTS: lambda a: list(a.ints),
    STRINGS: lambda a: [text(s) for s in a.strings],
}
"""The value of an attribute of each type, but for arrays."""


def attributes(node: Node, outer: Mapping[str, Attribute], folder: Path | None) -> dict[str, Any]:
    """The attributes of a node; ``outer`` are those of the function that the node is part of."""
    found: dict[str, Any] = {}
    for given in node.attribute:
        a = outer.get(given.ref_attr_name) if given.ref_attr_name else given
        if a is not None:  # what a call of the function leaves out, the node does not have
            found[given.name or ""] = _value(node, a, folder)
    return found


def _value(node: Node, a: Attribute, folder: Path | None) -> Any:
    kind = a.type or _kind(a)
    if kind == TENSOR and a.t is not None:
        return array(a.t, folder)
    if kind not in READERS:
        raise Unsupported(
            f"onnx: the attribute {a.name!r} of {described(node)} is of type {kind}, which dlvm "
            "can't use",
            remedy="export the model without sparse arrays, sequences and optional values",
        )
    return READERS[kind](a)


def _kind(a: Attribute) -> int:
    """The type of an attribute in old files, which do not state it."""
    ways = {FLOAT: a.f, INT: a.i, STRING: a.s, TENSOR: a.t, GRAPH: a.g}
    given = [kind for kind, x in ways.items() if x is not None]
    lists = {FLOATS: a.floats, INTS: a.ints, STRINGS: a.strings}
    return next(iter([*given, *(kind for kind, x in lists.items() if x)]), INTS)


def text(data: bytes) -> str:
    """Bytes as text."""
    try:
        return data.decode("utf8")
    except UnicodeDecodeError:
        raise Malformed(
            f"onnx: expected text in UTF-8 in an attribute, found {data!r:.40}"
        ) from None
