"""Which values of a model must be known while its program is made: one pass from the back.

An operand at a ``known`` position of the table is needed, and so is everything from which it is
computed. Only the size of an array is asked for by Shape and Size, so the pass stops there. A
needed input of the model is static by value; a needed weight is a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .messages import Function, Graph, Node
from .table import TABLE, Key, key_of_node

SIZES_ONLY = ("Shape", "Size", "EyeLike")
"""Operations that read the type of an operand, not its elements."""
Functions = Mapping[Key, Function]


def needed(graph: Graph | Function, functions: Functions, wanted: Iterable[str] = ()) -> set[str]:
    """The names of a graph whose values must be known, if those that are ``wanted`` must be."""
    found = set(wanted)
    for node in reversed(graph.node):
        used = any(name in found for name in node.output)
        found |= _of_node(node, used, functions, found)
    return found - {""}


def _of_node(node: Node, used: bool, functions: Functions, wanted: set[str]) -> set[str]:
    """The operands of a node, and names of the graph around it, whose values must be known."""
    key = key_of_node(node)
    if key in functions:
        return _of_function(node, functions[key], functions, wanted)
    entry = TABLE.get(key)
    known = entry.known if entry is not None else frozenset[int]()
    every = used and node.op_type not in SIZES_ONLY
    found = {name for k, name in enumerate(node.input) if every or k in known}
    for body in bodies(node):
        outputs = [v.name or "" for v in body.output] if used else []
        found |= needed(body, functions, outputs) - _own(body)
    return found


def _of_function(node: Node, fn: Function, functions: Functions, wanted: set[str]) -> set[str]:
    pairs = zip(fn.output, node.output, strict=False)
    inside = needed(fn, functions, [inner for inner, outer in pairs if outer in wanted])
    return {outer for inner, outer in zip(fn.input, node.input, strict=False) if inner in inside}


def bodies(node: Node) -> list[Graph]:
    """The graphs in the attributes of a node."""
    return [g for a in node.attribute for g in (a.g, *a.graphs) if g is not None]


def _own(graph: Graph) -> set[Any]:
    """The names that a graph defines itself."""
    made = {name for node in graph.node for name in node.output}
    return made | {x.name for x in (*graph.input, *graph.initializer)}
