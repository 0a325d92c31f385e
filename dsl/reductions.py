"""Reductions of any operand: axes as users write them, and names from classes.

``derive`` makes the public function of a class; questions and means are compositions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm.errors import DTypeError, ShapeError
from dlvm.ir import BOOL, F64, I64, OPS, U64, Dim, Op, Value
from dlvm.ops import Div, Less, Not, Reduction, Reshape, Sum

from .eager import public
from .elementwise import apply, note_widening, refuse_out
from .names import DERIVERS, LISTERS, PUBLIC
from .operands import element, fresh, known_dtype, plain, staged
from .tensor import Tensor


def axes_of(x: Tensor, axis: int | Sequence[int] | None) -> tuple[int, ...]:
    """The axes that a user means, in order; None means all."""
    if axis is None:
        return tuple(range(x.ndim))
    wanted = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in wanted:
        if not -x.ndim <= a < x.ndim:
            raise ShapeError(f"axis {a} is out of range for {x.type}")
    found = sorted(a % x.ndim for a in wanted)
    if len(set(found)) != len(found):
        raise ShapeError(f"the axes {wanted} name one axis of {x.type} twice")
    return tuple(found)


def keep_axes(value: Value, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The result of a reduction, with axes of size 1 in place of those reduced if wanted."""
    if keepdims:
        shape: tuple[Dim, ...] = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
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


def _of_axes(cls: type[Reduction]) -> Callable[..., Any]:
    def call(
        x: Any,
        axis: int | Sequence[int] | None = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
    ) -> Any:
        refuse_out(out)
        x = staged(x)
        if cls.widens:
            x = widened(x, dtype)
        elif dtype is not None:
            raise DTypeError(f"{cls.name} takes no dtype=")
        return reduce(cls, x, axis, bool(keepdims))

    return call


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
    call.__doc__ = cls.__doc__
    public(name)(call)
    return PUBLIC[name]


DERIVERS.append(derive)
LISTERS.append(lambda: list(_derivable()))


@public("mean")
def mean(
    x: Any, axis: int | Sequence[int] | None = None, dtype: Any = None, keepdims: bool = False
) -> Any:
    """The sum over the axes divided by how many elements there are; integers give f64."""
    x = staged(x)
    target = known_dtype(dtype) if dtype is not None else x.element if x.element.is_float else F64
    note_widening("mean", (x,), (target,))
    x = fresh(element(x, target))
    count: Dim = 1
    for a in axes_of(x, axis):
        count = count * x.shape[a]
    return apply(Div, reduce(Sum, x, axis, keepdims), count)


@public("any")
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether some element along the axes holds; of nothing, false."""
    count = fresh(element(fresh(element(plain(x), BOOL)), I64))
    return apply(Less, 0, reduce(Sum, count, axis, keepdims))


@public("all")
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether every element along the axes holds; of nothing, true."""
    missing = apply(Not, fresh(element(plain(x), BOOL)))
    return apply(Not, any(missing, axis, keepdims))
