"""Complex numbers as pairs of arrays, the real and the imaginary parts."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.words.namespace import xp

Parts = tuple[Any, Any]


def times(x: Parts, y: Parts) -> Parts:
    """The product of each number with the other."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def less(x: Parts, y: Parts) -> Parts:
    """The difference."""
    return x[0] - y[0], x[1] - y[1]


def over(x: Parts, y: Parts) -> Parts:
    """The quotient, where the square of no number over- or underflows."""
    size = y[0] * y[0] + y[1] * y[1]
    return (x[0] * y[0] + x[1] * y[1]) / size, (x[1] * y[0] - x[0] * y[1]) / size


def inverse(x: Parts) -> Parts:
    """One divided by each number, of any size; of 0 it is NaN."""
    most = xp.maximum(xp.abs(x[0]), xp.abs(x[1]))
    real, imaginary = x[0] / most, x[1] / most
    size = (real * real + imaginary * imaginary) * most
    return real / size, -imaginary / size


def product(x: Parts, y: Parts) -> Parts:
    """The product of matrices."""
    real = xp.matmul(x[0], y[0]) - xp.matmul(x[1], y[1])
    return real, xp.matmul(x[0], y[1]) + xp.matmul(x[1], y[0])
