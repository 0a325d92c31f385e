"""How many nodes run when every function of a model is written out where it is called.

Functions run anew at each call, so that a chain of functions which call the one before twice
doubles at each step. Such models are refused before any node runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .messages import Function, Graph, Node
from .table import Key, Unsupported, key_of_node
from .uses import bodies
from .wire import Malformed

MOST_NODES = 100_000
"""Nodes that may run in functions of a model, each counted at every call of its function."""
DEEPEST = 50
"""How deep functions of a model may call one another."""
Functions = Mapping[Key, Function]


def every_node(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes and those in their bodies, however deep."""
    pending = list(reversed(nodes))
    while pending:
        node = pending.pop()
        yield node
        for body in bodies(node):
            pending.extend(reversed(body.node))


def check_extent(graph: Graph, functions: Functions) -> None:
    """Refuses functions that call themselves, nest too deeply, or run too many nodes."""
    counts: dict[Key, int] = {}
    for key in _called(graph.node, functions):
        if key not in counts:
            _count(key, functions, counts)
    total = sum(counts[key] for key in _called(graph.node, functions))
    if total > MOST_NODES:
        largest = max(counts, key=lambda key: counts[key])
        raise Unsupported(
            f"onnx: expected at most {MOST_NODES:,} nodes in functions, each counted at every call "
            f"of its function, found {total:,}; one call of {largest[1]!r} runs "
            f"{counts[largest]:,}",
            remedy="export the model with a Loop or Scan in the place of functions that repeat",
        )


def _called(nodes: Sequence[Node], functions: Functions) -> list[Key]:
    """The functions that nodes call, once for each call."""
    return [key for node in every_node(nodes) if (key := key_of_node(node)) in functions]


def _count(start: Key, functions: Functions, counts: dict[Key, int]) -> None:
    """Notes how many nodes a call of a function runs, and of those that it calls."""
    path: list[tuple[Key, Iterator[Key]]] = []
    pending: Key | None = start
    while True:
        if pending is not None and pending not in counts:
            _check_path([key for key, _ in path], pending)
            path.append((pending, iter(_called(functions[pending].node, functions))))
        key, rest = path[-1]
        if (pending := next(rest, None)) is not None:
            continue
        inner = sum(counts[callee] for callee in _called(functions[key].node, functions))
        counts[key] = inner + sum(1 for _ in every_node(functions[key].node))
        path.pop()
        if not path:
            return


def _check_path(path: Sequence[Key], entered: Key) -> None:
    """Refuses a call of a function that is active already, or that is too deep."""
    if entered in path:
        round_ = " -> ".join(repr(name) for _, name in (*path[path.index(entered) :], entered))
        raise Malformed(
            f"onnx: the function {entered[1]!r} calls itself: {round_}; expected functions that "
            "call others only",
            remedy="export the model with a Loop in the place of the call",
        )
    if len(path) > DEEPEST:
        raise Unsupported(
            f"onnx: expected functions that call one another at most {DEEPEST} deep, found more at "
            f"{entered[1]!r}",
            remedy="inline the functions first, as the inliner of the package onnx does",
        )
