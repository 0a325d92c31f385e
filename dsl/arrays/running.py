"""Cumulative functions: what a sum, maximum or log-sum-exp has become at each element.

Names are those of the array API standard, with NumPy's short ones. ``reverse`` goes from the last
element to the first; ``exclusive`` leaves each element out of its own result;
``include_initial`` puts the value of nothing first, which makes one element more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.elementwise import refuse_out
from dlvm.dsl.elements.reductions import axes_of, in_floats, widened
from dlvm.dsl.trace.operands import (
    broadcast_shapes,
    common,
    fit,
    fresh,
    kind_of,
    plain,
    shape_of,
    staged,
)
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import DERIVERS, LISTERS, PUBLIC, named
from dlvm.ir import BOOL, OPS, Value, zeros
from dlvm.ops import Concat, CumulativeProd, CumulativeSum, LinearRecurrence
from dlvm.ops.arrays.running import Cumulative

from .shapes import ravel


def one_axis(x: Tensor, axis: int | None, name: str) -> int:
    """The axis that is meant; none need be named where there is one."""
    if axis is None and x.ndim != 1:
        raise ArgumentError(
            f"{name}: {x.type} has {x.ndim} axes, and none of them is named",
            remedy=f"pass axis=, or run over all elements by {name}(x.reshape(-1))",
        )
    return axes_of(x, 0 if axis is None else axis)[0]


def run(
    cls: Callable[..., Value],
    name: str,
    x: Tensor,
    axis: int | None,
    include_initial: bool,
    reverse: bool,
    exclusive: bool,
) -> Tensor:
    """A running scan; with the initial value it is exclusive over one element more."""
    along, value = one_axis(x, axis, name), x.read()
    if include_initial:
        one = (*x.type.shape[:along], 1, *x.type.shape[along + 1 :])
        rest = zeros(value.type.with_shape(one))
        value = Concat((rest, value) if reverse else (value, rest), along)
    return fresh(cls(value, along, bool(reverse), bool(exclusive or include_initial)))


def _of_class(cls: type[Cumulative]) -> Callable[..., Any]:
    def call(
        x: Any,
        axis: int | None = None,
        dtype: Any = None,
        out: None = None,
        include_initial: bool = False,
        reverse: bool = False,
        exclusive: bool = False,
    ) -> Any:
        refuse_out(out)
        x = staged(x)
        if cls.folds.widens or dtype is not None:
            x = widened(x, dtype)
        x = x if "i" in cls.accepts else in_floats(x)
        return run(cls, cls.name, x, axis, include_initial, reverse, exclusive)

    return call


def derive(name: str) -> Callable[..., Any] | None:
    """The public function of a cumulative operation, if there is one of that name."""
    cls = OPS.get(name)
    if cls is None or not issubclass(cls, Cumulative):
        return None
    call = _of_class(cls)
    call.__doc__ = cls.__doc__
    public(name)(call)
    return PUBLIC[name]


DERIVERS.append(derive)
LISTERS.append(lambda: [name for name, cls in OPS.items() if issubclass(cls, Cumulative)])


def _flat(x: Any, axis: int | None) -> Tensor:
    return staged(ravel(x) if axis is None else x)


@public("cumsum")
def cumsum(x: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """NumPy's running sum: ``cumulative_sum``, over all elements where no axis is named."""
    refuse_out(out)
    return run(CumulativeSum, "cumsum", widened(_flat(x, axis), dtype), axis, False, False, False)


@public("cumprod")
def cumprod(x: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """NumPy's running product: ``cumulative_prod``, over all elements where no axis is named."""
    refuse_out(out)
    return run(CumulativeProd, "cumprod", widened(_flat(x, axis), dtype), axis, False, False, False)


@public("linear_recurrence")
def linear_recurrence(
    a: Any, b: Any, axis: int = -1, reverse: bool = False, exclusive: bool = False
) -> Any:
    """``y[i] = a[i] * y[i-1] + b[i]`` along an axis, from 0 on; ``a`` and ``b`` broadcast.

    >>> linear_recurrence(0.5, np.ones(4))
    array([1.   , 1.5  , 1.75 , 1.875])
    """
    a, b = plain(a), plain(b)
    dtype, shape = common((kind_of(a), kind_of(b))), broadcast_shapes([shape_of(a), shape_of(b)])
    x, y = fit(a, dtype, shape), fit(b, dtype, shape)
    (along,) = axes_of(fresh(x), axis)
    return fresh(LinearRecurrence(x, y, along, reverse, exclusive))


@public("diff")
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Each element less the one before it, ``n`` times over; what a running sum undoes.

    Of bools, whether the two differ.
    """
    x = staged(x)
    (along,) = axes_of(x, axis)
    if n < 0:
        raise ArgumentError(f"diff: expected n >= 0, found {n}")
    ends = [_end(x, end, along) for end in (prepend, append)]
    parts = [part for part in (ends[0], x, ends[1]) if part is not None]
    x = x if len(parts) == 1 else named("concat")(parts, along)
    before = (slice(None),) * along
    for _ in range(n):
        later, earlier = x[(*before, slice(1, None))], x[(*before, slice(None, -1))]
        x = later != earlier if x.element is BOOL else later - earlier
    return x


def _end(x: Tensor, given: Any, axis: int) -> Tensor | None:
    """The array to put before or after another one along an axis, from a number for each row."""
    if given is None:
        return None
    end = staged(given)
    one = (*x.type.shape[:axis], 1, *x.type.shape[axis + 1 :])
    return end if end.ndim else named("broadcast_to")(end, one)
