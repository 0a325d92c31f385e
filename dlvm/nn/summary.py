"""A table of the layers of a network: the shape of the result, the parameters and the flops.

The network is traced once on arguments of given types. Each layer is replaced by a copy of a class
of its own whose call notes the types of its arguments and of its result.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, cast

from dlvm.base.errors import ArgumentError
from dlvm.base.html import table
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
    """One layer: its path from the layer that contains it, and the shape of its last result."""

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

    def _repr_html_(self) -> str:
        """The same as a table, as notebooks show it."""
        return table([TITLES, *map(_cells, self.rows)])

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
    flops are those of all of its calls. A layer that stands in two places has two rows and counts
    twice, as its arrays are leaves of the tree twice. Flops of open sizes are expressions.
    """
    if not callable(net) or not _is_named(net):
        raise ArgumentError(
            "summary: expected a network, which is a dataclass or a NamedTuple with a call, found "
            f"{type(net).__name__}",
            origin=user_origin(),
            remedy="make a layer of the function: nn.Sequential([net])",
        )
    notes: list[Note] = []
    watched = _watched(net, (), 0, notes)
    trace(lambda *args: watched(*args, **options), *specs)
    return Summary([note.row() for note in notes])


@dataclass
class Note:
    """A layer, the shape of the last result of a call, and the flops of all calls.

    The path leads to the layer from the one that contains it.
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


def _is(node: Any, *kinds: type) -> bool:
    return isinstance(node, kinds)


def _is_named(node: Any) -> bool:
    """Whether an object has named parts: a NamedTuple or a dataclass."""
    named = is_dataclass(node) or (_is(node, tuple) and hasattr(node, "_fields"))
    return named and not isinstance(node, type)


def _watched(node: Any, path: Path, depth: int, notes: list[Note]) -> Any:
    """A copy of a network whose layers record their calls in ``notes``."""
    cls: type[Any] = node.__class__
    if not _is_named(node) and not _is(node, dict) and cls not in (tuple, list):
        return node
    if callable(node):
        notes.append(Note(path, depth, node))
        path, depth, cls = (), depth + 1, _noting(cls, notes[-1])
    inside = {word: _watched(x, (*path, word), depth, notes) for word, x in _parts(node)}
    return _with_parts(node, cls, inside)


def _parts(node: Any) -> Iterable[tuple[Any, Any]]:
    """The parts of a tree, each with its name or number."""
    if _is(node, dict):
        return node.items()
    if _is(node, tuple, list):
        return zip(getattr(node, "_fields", range(len(node))), node, strict=True)
    return [(part.name, getattr(node, part.name)) for part in fields(node)]


def _with_parts(node: Any, cls: type, parts: dict[Any, Any]) -> Any:
    """A tree with other parts, as an object of ``cls``, which has the slots of the tree's class."""
    if _is(node, tuple):
        return cast("Any", tuple).__new__(cls, parts.values())
    if _is(node, list):
        return [*parts.values()]
    found = copy.copy(node)
    if _is(node, dict):
        found.update(parts)
        return found
    object.__setattr__(found, "__class__", cls)  # a frozen dataclass has a __setattr__ of its own
    for word, part in parts.items():
        object.__setattr__(found, word, part)
    return found


def _noting(cls: type, note: Note) -> type:
    """A subclass of the same name whose calls are recorded in the note."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        builder = here().builder
        before = len(builder.ops)
        found = cls.__call__(self, *args, **kwargs)
        note.shape = _shown(found)
        note.flops = note.flops + sum_of(flops(op) for op in builder.ops[before:])
        return found

    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    return type(cls.__name__, (cls,), {"__call__": call, "__slots__": (), **names})


def _shown(found: Any) -> str:
    """The shape of a result, or of the first of several."""
    leaves = forms.flatten(found)[0]
    return shown_shape(shape_of(plain(leaves[0]))) if leaves else "-"
