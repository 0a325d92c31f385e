"""Compares two trees: the path of their first difference, and what each tree has there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, cast

from dlvm.base.errors import Origin, UserError
from dlvm.ir import dtype_of

from .configuration import parts
from .scopes import is_array, user_origin
from .trees import Spec, unflatten


class LeafName:
    """The name of a leaf in messages."""

    def __init__(self, text: str) -> None:
        self.text = text


NOTHING = object()


def unlike(
    name: str,
    expected: Spec,
    found: Spec,
    wanted: Sequence[Any] | None = None,
    given: Sequence[Any] | None = None,
) -> str:
    """Says where trees differ: ``params['w']: expected f32[3], found nothing``.

    ``wanted`` and ``given`` are the leaves, or their types, where they are known.
    """
    a, b = _shown(expected, wanted), _shown(found, given)
    where, x, y = next(_differences(name, a, b), (name, a, b))
    return f"{where}: expected {x}, found {y}" if isinstance(x, str) else f"{where} differs"


def differing(names: Sequence[str], expected: Spec, found: Spec) -> tuple[str, Spec, Spec]:
    """The first argument whose structure differs, by name."""
    rows = zip(names, expected.children(), found.children(), strict=True)
    return next((row for row in rows if row[1] != row[2]), ("arguments", expected, found))


def mismatch(
    what: str, name: str, expected: Spec, found: Spec, remedy: str, origin: Origin | None = None
) -> UserError:
    """The error for a tree of another structure than the expected one."""
    said = unlike(name, expected, found)
    return UserError(f"{what}: {said}", origin=origin or user_origin(), remedy=remedy)


def _shown(spec: Spec, leaves: Sequence[Any] | None) -> Any:
    texts = ["an array"] * spec.num_leaves if leaves is None else [*map(_leaf, leaves)]
    return unflatten(spec, [LeafName(t) for t in texts])


def _leaf(x: Any) -> str:
    if x is None:
        return "nothing"
    if isinstance(x, bool | int | float):
        return f"a Python {type(x).__name__}"
    shape, dtype = getattr(x, "shape", None), getattr(x, "element", getattr(x, "dtype", None))
    if shape is None:
        return "an array"
    if dtype is None or not isinstance(shape, tuple):
        return f"a {type(x).__name__}"
    dtype = dtype_of(x) if is_array(x) else dtype
    sizes = cast("tuple[Any, ...]", shape)
    return f"{dtype}[{', '.join(map(str, sizes))}]" if sizes else str(dtype)


def _differences(path: str, a: Any, b: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(a, LeafName) and isinstance(b, LeafName):
        return
    if type(a) is not type(b):
        yield path, describe(a), describe(b)
        return
    first, second = _entries(a), _entries(b)
    if first is None or second is None:
        if a is not b:
            yield path, describe(a), describe(b)
        return
    for key in {**first, **second}:
        x, y = first.get(key, NOTHING), second.get(key, NOTHING)
        yield from _differences(f"{path}{key}", x, y)
    if dataclasses.is_dataclass(a):
        yield from _settings(path, a, b)


def _settings(path: str, a: Any, b: Any) -> Iterator[tuple[str, str, str]]:
    was, now = dict(parts(a)[1]), dict(parts(b)[1])
    for name in was:
        if name in now and was[name] != now[name]:
            yield f"{path}.{name}", brief(was[name].value), brief(now[name].value)


def _entries(x: Any) -> dict[str, Any] | None:
    """The children of a node by what a user writes to reach them; None for a leaf."""
    if isinstance(x, dict):
        return {f"[{k!r}]": v for k, v in x.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(x, tuple) and hasattr(x, "_fields"):  # pyright: ignore[reportUnknownArgumentType]
        return {f".{k}": v for k, v in zip(x._fields, x, strict=True)}  # pyright: ignore
    if isinstance(x, tuple | list):
        return {f"[{i}]": v for i, v in enumerate(x)}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if dataclasses.is_dataclass(x):
        return {f".{k}": getattr(x, k) for k in parts(x)[0]}
    return None


def brief(value: Any) -> str:
    """A value of configuration in messages."""
    name = getattr(value, "__qualname__", None)
    return f"the function {name}" if callable(value) and name else f"{value!r:.60}"


def describe(x: Any) -> str:
    """The part of a tree at a path, as messages show it."""
    if isinstance(x, LeafName):
        return x.text
    if x is None or x is NOTHING:
        return "nothing"
    if dataclasses.is_dataclass(x) or hasattr(x, "_fields"):
        return f"a {type(x).__name__}"
    if isinstance(x, tuple | list | dict):
        kind, count = type(x).__name__, len(x)  # pyright: ignore[reportUnknownArgumentType]
        return f"a {kind} of {count}" if count else f"an empty {kind}"
    return brief(x)
