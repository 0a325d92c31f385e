"""Runs the nodes of a graph: what is known is computed at once, everything else is staged.

A value is an array of NumPy as long as it follows from constants, sizes and static inputs. Such
values are computed outside of the trace, so that no operation is recorded for them.
"""

from __future__ import annotations

import contextvars
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.dsl.words.namespace import xp

from . import sizes
from .attributes import attributes
from .messages import Attribute, Function, Graph, Node
from .table import TABLE, Call, Key, Operation, Unsupported, described, key_of_node, short, unknown
from .tensors import array
from .uses import tensor_of
from .wire import Malformed

MOST_BYTES = 1 << 30
"""Bytes of a value that is computed while a program is made, beside those that weights allow."""
UNPACKED = 8
"""Bytes of such a value for each byte of the weights, as of f32 made from numbers of 4 bits."""
UNFIT = (LookupError, ArithmeticError, ValueError, TypeError, AttributeError)
"""What operations raise for attributes and operands that do not fit them."""
Values = dict[str, Any]


@dataclass
class Run:
    """One run of a model, and what all its graphs share.

    ``weights`` counts the bytes of the stored arrays. ``arrays`` has values of tensors of the file
    by identity: those that were read, and those that a caller gave for weights.
    """

    functions: Mapping[Key, Function]
    versions: Mapping[str, int]
    folder: Path | None
    training: bool = False
    key: Any = None
    weights: int = 0
    drawn: int = 0
    arrays: dict[int, Any] = field(default_factory=dict[int, Any])

    def number(self) -> int:
        """The number of the next random node."""
        self.drawn += 1
        return self.drawn


@dataclass(frozen=True)
class Place:
    """Where nodes run: the attributes and versions of the function around them."""

    run: Run
    versions: Mapping[str, int]
    outer: Mapping[str, Attribute]


