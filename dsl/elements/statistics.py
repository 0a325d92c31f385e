"""Means, variances and what follows from them; the same without the elements that are NaN.

Integers give f64, half precision is summed in f32 and rounded once. A variance takes two
passes, the mean first, as the difference of two large sums would lose its digits.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.operands import element, fresh, kind_of, known_dtype, narrowed, spread, staged
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import named
from dlvm.ir import F64, I64, Dim, DType, Expr, Value
from dlvm.ir.sizes.dims import maximum
from dlvm.ops import ArgMax, ArgMin, Div, IsNan, Max, Min, Mul, Sqrt, Sub, Sum

from .arithmetic import where as select
from .eager import public
from .elementwise import apply, note_widening, refuse_out
from .powers import root
from .reductions import all, axes_of, only_where, reduce

NAN = float("nan")


def _target(x: Tensor, dtype: Any) -> DType:
    """The element type of a mean."""
    if dtype is not None:
        return known_dtype(dtype)
    return x.element if x.element.is_float else default_float()


def _count(x: Tensor, axis: Any, where: Any, keepdims: bool) -> Any:
    """How many elements there are along the axes, or how many a mask holds of as a float."""
    if where is None or where is True:
        count: Dim = 1
        for a in axes_of(x, axis):
            count = count * x.type.shape[a]
        return count
    mask = fresh(spread(element(staged(where), I64), x.type.shape))
    return fresh(element(reduce(Sum, mask, axis, keepdims), x.element))


def _mean(x: Tensor, axis: Any, where: Any, keepdims: bool) -> Tensor:
    masked = x if where is None else only_where(where, x, 0)
    return apply(Div, reduce(Sum, masked, axis, keepdims), _count(x, axis, where, keepdims))


@public("mean")
def mean(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    where: Any = None,
) -> Any:
    """The sum over the axes divided by how many elements there are; integers give f64."""
    refuse_out(out)
    x = staged(x)
    target = _target(x, dtype)
    note_widening("mean", (x,), (target,), silent=dtype is not None)
    found = _mean(fresh(element(x, target.compute)), axis, where, keepdims)
    return fresh(element(found, target))


@public("var")
def var(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The mean square of what is left after taking the mean away.

    Divided by the number of elements less ``correction`` (``ddof`` in NumPy).
    """
    refuse_out(out)
    target = _target(x := staged(x), dtype)
    correction = ddof if correction is None else correction
    return fresh(
        element(_wide_variance("var", x, target, dtype, axis, where, keepdims, correction), target)
    )


def _wide_variance(name: str, x: Tensor, target: DType, dtype: Any, *how: Any) -> Tensor:
    """The variance in the type in which the target's arithmetic is done."""
    note_widening(name, (x,), (target,), silent=dtype is not None)
    return _variance(fresh(element(x, target.compute)), *how)


def _variance(x: Tensor, axis: Any, where: Any, keepdims: bool, correction: Any) -> Tensor:
    rest = apply(Sub, x, _mean(x, axis, where, True))
    rest = rest if where is None else only_where(where, rest, 0)
    count = _count(x, axis, where, keepdims)
    if isinstance(count, int | Expr) and isinstance(correction, int):
        left: Any = maximum(count - correction, 0)
    else:
        left = named("maximum")(apply(Sub, count, correction), 0)
    return apply(Div, reduce(Sum, apply(Mul, rest, rest), axis, keepdims), left)


@public("std")
def std(
    x: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    ddof: Any = 0,
    keepdims: bool = False,
    where: Any = None,
    correction: Any = None,
) -> Any:
    """The square root of the variance; see ``var``. Its derivative is 0 where all are equal."""
    refuse_out(out)
    target = _target(x := staged(x), dtype)
    correction = ddof if correction is None else correction
    found = root(_wide_variance("std", x, target, dtype, axis, where, keepdims, correction))
    return fresh(element(found, target))


