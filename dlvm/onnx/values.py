"""Inputs and outputs of a model: their types, the arrays given for them, and results with names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError, did_you_mean
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import Spec, spec
from dlvm.ir import dtype_of as ours

from .messages import ValueInfo
from .table import LONGEST, Unsupported, short
from .tensors import dtype_of

Array = np.ndarray[Any, Any]
Dim = int | str


@dataclass(frozen=True)
class Value:
    """An input or an output: its name, its element type and its sizes, of which text is open.

    ``shape`` is None where the file does not state it. A ``static`` input is part of the program,
    which is made again for another value.
    """

    name: str
    dtype: np.dtype[Any] | None
    shape: tuple[Dim, ...] | None
    static: bool = False

    def __str__(self) -> str:
        sizes = "" if self.shape is None else f"[{','.join(map(str, self.shape))}]"
        kind = "" if self.dtype is None else str(ours(self.dtype))
        return f"{kind}{sizes if sizes != '[]' else ''}" + (" static" if self.static else "")


class Results(tuple[Any, ...]):
    """The results of a model: a tuple whose elements are also found by name."""

    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, names: Sequence[str], values: Sequence[Any]) -> Results:
        """The results with their names."""
        found = cls(values)
        found.names = tuple(names)
        return found

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, str):
            if at not in self.names:
                near = did_you_mean(at, self.names)
                raise ArgumentError(
                    f"onnx: the model has no output {at!r}{near}",
                    origin=user_origin(),
                    remedy=f"take one of {', '.join(map(repr, self.names))}",
                )
            at = self.names.index(at)
        return super().__getitem__(at)

    def __repr__(self) -> str:
        pairs = zip(self.names, self, strict=True)
        return f"Results({', '.join(f'{name!r}: {x!r}' for name, x in pairs)})"


class Symbols:
    """The names of open sizes as symbols; one name is one symbol in the whole model.

    A size without a name is a symbol of its own. So is one whose name has no letter, as the
    ``?`` of some exporters, and a negative one, by which others mean that it is unknown.
    """

    def __init__(self, fixed: Mapping[str, int]) -> None:
        self.fixed = fixed
        self.known: dict[str, str] = {}
        self.fresh = 0

    def value(self, x: ValueInfo, static: bool, columns: bool = False) -> Value:
        """An input or output with its type; ``columns`` stand in the place of maps."""
        if x.type is None or columns:
            return Value(x.name or "", None, None, static)
        kind = x.type.tensor_type
        if kind is None:
            raise Unsupported(
                f"onnx: {short(x.name or '')!r} is no array but a sequence, a map or an "
                "optional value",
                remedy="export the model with arrays as inputs and outputs",
            )
        dims = None if kind.shape is None else kind.shape.dim
        shape = None if dims is None else tuple(self._dim(d.dim_value, d.dim_param) for d in dims)
        return Value(x.name or "", dtype_of(kind.elem_type), shape, static)

    def _dim(self, number: int | None, name: str | None) -> Dim:
        if number is not None and number >= 0:
            return number
        if name and name in self.fixed:
            return self.fixed[name]
        name = name if name and re.search("[A-Za-z]", name) else None
        if name and name in self.known:
            return self.known[name]
        found = re.sub(r"\W", "_", name or "", flags=re.ASCII)
        if not re.match(r"[A-Za-z]", found) or found in self.known.values() or len(found) > LONGEST:
            self.fresh += 1
            found = f"size_{self.fresh}"
        self.known[name or found] = found
        return found


def typed(name: str, value: Value, x: Any) -> Array:
    """An input as an array of its type; another element type or rank is refused."""
    plain = not hasattr(x, "dtype")
    array = np.asarray(x, value.dtype) if plain else np.asarray(x)
    if value.dtype is not None and array.dtype != value.dtype:
        raise DTypeError(
            f"onnx: expected the input {short(name)!r} of type {value}, found elements of type "
            f"{array.dtype}",
            origin=user_origin(),
            remedy=f"write x.astype({value.dtype.name!r})",
        )
    shape = value.shape
    pairs = [] if shape is None else [*zip(shape, array.shape, strict=False)]
    if shape is not None and (
        len(shape) != array.ndim or any(isinstance(n, int) and n != m for n, m in pairs)
    ):
        raise ShapeError(
            f"onnx: expected the input {short(name)!r} of type {value}, found the shape "
            f"{array.shape}",
            origin=user_origin(),
            remedy="give an array of this shape; repr(m) shows the shapes of all inputs",
        )
    return array


def spec_of(value: Value | None, x: Array) -> Spec:
    """The type for which a program is made: open where the model leaves a size open."""
    shape = x.shape if value is None or value.shape is None else value.shape
    return spec(f"{ours(x.dtype)}[{','.join(map(str, shape))}]")
