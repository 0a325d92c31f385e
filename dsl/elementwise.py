"""Public functions that follow from operation classes: arithmetic and reductions.

``derive`` makes one from a class when its name is first asked for; the few functions below
are compositions that have no class of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dlvm.errors import DTypeError, ShapeError, UserError
from dlvm.ir import BOOL, F64, I64, OPS, U64, Dim, DType, Op, Value
from dlvm.ir.dims import numbers
from dlvm.ops import (
    Add,
    Div,
    Elementwise,
    Equal,
    FloorDiv,
    Less,
    LessEqual,
    Mul,
    Neg,
    Not,
    Reduction,
    Reshape,
    Select,
    Sub,
    Sum,
)

from .eager import public
from .names import DERIVERS, LISTERS, PUBLIC, named
from .operands import (
    broadcast_shapes,
    common,
    element,
    fit,
    fresh,
    here,
    is_weak,
    kind_of,
    known_dtype,
    plain,
    promoted,
    shape_of,
    staged,
)
from .scopes import user_origin
from .tensor import Tensor

PYTHON = {Add, Sub, Mul, Div, FloorDiv, Neg}
"""What Python does itself on two Python scalars: the result is a weak scalar again."""


def apply(cls: type[Elementwise], *xs: Any) -> Any:
    """One element-wise operation on any operands, promoted and broadcast as NumPy does."""
    if (alike := _alike(cls, xs)) is not None:
        return results(cls(*alike), weak=False)
    xs = tuple(plain(x) for x in xs)
    kinds = tuple(kind_of(x) for x in xs)
    dtypes = promoted(cls.public or cls.name, kinds)
    if cls.accepts == "b":
        dtypes = (BOOL,) * len(xs)
    note_widening(cls.name, xs, dtypes)
    shape = broadcast_shapes([shape_of(x) for x in xs])
    op = cls(*(fit(x, d, shape) for x, d in zip(xs, dtypes, strict=True)))
    return results(op, weak=cls in PYTHON and all(is_weak(x) for x in xs))


def results(op: Op, weak: bool) -> Any:
    """What an operation gives: one array, or a tuple of several."""
    scope = here()
    if op.results[0] is op:
        return Tensor(op, scope, weak)
    return tuple(Tensor(r, scope, weak) for r in op.results)


def _alike(cls: type[Elementwise], xs: Sequence[Any]) -> list[Value] | None:
    """The operands as they are, where all are staged floats of one type: the common case."""
    first = xs[0]
    if type(first) is not Tensor or first.weak or not first.element.is_float or cls.accepts == "b":
        return None
    t = first.type
    if any(type(x) is not Tensor or x.weak or x.type != t for x in xs[1:]):
        return None
    return [x.read() for x in xs]


def note_widening(name: str, xs: Sequence[Any], dtypes: Sequence[DType]) -> None:
    """Remember for ``explain()`` where values become f64 that were not."""
    if F64 not in dtypes:
        return
    for x, dtype in zip(xs, dtypes, strict=True):
        if dtype is F64 and not is_weak(x) and known_dtype(x.dtype) is not F64:
            given = ", ".join(str(known_dtype(y.dtype)) for y in xs if not is_weak(y))
            here().trace.widenings.append((f"{name} of {given} computes in f64", user_origin()))
            return


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


def _widened(x: Tensor, dtype: Any) -> Tensor:
    if dtype is not None:
        return fresh(element(x, known_dtype(dtype)))
    small = x.element.kind in "biu"
    return fresh(element(x, U64 if x.element.kind == "u" else I64)) if small else x


def _of_elements(cls: type[Elementwise]) -> Callable[..., Any]:
    def call(*xs: Any, out: None = None) -> Any:
        if len(xs) != len(cls.layout):
            raise UserError(f"{cls.name} takes {len(cls.layout)} operands, found {len(xs)}")
        refuse_out(out)
        return apply(cls, *xs)

    names = [*(spec.name for spec in cls.layout)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind) for n in names]
    parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


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
            x = _widened(x, dtype)
        elif dtype is not None:
            raise DTypeError(f"{cls.name} takes no dtype=")
        return reduce(cls, x, axis, bool(keepdims))

    return call


def refuse_out(out: Any) -> None:
    """``out=`` names memory, which staged code does not have."""
    if out is not None:
        raise UserError(
            "out= has no meaning in staged code: memory is planned by the compiler",
            origin=user_origin(),
            remedy="assign the result: x = ..., or x[...] = ... into an array made here",
        )


def _derivable() -> dict[str, type[Op]]:
    out: dict[str, type[Op]] = {}
    for cls in OPS.values():
        kinds = [spec.kind for spec in cls.layout]
        if issubclass(cls, Elementwise) and set(kinds) == {"operand"}:
            out[cls.public or cls.name] = cls
        if issubclass(cls, Reduction) and kinds == ["operand", "attribute"]:
            out[cls.name] = cls
    return out


def derive(name: str) -> Callable[..., Any] | None:
    """The public function of an operation class, if there is one of that public name."""
    cls = _derivable().get(name)
    if cls is None:
        return None
    make = _of_elements if issubclass(cls, Elementwise) else _of_axes
    call = make(cls)  # type: ignore[arg-type]
    call.__doc__ = cls.__doc__
    public(name)(call)
    return PUBLIC[name]


numbers.apply = lambda name, x, y: named(name)(x, y)
DERIVERS.append(derive)
LISTERS.append(lambda: list(_derivable()))


@public("greater")
def greater(x: Any, y: Any) -> Any:
    """``x > y``, which is ``y < x``."""
    return apply(Less, y, x)


@public("greater_equal")
def greater_equal(x: Any, y: Any) -> Any:
    """``x >= y``, which is ``y <= x``."""
    return apply(LessEqual, y, x)


@public("not_equal")
def not_equal(x: Any, y: Any) -> Any:
    """``x != y``; NaN differs from everything."""
    return apply(Not, apply(Equal, x, y))


@public("positive")
def positive(x: Any) -> Any:
    """``+x``: x itself."""
    return staged(x)


@public("power")
def power(x: Any, y: Any) -> Any:
    """``x ** n`` for a known integer n >= 0, by repeated squaring."""
    if not isinstance(y, int) or isinstance(y, bool) or y < 0:
        raise DTypeError(
            f"power: expected a known integer exponent >= 0, found {y!r:.40}",
            remedy="write dlvm.exp(y * dlvm.log(x)) for other exponents",
        )
    square, result = staged(x), None
    while y:
        if y & 1:
            result = square if result is None else apply(Mul, result, square)
        y >>= 1
        if y:
            square = apply(Mul, square, square)
    return result if result is not None else apply(Mul, square, 0) + 1


@public("where")
def where(condition: Any, x: Any, y: Any) -> Any:
    """``x`` where the condition holds, else ``y``; all three broadcast."""
    condition, x, y = plain(condition), plain(x), plain(y)
    dtype = common((kind_of(x), kind_of(y)))
    note_widening("where", (x, y), (dtype, dtype))
    shape = broadcast_shapes([shape_of(condition), shape_of(x), shape_of(y)])
    op = Select(fit(condition, BOOL, shape), fit(x, dtype, shape), fit(y, dtype, shape))
    return fresh(op)


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