def results(place: Place, graph: Graph, values: Values, given: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a graph for values of its inputs; names from around it are in ``values``."""
    inside = dict(values)
    inside.update((x.name or "", value) for x, value in zip(graph.input, given, strict=False))
    for t in graph.initializer:
        if (t.name or "") not in inside or t.name not in {x.name for x in graph.input}:
            inside[t.name or ""] = _constant(place.run, t)
    run_nodes(place, graph.node, inside)
    return tuple(_found(inside, x.name or "", None) for x in graph.output)


def run_nodes(place: Place, nodes: Sequence[Node], values: Values) -> None:
    """Runs nodes in their order; what they make is put beside the values that there are."""
    for k, node in enumerate(nodes):
        operands = [_found(values, name, node) if name else None for name in node.input]
        made = _made(place, node, operands, Around(nodes[:k], values))
        if len([name for name in node.output if name]) > len(made):
            raise Malformed(
                f"onnx: {node.op_type}, {described(node)}: expected {len(node.output)} results, "
                f"found {len(made)}"
            )
        values.update(zip(node.output, made, strict=False))


def _constant(run: Run, tensor: Any) -> Any:
    if id(tensor) not in run.arrays:
        run.arrays[id(tensor)] = array(tensor, run.folder)
    return run.arrays[id(tensor)]


def _found(values: Values, name: str, node: Node | None) -> Any:
    if name not in values:
        where = f"{described(node)} reads" if node is not None else "a graph returns"
        raise Malformed(f"onnx: {where} {short(name)!r}, which no node before it makes")
    return values[name]


@dataclass(frozen=True)
class Around:
    """The nodes of a graph before the one that runs, and all values that it can see."""

    nodes: Sequence[Node]
    values: Values


def again(place: Place, around: Around, changed: Mapping[str, Any], wanted: str) -> Any:
    """A value of the graph when some others are replaced; only what depends on them runs again."""
    values = {**around.values, **changed}
    touched = set(changed)
    for node in around.nodes:
        if touched.intersection(node.input) and not touched.issuperset(node.output):
            run_nodes(place, [node], values)
            touched.update(node.output)
    return _found(values, wanted, None)


def _made(place: Place, node: Node, operands: list[Any], around: Around) -> tuple[Any, ...]:
    """The results of one node."""
    key = key_of_node(node)
    if key in place.run.functions:
        return _called(place, node, place.run.functions[key], operands)
    entry = TABLE.get(key)
    if entry is None:
        raise unknown(node)
    if (t := tensor_of(node)) is not None and id(t) in place.run.arrays:
        return (place.run.arrays[id(t)],)
    while operands and operands[-1] is None:
        operands.pop()
    call = Call(
        node,
        place.versions.get(key[0], 1),
        attributes(node, place.outer, place.run.folder),
        place.run.training,
        lambda graph, args: results(place, graph, around.values, args),
        lambda changed, wanted: again(place, around, changed, wanted),
        place.run.key,
        place.run.number,
        MOST_BYTES + UNPACKED * place.run.weights,
    )
    found = _tuple(_evaluated(call, entry, operands))
    for value in found:
        if isinstance(value, np.ndarray):
            call.check_bytes(value.size, value.itemsize)
    return found


def _called(place: Place, node: Node, fn: Function, operands: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a function of the model."""
    given = {a.name or "": a for a in (*fn.attribute_proto, *node.attribute)}
    for name, a in list(given.items()):
        if a.ref_attr_name and a.ref_attr_name in place.outer:
            given[name] = place.outer[a.ref_attr_name]
    versions = {o.domain or "": o.version or 1 for o in fn.opset_import} or place.versions
    values: Values = dict.fromkeys(fn.input)
    values.update(zip(fn.input, operands, strict=False))
    inner = Place(place.run, {**place.versions, **versions}, given)
    run_nodes(inner, fn.node, values)
    return tuple(_found(values, name, node) for name in fn.output)


def _evaluated(call: Call, entry: Operation, operands: list[Any]) -> Any:
    """The result of an operation; what does not fit the operation is an error of the model."""
    where = f"onnx: {call.node.op_type}, {described(call.node)}"
    for k in entry.known:
        if k < len(operands) and not (entry.bodies or sizes.is_known(operands[k])):
            raise _not_known(call, k)
    if not entry.takes(len(operands)):
        raise Malformed(f"{where}: it does not take {len(operands)} operands")
    try:
        return _computed(call, entry, operands)
    except UserError as error:
        raise _located(where, error) from None
    except MemoryError as error:
        raise call.unsupported(
            "what it computes while the program is made does not fit into memory",
            "give smaller numbers where the model computes sizes",
        ) from error
    except UNFIT as error:
        what = f"{type(error).__name__}: {error}"
        raise Malformed(f"{where}: its attributes and operands do not fit: {what}") from error


def _computed(call: Call, entry: Operation, operands: list[Any]) -> Any:
    """The result of an operation, computed now if all of its operands are known."""
    known = all(map(sizes.is_known, operands)) and not entry.bodies
    if any(map(sizes.has_sizes, operands)):
        found = sizes.computed(call.node.op_type or "", call, operands) if known else None
        if found is not None:
            return found
        operands = [
            sizes.staged(x) if sizes.has_sizes(x) and k not in entry.known else x
            for k, x in enumerate(operands)
        ]
    elif known:
        return contextvars.Context().run(entry.run, call, *operands)
    return entry.run(call, *operands)


def _not_known(call: Call, k: int) -> Unsupported:
    return call.unsupported(
        f"the operand {short(call.node.input[k])!r} at position {k} depends on elements of arrays "
        "that are not known while the program is made",
        "export the model so that this operand is a constant or follows from shapes",
    )


def _located(where: str, error: UserError) -> UserError:
    """An error with the node in front of its words."""
    if not error.message.startswith("onnx"):
        error.message = f"{where}: {error.message}"
    return error


def _tuple(found: Any) -> tuple[Any, ...]:
    if isinstance(found, tuple | list):
        row: Any = found  # pyright: ignore[reportUnknownVariableType]
        return tuple(_settled(x) for x in row)
    return (_settled(found),)


def _settled(x: Any) -> Any:
    """A result as a value: numbers become arrays."""
    return np.asarray(x) if isinstance(x, np.generic | int | float | bool) else x


def concrete(x: Any) -> Any:
    """A result of a model: an array, in a trace a staged one."""
    return sizes.staged(x) if sizes.has_sizes(x) else xp.asarray(x)
