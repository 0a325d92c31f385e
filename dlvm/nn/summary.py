"""A table of the layers of a network: what each gives, holds and computes.

The network is traced once on arguments of given types. Each layer is replaced by a copy of a class
of its own whose call notes the types of its arguments and of its result.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, cast

from dlvm.base.errors import ArgumentError
from dlvm.cost import flops, sum_of
from dlvm.dsl.call.staging import trace
from dlvm.dsl.trace import trees as forms
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import here, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

TITLES = ("layer", "shape out", "parameters", "bytes", "flops")
Path = tuple[Any, ...]


@dataclass
class Row:
    """One layer: its path in the network, and the last shape that a call of it gave."""

    name: str
    kind: str
    depth: int
    shape: str
    parameters: int
    bytes: int
    flops: Any


@dataclass
class Summary:
    """The rows of a table, which ``str`` and ``repr`` write; the first is the whole network."""

    rows: list[Row] = field(default_factory=list[Row])

    def __repr__(self) -> str:
        lines = [TITLES, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [_line(line, widths) for line in lines]
        return "\n".join([texts[0], "-" * max(map(len, texts)), *texts[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    name = f"{'  ' * row.depth}{row.name} {row.kind}" if row.depth else row.kind
    counts = (row.parameters, row.bytes, row.flops)
    return (name, row.shape, *(f"{n:,}" if isinstance(n, int) else str(n) for n in counts))


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    pairs = list(zip(cells, widths, strict=True))
    words = [c.ljust(w) for c, w in pairs[:2]] + [c.rjust(w) for c, w in pairs[2:]]
    return "  ".join(words).rstrip()


@facing_users
def summary(net: Any, *specs: Any, **options: Any) -> Summary:
    """A table of the layers of ``net``: shape out, parameters, bytes and flops of each.

    ``specs`` are the arguments of the network, or their types, as of ``dlvm.trace``; ``options``
    are passed on as they are. The counts of a layer include those of the layers in it, and its
    flops are those of all of its calls. Flops of open sizes are expressions.
    """
    if not callable(net) or not is_dataclass(net):
        raise ArgumentError(
            f"summary: expected a network, a dataclass with a call, found {type(net).__name__}",
            origin=user_origin(),
            remedy="make a layer of the function: nn.Sequential([net])",
        )
    notes: list[Note] = []
    watched = _watched(net, (), 0, notes)
    trace(lambda *args: watched(*args, **options), *specs)
    return Summary([note.row() for note in notes])


@dataclass
class Note:
    """What is known of one layer: where it is, itself, and the shape and the flops of its calls.

    The path leads to it from the layer that it is in.
    """

    path: Path
    depth: int
    layer: Any
    shape: str = "-"
    flops: Any = 0

    def row(self) -> Row:
        """The row of the table."""
        leaves: list[Any] = [xp.asarray(p) for p in forms.flatten(self.layer)[0]]
        sizes = [math.prod(p.shape) for p in leaves]
        held = sum(n * p.dtype.itemsize for n, p in zip(sizes, leaves, strict=True))
        name, kind = ".".join(map(str, self.path)), type(self.layer).__name__
        return Row(name, kind, self.depth, self.shape, sum(sizes), held, self.flops)


def _watched(node: Any, path: Path, depth: int, notes: list[Note]) -> Any:
    """A copy of a network, whose layers note their calls."""
    if type(node) in (tuple, list):
        parts = node
        return type(parts)(_watched(x, (*path, i), depth, notes) for i, x in enumerate(parts))
    if isinstance(node, dict):
        named = cast("dict[Any, Any]", node)
        return {word: _watched(x, (*path, word), depth, notes) for word, x in named.items()}
    if not is_dataclass(node) or isinstance(node, type):
        return node
    found = copy.copy(node)
    if callable(node):
        notes.append(Note(path, depth, node))
        path, depth = (), depth + 1
        found.__class__ = _noting(type(node), notes[-1])
    for part in fields(node):
        inside = _watched(getattr(node, part.name), (*path, part.name), depth, notes)
        object.__setattr__(found, part.name, inside)
    return found


def _noting(cls: type, note: Note) -> type:
    """A class of the same name and meaning whose calls are noted."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder = here().builder
        before = len(builder.ops)
        found = cls.__call__(self, *args, **kwargs)
        note.shape = _shown(found)
        note.flops = note.flops + sum_of(flops(op) for op in builder.ops[before:])
        return found

    body = {"__call__": call, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), body)


def _shown(found: Any) -> str:
    """The shape of a result, or of the first of several."""
    leaves = forms.flatten(found)[0]
    return shown_shape(shape_of(plain(leaves[0]))) if leaves else "-"
