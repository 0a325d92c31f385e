"""How layers are written, by types of parameters, and when two are equal."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, ClassVar, cast

from dlvm.dsl.trace.operands import known_dtype
from dlvm.tree import equal

WIDTH = 100
"""Characters up to which a layer is one line."""


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
    if hasattr(x, "dtype") and hasattr(x, "shape"):
        return f"{known_dtype(x.dtype)}[{','.join(map(str, x.shape))}]"
    return getattr(x, "__name__", None) or repr(x)


def _joined(first: str, parts: list[str], last: str) -> str:
    """The parts in one line, or indented in a line each."""
    line = f"{first}{', '.join(parts)}{last}"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    indented = "".join("  " + p.replace("\n", "\n  ") + ",\n" for p in parts)
    return f"{first}\n{indented}{last}"
