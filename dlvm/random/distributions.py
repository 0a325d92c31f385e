"""Distributions that are a formula of uniform or normal numbers, bit for bit those of JAX.

Derivatives flow through what is drawn to the parameters.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.arrays.random_numbers import DIGITS, float_type
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.accidents import of_default
from dlvm.dsl.trace.operands import known_dtype, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.names import named
from dlvm.dsl.words.namespace import xp

METHODS = ("cholesky", "eigh", "svd")


def drawn(name: str) -> Any:
    """The function of ``dlvm.random`` of a name."""
    return named(f"random.{name}")


def parameters(name: str, dtype: Any, shape: Any, *given: Any) -> tuple[Any, list[Any]]:
    """The shape of what is drawn, and the parameters in its element type.

    Without ``dtype`` that is the float type of the parameters, or the default one.
    """
    arrays = [xp.asarray(x) for x in given]
    kinds = [known_dtype(x.dtype) for x, own in zip(arrays, given, strict=True) if has_type(own)]
    floats = [kind for kind in kinds if kind.is_float]
    target = known_dtype(xp.result_type(*floats)) if dtype is None and floats else dtype
    kind = float_type(name, target)
    found = xp.broadcast_shapes(*map(shape_of, arrays)) if shape is None else shape
    return found, [xp.astype(x, kind) for x in arrays]


def any_open(state: tuple[Any, Any, Any]) -> Any:
    """Whether a rejection goes on: some elements of ``(turn, accepted, open)`` are open."""
    return xp.any(state[2])


def has_type(x: Any) -> bool:
    """Whether something has an element type of its own, which Python's numbers don't have."""
    return hasattr(x, "dtype")


@exported("random.laplace")
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Floats of the density ``exp(-abs(x)) / 2``.

    >>> dlvm.random.laplace(dlvm.random.key(0), (3,)).shape
    (3,)
    """
    kind = float_type("laplace", dtype)
    u = drawn("uniform")(key, shape, kind, -1 + 2.0 ** -DIGITS[kind])
    return of_default("laplace", dtype, xp.sign(u) * xp.log1p(-xp.abs(u)))


@exported("random.cauchy")
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Floats of the density ``1 / (pi * (1 + x ** 2))``.

    >>> dlvm.random.cauchy(dlvm.random.key(0), (3,)).shape
    (3,)
    """
    kind = float_type("cauchy", dtype)
    u = drawn("uniform")(key, shape, kind, 2.0 ** (1 - DIGITS[kind]))
    return of_default("cauchy", dtype, xp.tan(math.pi * (u - 0.5)))


@exported("random.rademacher")
def rademacher(key: Any, shape: Any = (), dtype: Any = "i64") -> Any:
    """The numbers -1 and 1, each with a probability of one half.

    >>> set(dlvm.random.rademacher(dlvm.random.key(0), (50,)).tolist()) == {-1, 1}
    True
    """
    return xp.astype(drawn("bernoulli")(key, 0.5, shape), known_dtype(dtype)) * 2 - 1


@exported("random.truncated_normal")
def truncated_normal(key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Normal numbers of which only those between ``lower`` and ``upper`` are kept.

    They are neither of the ends. Derivatives flow to both ends.

    >>> bool((abs(dlvm.random.truncated_normal(dlvm.random.key(0), -1, 1, (99,))) < 1).all())
    True
    """
    shape, (low, high) = parameters("truncated_normal", dtype, shape, lower, upper)
    root = math.sqrt(2)
    u = drawn("uniform")(key, shape, low.dtype, xp.erf(low / root), xp.erf(high / root))
    inside = [
        xp.nextafter(xp.stop_gradient(end), xp.full_like(end, towards))
        for end, towards in ((low, math.inf), (high, -math.inf))
    ]
    return xp.minimum(xp.maximum(xp.erfinv(u) * root, inside[0]), inside[1])


@exported("random.multivariate_normal")
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Any:
    """Normal vectors of a mean (..., N) and a covariance (..., N, N), along a new last axis.

    ``shape`` is that of the batch, to which those of ``mean`` and ``cov`` are broadcast; it has no
    axis for N. ``method`` is how the covariance is factorised: ``"cholesky"`` if it is positive
    definite, ``"eigh"`` or ``"svd"`` also if it is singular.

    >>> dlvm.random.multivariate_normal(dlvm.random.key(0), np.zeros(2), np.eye(2), (5,)).shape
    (5, 2)
    """
    if method not in METHODS:
        raise UserError(
            f"multivariate_normal: expected a method among {', '.join(METHODS)}, found {method!r}",
            origin=user_origin(),
            remedy="give one of these methods",
        )
    _, (mean, cov) = parameters("multivariate_normal", dtype, (), mean, cov)
    many, square = shape_of(mean), shape_of(cov)
    if not many or square[-2:] != (many[-1], many[-1]):
        raise ShapeError(
            f"multivariate_normal: expected a mean (..., N) and a covariance (..., N, N), found "
            f"the shapes {shown_shape(many)} and {shown_shape(square)}",
            origin=user_origin(),
            remedy="give a covariance with two axes of the length of the mean",
        )
    batch = xp.broadcast_shapes(many[:-1], square[:-2]) if shape is None else tuple(shape)
    noise = drawn("normal")(key, (*batch, many[-1]), mean.dtype)
    return mean + xp.matmul(_factor(cov, method), noise[..., None])[..., 0]


def _factor(cov: Any, method: str) -> Any:
    """A matrix L of which ``L @ L.mT`` is the covariance."""
    if method == "cholesky":
        return named("linalg.cholesky")(cov)
    if method == "eigh":
        values, vectors = named("linalg.eigh")(cov)
    else:
        vectors, values, _ = named("linalg.svd")(cov)
    return vectors * xp.sqrt(xp.maximum(values, 0))[..., None, :]


@exported("random.orthogonal")
def orthogonal(key: Any, n: Any, shape: Any = (), dtype: Any = None, m: Any = None) -> Any:
    """Matrices (*shape, n, m) whose columns, or rows if these are fewer, are orthonormal.

    They are evenly distributed over all such matrices (Stewart, 1980): the Q of normal numbers with
    the signs of the diagonal of R. ``m`` is ``n`` if it is not given.

    >>> q = dlvm.random.orthogonal(dlvm.random.key(0), 3)
    >>> bool(np.allclose(q @ q.T, np.eye(3)))
    True
    """
    columns = n if m is None else m
    kind = float_type("orthogonal", dtype)
    size = (*shape, max(n, columns), min(n, columns))
    q, r = named("linalg.qr")(drawn("normal")(key, size, kind.compute))
    signs = xp.where(named("linalg.diagonal")(r) < 0, -1, 1)
    found = xp.astype(q * signs[..., None, :], kind)
    return of_default("orthogonal", dtype, found if n >= columns else xp.matrix_transpose(found))
