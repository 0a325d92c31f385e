"""Reductions of any operand: axes as users write them, and names from classes.

``derive`` makes the public function of a class; questions and spans are compositions. A mask
(``where=``) replaces elements by the result of an empty reduction, which changes nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, AxisError, DTypeError, ShapeError
from dlvm.dsl.trace.operands import element, fresh, kind_of, known_dtype, plain, promoted, staged
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import DERIVERS, LISTERS, PUBLIC, named
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, I64, OPS, U64, Dim, Op, Value, literal
from dlvm.ops import Constant, Max, Min, Reduction, Reshape, Sub, Sum

from .eager import public
from .elementwise import apply, refuse_out


def axes_of(x: Tensor, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """The axes that a user means, in order; None means all."""
    if axis is None:
        return tuple(range(x.ndim))
    wanted = tuple(map(operator.index, axis if is_sequence(axis) else (axis,)))
    for a in wanted:
        if not -x.ndim <= a < x.ndim:
            valid = f"valid are {-x.ndim} to {x.ndim - 1}" if x.ndim else "leave the axis out"
            raise AxisError(f"axis {a} is out of range for {x.type}", remedy=valid)
    found = sorted(a % x.ndim for a in wanted)
    if len(set(found)) != len(found):
        raise ShapeError(
            f"the axes {wanted} name one axis of {x.type} twice", remedy="name each axis once"
        )
    return tuple(found)


def keep_axes(value: Value, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The result of a reduction, with axes of size 1 in place of those reduced if wanted."""
    if keepdims:
        shape: tuple[Dim, ...] = tuple(1 if i in axes else d for i, d in enumerate(x.type.shape))
        value = Reshape(value, shape)
    return fresh(value)


def reduce(
    cls: Callable[..., Value],
    x: Any,
    axis: int | Sequence[int] | None,
    keepdims: bool,
) -> Tensor:
    """One reduction of any operand."""
    x = staged(x)
    axes = axes_of(x, axis)
    return keep_axes(cls(x.read(), axes), x, axes, keepdims)


def widened(x: Tensor, dtype: Any) -> Tensor:
    """An operand in the type in which sums and products of it are formed."""
    if dtype is not None:
        return fresh(element(x, known_dtype(dtype)))
    small = x.element.kind in "biu"
    return fresh(element(x, U64 if x.element.kind == "u" else I64)) if small else x


def in_floats(x: Tensor) -> Tensor:
    """An operand as floats, integers in the type in which NumPy takes an exponential of them."""
    return x if x.element.is_float else fresh(element(x, promoted("exp", (kind_of(x),))[0]))


def _of_axes(cls: type[Reduction]) -> Callable[..., Any]:
    def call(
        x: Any,
        axis: int | Sequence[int] | None = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        refuse_out(out)
        x = staged(x)
        if cls.widens:
            x = widened(x, dtype)
        elif dtype is not None:
            raise DTypeError(f"{cls.name} takes no dtype=")
        x = x if "i" in cls.accepts else in_floats(x)
        if where is not None:
            x = only_where(where, x, _of_nothing(cls, x))
        found = reduce(cls, x, axis, bool(keepdims))
        if initial is None:
            return found
        first = xp.astype(xp.asarray(initial), found.element)
        return named(_pairwise(cls, "initial"))(found, first)

    return call


def only_where(where: Any, x: Tensor, otherwise: Any) -> Tensor:
    """Elements where a mask holds, and a neutral one elsewhere."""
    return x if where is True else named("where")(where, x, otherwise)


def _of_nothing(cls: type[Reduction], x: Tensor) -> Tensor:
    """The result of an empty reduction, which changes no other result."""
    _pairwise(cls, "where")
    nothing = Constant(literal(np.zeros(0), x.element))
    return fresh(cls(nothing, (0,)))  # type: ignore[call-arg]


def _pairwise(cls: type[Reduction], option: str) -> str:
    if not cls.pairwise:
        raise ArgumentError(
            f"{cls.name} takes no {option}=",
            origin=user_origin(),
            remedy="leave it out: dlvm.where(mask, x, -dlvm.inf) masks elements before",
        )
    return cls.pairwise


def _derivable() -> dict[str, type[Op]]:
    out: dict[str, type[Op]] = {}
    for cls in OPS.values():
        kinds = [spec.kind for spec in cls.layout]
        if issubclass(cls, Reduction) and kinds == ["operand", "attribute"]:
            out[cls.name] = cls
    return out


def derive(name: str) -> Callable[..., Any] | None:
    """The public function of a reduction class, if there is one of that name."""
    cls = _derivable().get(name)
    if cls is None:
        return None
    call = _of_axes(cls)  # type: ignore[arg-type]
    call.__doc__ = (cls.__doc__ or "").replace("``axes``", "the axes")
    public(name)(call)
    return PUBLIC[name]


DERIVERS.append(derive)
LISTERS.append(lambda: list(_derivable()))


@public("any")
def any(
    x: Any, axis: Any = None, out: None = None, keepdims: bool = False, where: Any = None
) -> Any:
    """Whether some element along the axes holds; of nothing, false."""
    refuse_out(out)
    return reduce(Max, _truths(x, where, False), axis, keepdims)


@public("all")
def all(
    x: Any, axis: Any = None, out: None = None, keepdims: bool = False, where: Any = None
) -> Any:
    """Whether every element along the axes holds; of nothing, true."""
    refuse_out(out)
    return reduce(Min, _truths(x, where, True), axis, keepdims)


def _truths(x: Any, where: Any, otherwise: bool) -> Tensor:
    found = fresh(element(plain(x), BOOL))
    return found if where is None else only_where(where, found, otherwise)


@public("count_nonzero")
def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements along the axes are anything but zero."""
    return reduce(Sum, fresh(element(_truths(x, None, True), I64)), axis, keepdims)


@public("ptp")
def ptp(x: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The largest element less the smallest, along the axes."""
    refuse_out(out)
    return apply(Sub, reduce(Max, x, axis, keepdims), reduce(Min, x, axis, keepdims))
