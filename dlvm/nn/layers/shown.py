"""How layers are written, by types of parameters, and when two are equal."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, ClassVar, cast

from dlvm.base.html import table
from dlvm.dsl.trace.operands import known_dtype
from dlvm.tree import equal

WIDTH = 100
"""Characters up to which a layer is one line."""
MOST = 100
"""Layers that a table shows."""


class Layer:
    """The base of layers: its ``repr`` shows the types of parameters, and not their elements.

    Layers are equal as ``dlvm.tree.equal`` says. A dataclass would compare tuples of fields, for
    which arrays have no answer, so layers of this package are dataclasses with ``eq=False``, and
    the class of a user gets the equality before the decorator sees it.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not cls.__module__.startswith(
            "dlvm."
        ):  # a staged call reads what a class has of its own
            cls.__eq__ = cls.__eq__

    def __eq__(self, other: object) -> bool:
        return equal(self, other) if type(self) is type(other) else NotImplemented

    __hash__: ClassVar[Any] = None

    def __repr__(self) -> str:
        given: Any = self
        parts = [f"{f.name}={_shown(getattr(self, f.name))}" for f in fields(given)]
        return _joined(f"{type(self).__name__}(", parts, ")")

    def _repr_html_(self) -> str:
        """A table for notebooks: each layer, its own parameters, and how many are in it."""
        rows = [*_rows("", self)]
        left_out = len(rows) - MOST
        more = [(f"and {left_out:,} more layers", "", "")] if left_out > 0 else []
        return table([("layer", "parameters", "count"), *rows[:MOST], *more])


def _rows(path: str, node: Any) -> Iterator[tuple[str, str, str]]:
    """The rows of the layers in a tree, each after the one that holds it."""
    parts = [*_parts(node)]
    if isinstance(node, Layer):
        own = ", ".join(f"{word}: {_shown(x)}" for word, x in parts if _is_array(x))
        yield f"{path} {type(node).__name__}".strip(), own, f"{_count(node):,}"
    for word, x in parts:
        yield from _rows(f"{path}.{word}".lstrip("."), x)


def _parts(node: Any) -> Iterator[tuple[str, Any]]:
    """The named parts of a layer, or those of a tuple, list or dict."""
    if isinstance(node, Layer):
        given: Any = node
        yield from ((f.name, getattr(node, f.name)) for f in fields(given))
    elif isinstance(node, dict):
        yield from ((str(word), x) for word, x in cast("dict[Any, Any]", node).items())
    elif isinstance(node, tuple | list):
        yield from ((str(i), x) for i, x in enumerate(cast("Any", node)))


def _count(node: Any) -> int:
    """How many numbers are in the arrays of a tree."""
    return math.prod(node.shape) if _is_array(node) else sum(_count(x) for _, x in _parts(node))


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") and hasattr(x, "shape")


def _shown(x: Any) -> str:
    if isinstance(x, tuple | list):
        each = cast("Any", x)
        if all(isinstance(v, int) for v in each):
            return repr(each)
        first, last = ("(", ")") if isinstance(x, tuple) else ("[", "]")
        return _joined(first, [_shown(v) for v in each], last)
    if isinstance(x, dict):
        words = cast("dict[Any, Any]", x)
        return _joined("{", [f"{word!r}: {_shown(v)}" for word, v in words.items()], "}")
    if _is_array(x):
        return f"{known_dtype(x.dtype)}[{','.join(map(str, x.shape))}]"
    return getattr(x, "__name__", None) or repr(x)


def _joined(first: str, parts: list[str], last: str) -> str:
    """The parts in one line, or indented in a line each."""
    line = f"{first}{', '.join(parts)}{last}"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    indented = "".join("  " + p.replace("\n", "\n  ") + ",\n" for p in parts)
    return f"{first}\n{indented}{last}"
