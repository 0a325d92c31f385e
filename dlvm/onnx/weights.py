"""The arrays that a file stores, and which of them are the weights of the model.

Arrays are stored as initialisers of a graph, of its bodies, and in Constant nodes, those of
functions too. ``uses`` says what becomes of each. Here it is decided, with a look at the elements:
one number that is added or multiplied is a constant, as is an array that hides elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .extent import every_node
from .messages import Function, Graph, Tensor
from .table import Key
from .tensors import array
from .uses import FLOATS, Finding, Use, tensor_of

Array = np.ndarray[Any, Any]
HUGE = 1e4
"""From this magnitude on a number that is added stands for infinity."""
HIDES = -100
"""A mask of two values, of which one is 0, hides elements by this number or less."""


@dataclass
class Stored:
    """The arrays of a model by name: its weights, other floats, and arrays of integers.

    ``inner`` has, by the same names, the tensors that are no initialisers of the outermost graph.
    """

    weights: dict[str, Array] = field(default_factory=dict[str, Array])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    integers: dict[str, Array] = field(default_factory=dict[str, Array])
    inner: dict[str, Tensor] = field(default_factory=dict[str, Tensor])

    @property
    def names(self) -> set[str]:
        """The names of all initialisers of the outermost graph."""
        return {*self.weights, *self.constants, *self.integers} - self.inner.keys()

    @property
    def bytes(self) -> int:
        """The bytes of all arrays."""
        every = (*self.weights.values(), *self.constants.values(), *self.integers.values())
        return sum(x.nbytes for x in every)

    def outermost(self) -> dict[str, Array]:
        """The initialisers of the outermost graph that are no weights."""
        constants = {n: x for n, x in self.constants.items() if n not in self.inner}
        return {**constants, **self.integers}


def stored(
    graph: Graph, functions: Mapping[Key, Function], finding: Finding, folder: Path | None
) -> Stored:
    """The arrays of a model, each with what it is."""
    found = Stored()
    for t in graph.initializer:
        _put(found, t.name or "", array(t, folder), finding.tensors.get(id(t), Use(0)))
    taken = {*found.names, *(x.name for x in graph.input)}
    for name, t in _inner(graph, functions):
        if t.data_type in FLOATS:
            name = _free(name, taken)
            taken.add(name)
            found.inner[name] = t
            _put(found, name, array(t, folder), finding.tensors.get(id(t), Use(0)))
    return found


def _put(found: Stored, name: str, x: Array, use: Use) -> None:
    for each in (x, x.base):
        if isinstance(each, np.ndarray):
            each.setflags(write=False)
    if x.dtype.kind in "biu":
        found.integers[name] = x
    elif _is_weight(x, use):
        found.weights[name] = x
    else:
        found.constants[name] = x


def _inner(graph: Graph, functions: Mapping[Key, Function]) -> Iterator[tuple[str, Tensor]]:
    """The arrays in nodes, bodies and functions, in the order of the file."""
    for nodes in (graph.node, *(f.node for f in functions.values())):
        for node in every_node(nodes):
            t = tensor_of(node)
            if t is not None and node.output:
                yield node.output[0], t
            yield from _of_bodies(node.attribute)


def _of_bodies(attributes: Iterable[Any]) -> Iterator[tuple[str, Tensor]]:
    for a in attributes:
        for body in (a.g, *a.graphs):
            yield from ((t.name or "", t) for t in (body.initializer if body else ()))


def _free(name: str, taken: set[str | None]) -> str:
    """A name that nothing else has: the branches of an If may use one name twice."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _is_weight(x: Array, use: Use) -> bool:
    """Whether an array with some use is a weight."""
    if Use.KNOWN in use:
        return False
    if Use.FACTOR in use or (Use.BIAS in use and x.ndim and x.size == 1):
        return True
    return bool(use) and x.size > 1 and not _is_mask(x)


def _is_mask(x: Array) -> bool:
    """Whether an array of terms hides elements: by infinity, by a huge number, or by 0 and 1."""
    low, high = float(x.min()), float(x.max())
    if not -HUGE < low <= high < HUGE:
        return True
    two = low < high and bool(np.logical_or(x == low, x == high).all())
    return two and ((low, high) == (0, 1) or (high == 0 and low <= HIDES))
