"""Polynomials as vectors of coefficients, the highest power first, under NumPy's names."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.operands import staged
from dlvm.dsl.trace.scopes import is_sequence
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp
from dlvm.ir.sizes.dims import maximum

from .eager import public


@public("polyval")
def polyval(p: Any, x: Any) -> Any:
    """The value at ``x`` of the polynomial with these coefficients, by Horner's rule."""
    coefficients = p if is_sequence(p) else [*staged(p)]
    x = staged(x)
    found: Any = xp.zeros_like(x)
    for c in coefficients:
        found = found * x + c
    return found


@public("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """The matrix whose columns are powers of a vector: ``x**(N-1) ... x**1, x**0``."""
    x = _vector(x, "vander")
    x = xp.astype(x, xp.promote_types(x.dtype, int))  # as NumPy does
    count = x.type.shape[0] if N is None else N
    if not isinstance(count, int):
        raise ShapeError(
            f"vander: the number of columns is the open size {count}",
            remedy="give the number of columns: dlvm.vander(x, 4)",
        )
    powers: list[Any] = [xp.ones_like(x)]
    for _ in range(count - 1):
        powers.append(powers[-1] * x)
    columns = powers[:count] if increasing else powers[:count][::-1]
    return xp.stack(columns, 1) if columns else xp.zeros((x.type.shape[0], 0), x.dtype)


@public("polyadd")
def polyadd(a1: Any, a2: Any) -> Any:
    """The sum of two polynomials."""
    a, b = _vector(a1, "polyadd"), _vector(a2, "polyadd")
    return _padded(a, b) + _padded(b, a)


@public("polysub")
def polysub(a1: Any, a2: Any) -> Any:
    """The difference of two polynomials."""
    a, b = _vector(a1, "polysub"), _vector(a2, "polysub")
    return _padded(a, b) - _padded(b, a)


@public("polymul")
def polymul(a1: Any, a2: Any) -> Any:
    """The product of two polynomials; one without coefficients is 0."""
    given = [_vector(a1, "polymul"), _vector(a2, "polymul")]
    return xp.convolve(*(xp.zeros(1, x.dtype) if x.type.shape[0] == 0 else x for x in given))


@public("polyder")
def polyder(p: Any, m: int = 1) -> Any:
    """The ``m``-th derivative of a polynomial."""
    p = _vector(p, "polyder")
    for _ in range(_order(m, "polyder")):
        p = p[:-1] * xp.arange(p.type.shape[0] - 1, 0, -1)
    return p


@public("polyint")
def polyint(p: Any, m: int = 1) -> Any:
    """The ``m``-th antiderivative of a polynomial, whose constants are 0."""
    p = _vector(p, "polyint")
    for _ in range(_order(m, "polyint")):
        p = xp.pad(p / xp.arange(p.type.shape[0], 0, -1), (0, 1))
    return p


def _order(m: Any, name: str) -> int:
    if not isinstance(m, int) or m < 0:
        raise ArgumentError(f"{name}: expected a number of times of at least 0, found {m!r}")
    return m


def _vector(p: Any, name: str) -> Tensor:
    p = xp.atleast_1d(p if not is_sequence(p) else xp.stack([staged(c) for c in p]))
    if p.ndim != 1:
        raise ShapeError(f"{name}: expected a vector, found {p.type}")
    return p


def _padded(a: Tensor, b: Tensor) -> Any:
    """``a`` with zeros in front, so that it is at least as long as ``b``."""
    n, m = a.type.shape[0], b.type.shape[0]
    return xp.pad(a, (maximum(m - n, 0), 0))
