"""What is known of an argument before it is there: its type, with unknown sizes as symbols."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.errors import IRError, ShapeError, TraceError, UserError
from dlvm.ir import BOOL, F64, I64, Array, Dim, TensorType, dtype_of
from dlvm.ir.dims import Expr, symbol
from dlvm.ir.line import Line, parse_dim, parse_type

from .scopes import is_array, type_of, user_origin
from .trees import Spec as Tree
from .trees import labels, paths


class Spec:
    """An argument of which only the type is given: ``dlvm.spec("f32[B,784]")``."""

    __slots__ = ("type",)

    def __init__(self, t: TensorType) -> None:
        self.type = t

    def __repr__(self) -> str:
        return f"spec({str(self.type)!r})"


def spec(text: str) -> Spec:
    """A type in IR text, in the place of an argument of ``trace`` and ``compile``."""
    line = Line(text, 1)
    try:
        found = parse_type(line)
        line.end()
    except IRError as error:
        raise _unreadable(text, error) from None
    return Spec(found)


def sizes(text: str) -> tuple[Dim, ...]:
    """A shape as written in ``dynamic=``: ``B,784``."""
    line = Line(text, 1)
    out: list[Dim] = []
    try:
        while line.peek():
            out.append(parse_dim(line))
            if line.peek():
                line.take(",")
    except IRError as error:
        raise _unreadable(text, error) from None
    return tuple(out)


def _unreadable(text: str, error: IRError) -> UserError:
    return UserError(
        f"{text!r} is no type or shape: {error.message.splitlines()[0].partition(': ')[2]}",
        origin=user_origin(),
        remedy='write dlvm.spec("f32[B,784]"), or dynamic={"x": "B,784"}',
    )


WEAK = {bool: BOOL, int: I64, float: F64}


def given(leaf: Any, label: str) -> Any:
    """A leaf of the arguments as a NumPy array, a Python scalar or a Spec."""
    if type(leaf) is np.ndarray or type(leaf) in WEAK or isinstance(leaf, Spec):
        return leaf
    if hasattr(leaf, "__array__"):
        return np.asarray(leaf)
    if hasattr(leaf, "__dlpack__"):
        return np.from_dlpack(leaf)
    try:
        return np.asarray(memoryview(leaf))
    except TypeError:
        name = label.partition("[")[0].partition(".")[0]
        raise TraceError(
            f"{label} is {leaf!r:.40} of type {type(leaf).__name__}, not an array or a number",
            origin=user_origin(),
            remedy=f"pass arrays, or make it part of the code: static=({name!r},)",
        ) from None


def known_type(leaf: Any) -> TensorType:
    """The type of an argument as it is given."""
    if is_array(leaf):
        return type_of(leaf)
    return leaf.type if isinstance(leaf, Spec) else TensorType(WEAK[type(leaf)])


def as_array(leaf: Any, expected: TensorType, label: str) -> Array:
    """An argument of a call as the array that the code is made for."""
    if is_array(leaf):
        return leaf
    if isinstance(leaf, Spec):
        raise ShapeError(f"{label}: expected an array, found the spec {leaf.type}")
    try:
        found = np.asarray(leaf, WEAK[type(leaf)].numpy)
    except OverflowError:
        raise ShapeError(f"{label}: the integer {leaf} does not fit in i64") from None
    numeric = expected.dtype.is_float and dtype_of(found) is I64
    return found.astype(expected.dtype.numpy) if numeric else found


# -- which sizes are unknown ---------------------------------------------------------------------


def generalised(
    leaves: Sequence[Any], names: Sequence[tuple[str, str]], dynamic: Mapping[str, str] | bool
) -> list[TensorType]:
    """The types to compile for: sizes that ``dynamic=`` leaves open are symbols."""
    types = [known_type(leaf) for leaf in leaves]
    if dynamic is True:
        return leading(types)
    if not dynamic:
        return types
    out: list[TensorType] = []
    for t, (argument, path) in zip(types, names, strict=True):
        text = dynamic.get(path, dynamic.get(argument))
        out.append(t if text is None else _opened(t, sizes(text), path))
    return out


def _opened(t: TensorType, shape: tuple[Dim, ...], path: str) -> TensorType:
    fits = len(shape) == t.rank and all(
        isinstance(d, Expr) or d == size for d, size in zip(shape, t.shape, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"{path}: dynamic= says ({', '.join(map(str, shape))}), found {t}",
            origin=user_origin(),
        )
    return t.with_shape(shape)


def leading(types: Sequence[TensorType]) -> list[TensorType]:
    """Leading sizes as symbols, one for each size that stands on no other axis of any argument."""
    elsewhere = {d for t in types for d in t.shape[1:]}
    symbols_of: dict[Dim, Dim] = {}
    for t in types:
        if t.shape and isinstance(t.shape[0], int) and t.shape[0] not in elsewhere:
            symbols_of.setdefault(t.shape[0], symbol(f"N{len(symbols_of)}" if symbols_of else "N"))
    return [
        t.with_shape((symbols_of.get(t.shape[0], t.shape[0]), *t.shape[1:])) if t.shape else t
        for t in types
    ]


# -- parameters of Python functions --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call by name: those that are traced, and those that are static."""

    names: tuple[str, ...]
    values: tuple[Any, ...]
    static: tuple[tuple[str, Any], ...]

    def static_key(self) -> tuple[Any, ...]:
        """Static values by type and value, as the cache keeps them."""
        for name, value in self.static:
            try:
                hash(value)
            except TypeError:
                raise TraceError(
                    f"the static argument {name} is a {type(value).__name__}, which has no hash",
                    origin=user_origin(),
                    remedy="pass a tuple or a frozen dataclass, or don't make it static",
                ) from None
        return tuple((name, type(value), value) for name, value in self.static)

    def leaf_names(self, tree: Tree) -> list[tuple[str, str]]:
        """For each leaf the argument it is in, and its path in IR text."""
        children = zip(self.names, tree.children(), strict=True)
        return [(name, path) for name, child in children for path in paths(child, name)]

    def leaf_labels(self, tree: Tree) -> list[str]:
        """What a user writes to reach each leaf."""
        children = zip(self.names, tree.children(), strict=True)
        return [label for name, child in children for label in labels(child, name)]


