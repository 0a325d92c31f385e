"""Whether the values of a public function are those that its meaning says.

The meaning is run in extended precision, on the elements that the function is given. How far a
value may be from it is computed: a few units in the last place of the result, and as far as the
meaning itself moves where each operand is moved by as much as its own last place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .forms import BF16, Form, leaves

SHAKES = 4
SAFETY = 8.0
"""How many such roundings a function of a few operations may make."""
Arrays = Sequence[np.ndarray]


def said(form: Form) -> list[np.ndarray] | None:
    """The results that the meaning gives in f64; None where NumPy refuses the operands."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return [np.asarray(r) for r in leaves(form.on(form.meaning, form.arrays))]
        except (ValueError, TypeError, IndexError, ArithmeticError, BufferError, AttributeError):
            return None


def exact(form: Form) -> list[np.ndarray]:
    """The same in extended precision, where it can be had, from the same elements."""
    found = said(form.each(lambda a: a.astype(np.longdouble)))
    found = said(form.each(lambda a: a.astype(np.float64))) if found is None else found
    return middle_of(form) if found is None else found


def middle_of(form: Form) -> list[np.ndarray]:
    """Nothing to go by: a move of the operands took them out of what the meaning accepts."""
    return [np.full(np.shape(r), np.nan) for r in leaves(form.on(form.call, form.arrays))]


def last_place(dtype: np.dtype[Any]) -> float:
    """The relative distance of neighbouring floats of a type."""
    return float(ml_dtypes.finfo(dtype).eps)


def tiny(dtype: np.dtype[Any]) -> float:
    """The distance of the smallest floats of a type from one another."""
    return float(ml_dtypes.finfo(dtype).smallest_subnormal) if dtype != BF16 else 2.0**-133


def bounds(
    form: Form, middle: Arrays, of: Callable[[Form], Arrays], dtype: np.dtype[Any]
) -> list[np.ndarray]:
    """How far each result may be from ``middle`` where operands and results are of a type."""
    dice, unit = np.random.default_rng(1), last_place(dtype)
    moved = [np.zeros(np.shape(m)) for m in middle]
    for _ in range(SHAKES):
        near = form.each(lambda a: a * (1 + unit * dice.choice([-1, 1], a.shape).astype(a.dtype)))
        for k, (a, b) in enumerate(zip(of(near), middle, strict=True)):
            away = np.abs(np.asarray(a, float) - np.asarray(b, float))
            moved[k] = np.fmax(moved[k], np.where(np.isfinite(away), away, 0))
    return [
        SAFETY * (m + unit * np.abs(b).astype(float)) + 2 * tiny(dtype)
        for m, b in zip(moved, middle, strict=True)
    ]


def faults(found: Arrays, expected: Arrays, allowed: Arrays) -> list[str]:
    """What is wrong with results, element by element: the first of each result."""
    out: list[str] = []
    if len(found) != len(expected):
        return [f"{len(found)} results, expected {len(expected)}"]
    for k, (a, b, most) in enumerate(zip(found, expected, allowed, strict=True)):
        if a.shape != b.shape:
            out.append(f"result {k}: shape {a.shape}, expected {b.shape}")
            continue
        out += _first(k, a, b, most)
    return out


def _first(k: int, a: np.ndarray, b: np.ndarray, most: np.ndarray) -> list[str]:
    """Where a result is not a number, infinite or apart unlike what is expected."""
    with np.errstate(all="ignore"):
        target = b.astype(a.dtype)
        wide, right = a.astype(np.longdouble), b.astype(np.longdouble)
        same = (
            (wide == right)
            | (np.isnan(wide) & np.isnan(right))
            | (wide == target.astype(np.longdouble))
        )
        largest = float(ml_dtypes.finfo(a.dtype).max) if a.dtype.kind not in "iub" else np.inf
        same |= (np.abs(wide - right) <= most) | np.isposinf(most)
        same |= (
            (np.abs(right) + most > largest) & (np.isinf(wide)) & (np.sign(wide) == np.sign(right))
        )
    if same.all():
        return []
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return [f"result {k} at {list(at)}: {a[at]}, expected {b[at]} within {float(most[at]):.3g}"]


def dtype_fault(form: Form, found: Arrays) -> list[str]:
    """What is wrong with the types of results: they are NumPy's, and those of bf16 as of f16."""
    half = any(a.dtype == BF16 for a in form.arrays)
    meant = said(form.each(lambda a: a.astype(np.float16)) if half else form)
    if meant is None:
        return []
    out: list[str] = []
    for k, (a, b) in enumerate(zip(found, meant, strict=False)):
        expected = BF16 if half and b.dtype == np.float16 else b.dtype
        if a.dtype != expected:
            out.append(f"result {k} is of {a.dtype}, expected {expected}")
    return out
