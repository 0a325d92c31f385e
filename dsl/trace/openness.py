"""Reads and checks ``dynamic=``, which says what sizes stay open, and applies it to types."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dlvm.base.errors import IRError, ShapeError, UserError
from dlvm.ir import Dim, TensorType
from dlvm.ir.sizes.dims import Expr, symbol
from dlvm.ir.text.line import Line, parse_dim

from .operands import shown_shape
from .scopes import user_origin
from .specs import known_type, unreadable

EXAMPLE = 'write dynamic={"x": "B,784"} to name sizes, or dynamic=True to open every leading one'


def check_dynamic(dynamic: Any, parameters: Sequence[str]) -> None:
    """Checks that ``dynamic=`` maps parameters, or parts of them, to shapes with open sizes."""
    if isinstance(dynamic, bool):
        return
    if not isinstance(dynamic, Mapping):
        message = f"dynamic={dynamic!r:.40}: expected a dict from parameters to shapes, or True"
        raise UserError(message, origin=user_origin(), remedy=EXAMPLE)
    for name, text in dynamic.items():  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(text, str):
            raise UserError(
                f"dynamic={{{name!r}: {text!r:.40}}}: expected the shape as text",
                origin=user_origin(),
                remedy=EXAMPLE,
            )
        whole = (p for p in parameters if name == p or str(name).startswith(f"{p}_"))  # pyright: ignore[reportUnknownArgumentType]
        if next(whole, None) is None:
            raise _unknown(str(name), parameters)  # pyright: ignore[reportUnknownArgumentType]
        sizes(text, str(name))  # pyright: ignore[reportUnknownArgumentType]


def without(dynamic: Mapping[str, str] | bool, names: Collection[str]) -> dict[str, str] | bool:
    """The entries of ``dynamic=`` that remain when some parameters are bound."""
    if isinstance(dynamic, bool):
        return dynamic
    gone = tuple(f"{n}_" for n in names)
    return {k: v for k, v in dynamic.items() if k not in names and not k.startswith(gone)}


def _unknown(name: str, known: Sequence[str]) -> UserError:
    return UserError(
        f"dynamic= names {name!r}, which is no argument",
        origin=user_origin(),
        remedy=f"the arguments are {', '.join(known) or 'none'}",
    )


def sizes(text: str, name: str) -> tuple[Dim, ...]:
    """A shape as written in ``dynamic=``: ``B,784``."""
    line = Line(text, 1)
    out: list[Dim] = []
    try:
        while line.peek():
            out.append(parse_dim(line))
            if line.peek():
                line.take(",")
    except IRError as error:
        raise unreadable(f"dynamic={{{name!r}: {text!r}}}", text, error, EXAMPLE) from None
    return tuple(out)


def generalised(
    leaves: Sequence[Any], names: Sequence[tuple[str, str]], dynamic: Mapping[str, str] | bool
) -> list[TensorType]:
    """The types to compile for: sizes that ``dynamic=`` leaves open are symbols."""
    types = [known_type(leaf, path) for leaf, (_, path) in zip(leaves, names, strict=True)]
    if dynamic is True:
        return leading(types)
    if not dynamic:
        return types
    paths = {path for _, path in names}
    for name in dynamic:
        if "_" in name and name not in paths and not any(name == a for a, _ in names):
            _check_path(name, names)
    out: list[TensorType] = []
    for t, (argument, path) in zip(types, names, strict=True):
        text = dynamic.get(path, dynamic.get(argument))
        out.append(t if text is None else _opened(t, sizes(text, path), path))
    return out


def _check_path(name: str, names: Sequence[tuple[str, str]]) -> None:
    """Refuses a path below a passed argument that leads to none of its leaves."""
    if any(name.startswith(f"{argument}_") for argument, _ in names):
        raise _unknown(name, [path for _, path in names])


def _opened(t: TensorType, shape: tuple[Dim, ...], path: str) -> TensorType:
    fits = len(shape) == t.rank and all(
        isinstance(d, Expr) or d == size for d, size in zip(shape, t.shape, strict=True)
    )
    if not fits:
        listed = ",".join(map(str, t.shape))
        raise ShapeError(
            f"{path}: dynamic= says {shown_shape(shape)}, found {t}",
            origin=user_origin(),
            remedy=f'dynamic={{"{path}": "{listed}"}} fits; write a letter for each open size',
        )
    return t.with_shape(shape)


def leading(types: Sequence[TensorType]) -> list[TensorType]:
    """Types with symbols for leading sizes, one for each size that no other axis has."""
    elsewhere = {d for t in types for d in t.shape[1:]}
    symbols_of: dict[Dim, Dim] = {}
    for t in types:
        if t.shape and isinstance(t.shape[0], int) and t.shape[0] not in elsewhere:
            symbols_of.setdefault(t.shape[0], symbol(f"N{len(symbols_of)}" if symbols_of else "N"))
    return [
        t.with_shape((symbols_of.get(t.shape[0], t.shape[0]), *t.shape[1:])) if t.shape else t
        for t in types
    ]