class Parameters:
    """How a Python function is called, and which of its parameters are static."""

    def __init__(
        self, fn: Callable[..., Any], static: Sequence[str | int] | str | int = ()
    ) -> None:
        self.signature = inspect.signature(fn)
        self.names = tuple(self.signature.parameters)
        self.static = frozenset(self.resolve(static, "static"))
        kinds = {p.kind for p in self.signature.parameters.values()}
        self._simple = kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD} and not self.static

    def resolve(self, given: Sequence[str | int] | str | int, option: str) -> list[str]:
        """Parameters named by name or position."""
        wanted = [given] if isinstance(given, str | int) else list(given)
        out: list[str] = []
        for one in wanted:
            if isinstance(one, int) and -len(self.names) <= one < len(self.names):
                one = self.names[one]
            if one not in self.names:
                raise UserError(
                    f"{option}={one!r}: there is no such parameter",
                    origin=user_origin(),
                    remedy=f"the parameters are {', '.join(self.names) or 'none'}",
                )
            out.append(str(one))
        return out

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Arguments:
        """The arguments of a call by parameter; defaults that are not passed stay in the code."""
        if self._simple and not kwargs and len(args) == len(self.names):
            return Arguments(self.names, args, ())
        found = self.signature.bind(*args, **kwargs).arguments
        traced = {k: v for k, v in found.items() if k not in self.static}
        static = tuple((k, v) for k, v in found.items() if k in self.static)
        return Arguments(tuple(traced), tuple(traced.values()), static)

    def call(self, fn: Callable[..., Any], arguments: Arguments, values: Sequence[Any]) -> Any:
        """Call the function with other values in the place of those traced."""
        by_name = dict(zip(arguments.names, values, strict=True)) | dict(arguments.static)
        ordered = {n: by_name[n] for n in self.names if n in by_name}
        bound = inspect.BoundArguments(self.signature, ordered)  # type: ignore[arg-type]
        return fn(*bound.args, **bound.kwargs)


def check_lists(name: str, value: Any) -> None:
    """Refuse a list of lists of numbers, which would be an array of its own for each number."""
    if not isinstance(value, list):
        return
    rows = [v for v in value if isinstance(v, list | tuple)]  # pyright: ignore[reportUnknownVariableType]
    if rows and all(isinstance(n, int | float) for row in rows for n in row):  # pyright: ignore[reportUnknownVariableType]
        raise TraceError(
            f"{name} is a list of lists of numbers, not an array",
            origin=user_origin(),
            remedy=f"pass np.asarray({name})",
        )
