"""What is checked of a model before anything of it runs: its versions and its operations."""

from __future__ import annotations

from collections.abc import Mapping

from .extent import check_extent, every_node
from .messages import Function, Graph
from .messages import Model as Message
from .table import STANDARD, TABLE, Key, Unsupported, key_of_node, unknown

NEWEST = 28
"""The newest version of ONNX's own operations that the table knows."""


def versions_of(message: Message) -> dict[str, int]:
    """The version of each domain that a model was written for."""
    versions: dict[str, int] = {}
    for o in message.opset_import:
        domain = "" if (o.domain or "") in STANDARD else o.domain or ""
        versions[domain] = o.version or 1
    if versions.get("", 1) > NEWEST:
        raise Unsupported(
            f"onnx: the model was written for version {versions['']} of the operations, and dlvm "
            f"knows those up to {NEWEST}",
            remedy=f"export it with opset_version={NEWEST}",
        )
    return versions


def check(graph: Graph, functions: Mapping[Key, Function]) -> None:
    """Refuses operations and types that dlvm does not have, in bodies and functions too."""
    for node in every_node([*graph.node, *(n for f in functions.values() for n in f.node)]):
        key = key_of_node(node)
        if key not in TABLE and key not in functions:
            raise unknown(node)
    check_extent(graph, functions)
    if graph.sparse_initializer:
        raise Unsupported(
            "onnx: the model has sparse weights, which dlvm can't use",
            remedy="export the model with dense weights",
        )
