"""First values of parameters, with the names and signatures of ``jax.nn.initializers``.

An initialiser is a function of a key, a shape and an element type, which is f32 by default::

    w = dlvm.nn.initializers.he_normal()(key, (784, 512))

Fans are counted as in JAX: axis -2 is the input's, axis -1 the output's, all others are a window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import known_dtype
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.suggestions import reader
from dlvm.dsl.words.names import named
from dlvm.dsl.words.namespace import xp

Initializer = Callable[..., Any]
MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda i, o: i,
    "fan_out": lambda i, o: o,
    "fan_avg": lambda i, o: (i + o) / 2,
}
CUT = 0.87962566103423978
"""The standard deviation of a normal number that is cut at -2 and 2."""

__all__ = [
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]


@facing_users
def zeros(key: Any, shape: Sequence[int], dtype: Any = "f32") -> Any:
    """Zeros, which no key changes."""
    return xp.zeros(tuple(shape), dtype=known_dtype(dtype))


@facing_users
def ones(key: Any, shape: Sequence[int], dtype: Any = "f32") -> Any:
    """Ones, which no key changes."""
    return xp.ones(tuple(shape), dtype=known_dtype(dtype))


def constant(value: Any, dtype: Any = "f32") -> Initializer:
    """Elements that are all ``value``."""

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return xp.full(tuple(shape), value, dtype=known_dtype(dtype))

    return init


def uniform(scale: Any = 1e-2, dtype: Any = "f32") -> Initializer:
    """Numbers from 0 up to ``scale``, evenly."""

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return xp.multiply(_random("uniform")(key, tuple(shape), dtype), scale)

    return init


def normal(stddev: Any = 1e-2, dtype: Any = "f32") -> Initializer:
    """Normally distributed numbers of mean 0."""

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        return xp.multiply(_random("normal")(key, tuple(shape), dtype), stddev)

    return init


def truncated_normal(
    stddev: Any = 1e-2, dtype: Any = "f32", lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """``stddev`` times normal numbers of which only those from ``lower`` to ``upper`` are kept."""

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        found = _random("truncated_normal")(key, lower, upper, tuple(shape), known_dtype(dtype))
        return xp.multiply(found, stddev)

    return init


def variance_scaling(
    scale: Any,
    mode: str,
    distribution: str,
    in_axis: int = -2,
    out_axis: int = -1,
    dtype: Any = "f32",
) -> Initializer:
    """Numbers of mean 0 and variance ``scale / fan``, so that layers neither blow up nor fade.

    The fan is ``"fan_in"``, ``"fan_out"`` or ``"fan_avg"``, their mean; numbers are ``"normal"``,
    ``"truncated_normal"`` or ``"uniform"``.
    """
    _check("mode", mode, MODES)
    _check("distribution", distribution, DRAWS)

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        fan = MODES[mode](*_fans(tuple(shape), in_axis, out_axis))
        return DRAWS[distribution](key, tuple(shape), dtype, math.sqrt(scale / max(fan, 1)))

    return init


def orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = "f32") -> Initializer:
    """``scale`` times matrices whose columns, or rows if these are fewer, are orthonormal.

    They are those of ``dlvm.random.orthogonal`` (Saxe et al., 2014). All axes but ``column_axis``
    count rows together.
    """

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        sizes = tuple(shape)
        if len(sizes) < 2 or not -len(sizes) <= column_axis < len(sizes):
            raise ShapeError(
                "initializers.orthogonal: expected a shape of two axes or more, among which is the "
                f"column axis {column_axis}, found {sizes}",
                origin=user_origin(),
                remedy="for a vector take initializers.normal(0.1)",
            )
        columns = sizes[column_axis]
        rows = math.prod(sizes) // max(columns, 1)
        q = _random("orthogonal")(key, rows, (), known_dtype(dtype), columns)
        rest = tuple(n for i, n in enumerate(sizes) if i != column_axis % len(sizes))
        found = xp.moveaxis(xp.reshape(q, (*rest, columns)), -1, column_axis)
        return xp.copy(xp.multiply(found, scale))

    return init


def delta_orthogonal(scale: Any = 1.0, column_axis: int = -1, dtype: Any = "f32") -> Initializer:
    """Weights (*window, in, out) of convolutions that are ``orthogonal`` in the middle, else 0."""

    @facing_users
    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Any:
        *window, inside, out = shape
        if not 1 <= len(window) <= 3 or inside > out:
            raise ShapeError(
                f"initializers.delta_orthogonal: expected a shape (*window, in, out), in no larger "
                f"than out, found {tuple(shape)}",
                origin=user_origin(),
                remedy="take initializers.orthogonal() for other shapes",
            )
        matrix = orthogonal(scale, column_axis)(key, (inside, out), dtype)
        around = [((n - 1) // 2, n - 1 - (n - 1) // 2) for n in window]
        matrix = xp.reshape(matrix, (*(1 for _ in window), inside, out))
        return xp.pad(matrix, [*around, (0, 0), (0, 0)])

    return init


def _random(name: str) -> Callable[..., Any]:
    """The public function of ``dlvm.random`` of a name."""
    return named(f"random.{name}")


def _evenly(key: Any, shape: tuple[int, ...], dtype: Any, deviation: float) -> Any:
    end = math.sqrt(3) * deviation
    return xp.multiply(_random("uniform")(key, shape, dtype, -1.0), end)


def _cut(key: Any, shape: tuple[int, ...], dtype: Any, deviation: float) -> Any:
    return truncated_normal(deviation / CUT)(key, shape, dtype)


def _normally(key: Any, shape: tuple[int, ...], dtype: Any, deviation: float) -> Any:
    return normal(deviation)(key, shape, dtype)


DRAWS = {"uniform": _evenly, "truncated_normal": _cut, "normal": _normally}


def _fans(shape: tuple[int, ...], in_axis: int, out_axis: int) -> tuple[float, float]:
    """How many numbers each output is made of, and how many are made of each input."""
    if len(shape) < 2:
        raise ShapeError(
            f"initializers: expected a shape with axes of inputs and of outputs, found {shape}",
            origin=user_origin(),
            remedy="fans are counted of matrices: for a vector take initializers.normal(0.1)",
        )
    window = math.prod(shape) / max(shape[in_axis] * shape[out_axis], 1)
    return shape[in_axis] * window, shape[out_axis] * window


def _check(what: str, given: str, known: Mapping[str, Any]) -> None:
    if given not in known:
        raise UserError(
            f"initializers: expected a {what} among {', '.join(known)}, found {given!r}",
            origin=user_origin(),
            remedy=f"pass one of these as {what}",
        )


def _scaled(name: str, scale: float, mode: str, distribution: str) -> Callable[..., Initializer]:
    """An initialiser that scales variances in one way."""

    def make(in_axis: int = -2, out_axis: int = -1, dtype: Any = "f32") -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"``variance_scaling({scale}, {mode!r}, {distribution!r})``."
    return make


glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform")
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal")
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal")

if not TYPE_CHECKING:
    __getattr__, __dir__ = reader(__name__, __all__)
