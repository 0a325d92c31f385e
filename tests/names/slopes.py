"""Derivatives of public functions: where there are some, and how many digits of them are right.

``gradcheck`` holds the formulas against differences in f64. Here narrower types are held against
f64 at the same elements: a formula that loses digits, or a type that overflows on the way, shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dlvm

from .forms import Form, leaves

WEIGHTS = np.array([1.0, -0.5, 0.75, 0.25, -1.25, 1.5, -0.75])
"""What results are weighted with: numbers that every float type holds."""


def is_float(x: Any) -> bool:
    """Whether elements have derivatives."""
    return np.dtype(x.dtype).kind not in "iub"


def of_floats(form: Form) -> tuple[Callable[..., list[Any]], list[np.ndarray]]:
    """The float results as a function of the float operands, and these."""

    def call(*floats: Any) -> list[Any]:
        left = iter(floats)
        full = [next(left) if is_float(a) else a for a in form.arrays]
        return [r for r in leaves(form.on(form.call, full)) if is_float(r)]

    return call, [a for a in form.arrays if is_float(a)]


def weights(x: Any) -> Any:
    """Weights for every element, of its type."""
    size = int(np.prod(x.shape))
    return np.resize(WEIGHTS, size).reshape(x.shape).astype(x.dtype)


def total(results: Sequence[Any]) -> Any:
    """One number of all results, in f64: what comes back to each of them is its weight."""
    return sum(dlvm.sum(dlvm.astype(r * weights(r), np.float64)) for r in results)


def gradient(form: Form, order: int) -> Callable[[Form], list[np.ndarray]]:
    """The gradient of the weighted results, or of its own weighted elements, at other operands."""
    call, _ = of_floats(form)

    def first(*xs: Any) -> Any:
        wrt = tuple(range(len(xs)))
        return dlvm.grad(lambda *ys: total(call(*ys)), wrt=wrt)(*xs)

    def second(*xs: Any) -> Any:
        wrt = tuple(range(len(xs)))
        return dlvm.grad(lambda *ys: total(first(*ys)), wrt=wrt)(*xs)

    staged = dlvm.function(first if order == 1 else second)
    return lambda other: [np.asarray(g) for g in staged(*(a for a in other.arrays if is_float(a)))]


def has_slopes(form: Form) -> bool:
    """Whether it gives floats of floats: all else is constant, or counts."""
    if not form.has_floats:
        return False
    found = leaves(form.on(form.call, form.arrays))
    return any(is_float(np.asarray(r)) for r in found)
