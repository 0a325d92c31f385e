"""Sizes as users see them: an open size computes and compares as the number that it will be.

Internally, sizes are ``Expr``, which are equal if they are written alike. For a user that would be
wrong: ``x.shape[0] == 1`` is neither true nor false before the call. Arrays therefore show a
``Size``. A comparison that has the same answer for all values of its symbols is a Python bool, any
other one is staged. ``bare`` turns sizes back into expressions where functions take their operands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Number
from typing import Any, TypeAlias

from dlvm.base.errors import TraceError
from dlvm.dsl.words.names import named
from dlvm.dsl.words.remedies import COMPLEX, COUNT, FLOAT, INT, TEXT
from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import at_least, floordiv, mod

from .mistakes import no_hash_of_size, no_number_of_size
from .scopes import current, user_origin

Shown: TypeAlias = "int | Size"
SQUARED = 16  # a whole power up to here is a size again


def shown(size: Dim) -> Shown:
    """A size as users see it."""
    return Size(size) if isinstance(size, Expr) else size


def bare(x: Any) -> Any:
    """Operands with sizes as they are inside, those in shapes and slices too."""
    cls = x.__class__
    if cls is Size:
        return x.dim
    if cls is tuple:
        return tuple(map(bare, x))
    if cls is list:
        return list(map(bare, x))
    if cls is dict:
        return {key: bare(value) for key, value in x.items()}
    return slice(bare(x.start), bare(x.stop), bare(x.step)) if cls is slice else x


def _dim(x: Any) -> Dim | None:
    """A size or whole number as a dimension; None for anything else."""
    if isinstance(x, Size):
        return x.dim
    return int(x) if isinstance(x, Integral) else None


def _is_number(x: Any) -> bool:
    return isinstance(x, Number) or hasattr(x, "__array_ufunc__")


def _arithmetic(name: str, exact: Callable[[Dim, Dim], Dim]) -> tuple[Any, Any]:
    """An operator and its reflected form: a size for whole numbers, staged for other operands."""

    def straight(self: Size, other: Any) -> Any:
        if (size := _dim(other)) is not None:
            return shown(exact(self.dim, size))
        return named(name)(self, other) if _is_number(other) else NotImplemented

    def reflected(self: Size, other: Any) -> Any:
        if (size := _dim(other)) is not None:
            return shown(exact(size, self.dim))
        return named(name)(other, self) if _is_number(other) else NotImplemented

    return straight, reflected


def _staged(name: str) -> tuple[Any, Any]:
    """An operator and its reflected form whose result is staged, not a size."""

    def straight(self: Size, other: Any) -> Any:
        return named(name)(self, other) if _is_number(other) else NotImplemented

    def reflected(self: Size, other: Any) -> Any:
        return named(name)(other, self) if _is_number(other) else NotImplemented

    return straight, reflected


def _comparison(name: str, proven: Callable[[Dim, Dim], bool | None]) -> Any:
    """A comparison: a bool if it is the same for all values of the symbols, else staged."""

    def compare(self: Size, other: Any) -> Any:
        if not _is_number(other):
            return NotImplemented
        size = _dim(other)
        known = None if size is None else proven(self.dim, size)
        if known is not None:
            return known
        if current() is None:
            raise TraceError(
                f"the size {self} is known in a call only, and no function is being traced",
                origin=user_origin(),
                remedy="compare the shapes of arrays that are no longer staged",
            )
        return named(name)(self, other)

    return compare


def _equal(a: Dim, b: Dim) -> bool | None:
    if a == b:
        return True
    return False if at_least(a, b + 1) or at_least(b, a + 1) else None


def _less(a: Dim, b: Dim) -> bool | None:
    if at_least(b, a + 1):
        return True
    return False if at_least(a, b) else None


def _not(known: bool | None) -> bool | None:
    return None if known is None else not known


class Size:
    """A size that is not known while tracing: a number in formulas, and a size in shapes."""

    __slots__ = ("dim",)
    __array_priority__ = 1000

    def __init__(self, dim: Expr) -> None:
        self.dim = dim

    __add__, __radd__ = _arithmetic("add", lambda a, b: a + b)
    __sub__, __rsub__ = _arithmetic("subtract", lambda a, b: a - b)
    __mul__, __rmul__ = _arithmetic("multiply", lambda a, b: a * b)
    __floordiv__, __rfloordiv__ = _arithmetic("floor_divide", floordiv)
    __mod__, __rmod__ = _arithmetic("remainder", mod)
    __truediv__, __rtruediv__ = _staged("divide")
    _power, __rpow__ = _staged("power")
    __lt__ = _comparison("less", _less)
    __gt__ = _comparison("greater", lambda a, b: _less(b, a))
    __le__ = _comparison("less_equal", lambda a, b: _not(_less(b, a)))
    __ge__ = _comparison("greater_equal", lambda a, b: _not(_less(a, b)))
    __eq__ = _comparison("equal", _equal)
    __ne__ = _comparison("not_equal", lambda a, b: _not(_equal(a, b)))

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, Integral) and 0 <= int(other) <= SQUARED:
            power: Dim = 1
            for _ in range(int(other)):
                power = power * self.dim
            return shown(power)
        return self._power(other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return shown(-self.dim)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return self if at_least(self.dim, 0) else named("abs")(self)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **options: Mapping[str, Any]
    ) -> Any:
        sizes = [_dim(x) for x in inputs]
        if method == "__call__" and ufunc.__name__ in OPERATORS and None not in sizes:
            return OPERATORS[ufunc.__name__](*(shown(d) for d in sizes if d is not None))
        return named("_numpy_ufunc")(ufunc, method, inputs, options)

    # -- what Python asks of numbers -------------------------------------------------------------

    def __bool__(self) -> bool:
        known = _equal(self.dim, 0)
        if known is None:
            raise TraceError(
                f"the size {self} is not known while tracing, so it has no truth value",
                origin=user_origin(),
                remedy="compare it: dlvm.where(x.shape[0] == 0, a, b), or dlvm.cond for code",
            )
        return not known

    def __hash__(self) -> int:
        raise no_hash_of_size(self)

    def __index__(self) -> int:
        raise no_number_of_size(self, COUNT)

    def __float__(self) -> float:
        raise no_number_of_size(self, FLOAT)

    def __int__(self) -> int:
        raise no_number_of_size(self, INT)

    def __complex__(self) -> complex:
        raise no_number_of_size(self, COMPLEX)

    def __round__(self, digits: int | None = None) -> Size:
        return self

    __floor__ = __ceil__ = __pos__

    def __format__(self, spec: str) -> str:
        if spec:
            raise no_number_of_size(self, TEXT)
        return str(self)

    def __str__(self) -> str:
        return str(self.dim)

    __repr__ = __str__


_COMPUTED = ("add", "subtract", "multiply", "floor_divide", "remainder", "negative")
_COMPARED = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
_PYTHON = ("add", "sub", "mul", "floordiv", "mod", "neg", "lt", "le", "gt", "ge", "eq", "ne")
OPERATORS: Mapping[str, Callable[..., Any]] = {
    name: getattr(operator, short)
    for name, short in zip((*_COMPUTED, *_COMPARED), _PYTHON, strict=True)
}
"""NumPy's functions by which a whole number of NumPy's computes with a size."""


def shown_sizes(shape: Sequence[Dim]) -> tuple[Shown, ...]:
    """A shape as users see it."""
    return tuple(map(shown, shape))