@public("average")
def average(
    x: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The sum of weighted elements over the sum of weights; ``returned`` gives that sum too."""
    x = staged(x)
    if weights is None:
        weights = named("ones")(x.type.shape, _target(x, None))
    weights = staged(weights)
    if weights.ndim < x.ndim:
        at, *others = axes_of(x, axis)
        if others:
            raise ShapeError(
                f"average: weights {weights.type} do not say along which axis of {x.type} they lie",
                remedy="write axis=0, or another axis",
            )
        weights = named("reshape")(
            weights, [d if i == at else 1 for i, d in enumerate(x.type.shape)]
        )
    weighted = apply(Mul, apply(Mul, x, weights), 1.0)
    weights = fresh(spread(element(weights, weighted.element), x.type.shape))
    total = reduce(Sum, weights, axis, keepdims)
    found = apply(Div, reduce(Sum, weighted, axis, keepdims), total)
    return (found, total) if returned else found


@public("cov")
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    *,
    dtype: Any = None,
) -> Any:
    """Covariances of the variables that are the rows, each column being one observation.

    Computed in f64 unless ``dtype`` says otherwise, as NumPy does.
    """
    rows = [_rows(v, rowvar) for v in (m, y) if v is not None]
    kinds = tuple(kind_of(row) for row in rows)
    target = narrowed(F64, kinds) if dtype is None else known_dtype(dtype)
    note_widening("cov", rows, [target] * len(rows), silent=dtype is not None)
    x = named("concat")([fresh(element(row, target)) for row in rows])
    rest = apply(Sub, x, mean(x, 1, keepdims=True))
    correction = (0 if bias else 1) if ddof is None else ddof
    count = maximum(rest.type.shape[1] - correction, 0)
    return named("squeeze")(apply(Div, rest @ rest.T, count))


def _rows(x: Any, rowvar: bool) -> Tensor:
    """One variable in each row; a vector is one variable."""
    x = staged(x)
    if x.ndim < 2:
        return named("reshape")(x, (1, -1))
    return x if rowvar else x.T


@public("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """Covariances divided by both standard deviations; of f64 unless ``dtype`` says otherwise."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.ndim:
        return apply(Div, c, c)
    size = apply(Sqrt, reduce(Sum, select(named("eye")(c.type.shape[0]), c, 0), 0, False))
    return c / size[:, None] / size[None, :]


# -- without the elements that are NaN -----------------------------------------------------------


def _known(x: Any) -> tuple[Tensor, Any]:
    """An array, and where it is not NaN (None for all)."""
    x = staged(x)
    return x, ~apply(IsNan, x) if x.element.is_float else None


def _skipping(name: str) -> Callable[..., Any]:
    signature = inspect.signature(named(name))

    def call(*args: Any, **options: Any) -> Any:
        given = signature.bind(*args, **options).arguments
        given["x"], known = _known(given["x"])
        if known is not None:
            where = given.get("where")
            given["where"] = known if where is None else known & where
        return named(name)(given.pop("x"), **given)

    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = f"``{name}`` of the elements that are not NaN; see ``{name}``."
    return call


for _name in ("sum", "prod", "mean", "var", "std"):
    public(f"nan{_name}")(_skipping(_name))


@public("nanmax")
def nanmax(x: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The largest element that is not NaN; NaN where all are."""
    refuse_out(out)
    return _extreme(Max, x, axis, keepdims)


@public("nanmin")
def nanmin(x: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """The smallest element that is not NaN; NaN where all are."""
    refuse_out(out)
    return _extreme(Min, x, axis, keepdims)


def _extreme(cls: Callable[..., Value], x: Any, axis: Any, keepdims: bool) -> Tensor:
    x, known = _known(x)
    if known is None:
        return reduce(cls, x, axis, keepdims)
    worst = -float("inf") if cls is Max else float("inf")
    found = reduce(cls, select(known, x, worst), axis, keepdims)
    return select(all(~known, axis, keepdims=keepdims), NAN, found)


@public("nanargmax")
def nanargmax(x: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """Where the largest element is that is not NaN; 0 where all are."""
    refuse_out(out)
    x, known = _known(x)
    x = x if known is None else select(known, x, -float("inf"))
    return reduce(ArgMax, x, axis, keepdims)


@public("nanargmin")
def nanargmin(x: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """Where the smallest element is that is not NaN; 0 where all are."""
    refuse_out(out)
    x, known = _known(x)
    x = x if known is None else select(known, x, float("inf"))
    return reduce(ArgMin, x, axis, keepdims)
