"""Guesses why a gradient is wrong, from its numbers beside those of finite differences.

Mistakes in derivatives leave a mark: a sign, a factor, a transpose, a zero. A guess is made only if
it explains every checked number within its error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dlvm.ir import Array

LOOSE = 1e-6


@dataclass(frozen=True)
class Evidence:
    """Elements of a gradient, the same by differences with errors, and the shape of the array.

    ``jacobian`` (results by elements) and the cotangent ``w`` are given if every element was
    checked.
    """

    found: Array
    expected: Array
    error: Array
    shape: tuple[int, ...]
    jacobian: Array | None = None
    w: Array | None = None

    @property
    def whole(self) -> bool:
        """Whether every element was checked."""
        return self.found.size == int(np.prod(self.shape, dtype=int))


def cause(e: Evidence) -> str:
    """The first explanation that fits."""
    return next(_explanations(e), "")


def _explanations(e: Evidence) -> Iterator[str]:
    if not np.all(np.isfinite(e.found)):
        yield "an infinity or no number in a branch that is not taken: guard the operand itself"
    yield from _small(e)
    if _same(e.found, 0 * e.found, e):
        yield "it is constant zero: a cotangent is dropped, or a gradient is stopped"
    yield from _factors(e)
    yield from _orders(e)
    wrong = ~_near(e.found, e.expected, e)
    if 0 < wrong.sum() < wrong.size:
        yield f"right in {(~wrong).sum()} elements: a mask, an edge or one branch is wrong"
    rest = e.expected - e.found
    if _proportional(rest, e.found) or np.all(np.abs(e.found) <= np.abs(e.expected)):
        yield "it is too small: a term is missing"
    yield "a term is missing or one too many"


def _small(e: Evidence) -> Iterator[str]:
    """Explanations of a gradient that is right to six digits and wrong after them."""
    scale = float(np.max(np.abs(e.expected), initial=0.0))
    apart = float(np.max(np.abs(e.found - e.expected), initial=0.0))
    if not scale or not apart <= LOOSE * scale:
        return
    k = float(np.sum(e.found * e.expected)) / float(np.sum(e.expected**2))
    if np.all(np.abs(e.found - k * e.expected) <= 10 * e.error + apart / 10):
        why = "a constant has too few digits, or is of f32"
        yield f"it is 1 {'-' if k < 1 else '+'} {abs(k - 1):.2g} times what it should be: {why}"
    why = "a step is computed in f32, or a series is cut too early"
    yield f"it is right but for {apart / scale:.2g} of its largest element: {why}"


def _factors(e: Evidence) -> Iterator[str]:
    square = float(np.sum(e.expected**2))
    k = float(np.sum(e.found * e.expected)) / square if square else 0.0
    if not k or not _same(e.found, k * e.expected, e):
        return
    n = int(np.prod(e.shape, dtype=int))
    if abs(k + 1) < LOOSE:
        yield "the sign is wrong"
    elif abs(k - 2) < LOOSE or abs(k + 2) < LOOSE:
        yield "it is too large by a factor 2" + (" and the sign is wrong" if k < 0 else "")
    elif abs(k - 0.5) < LOOSE or abs(k + 0.5) < LOOSE:
        yield "it is too small by a factor 2" + (" and the sign is wrong" if k < 0 else "")
    elif n > 1 and (abs(k / n - 1) < LOOSE or abs(k * n - 1) < LOOSE):
        yield f"it is off by the number of elements, {n}: a sum in the place of a mean"
    elif e.found.size > 1:
        yield f"it is {k:.6g} times what it should be"


def _orders(e: Evidence) -> Iterator[str]:
    """Explanations in which the numbers are right and their places wrong."""
    if not e.whole or e.found.size < 2:
        return
    if e.jacobian is not None and e.w is not None and e.jacobian.shape == (e.w.size, e.w.size):
        turned = e.jacobian @ e.w
        yield from ["the Jacobian is transposed: J w in the place of J' w"] * _same(
            e.found, turned, e
        )
    table = e.expected.reshape(e.shape)
    if len(e.shape) > 1 and e.shape[-1] == e.shape[-2]:
        turned = np.swapaxes(table, -1, -2).ravel()
        yield from ["it is transposed"] * _same(e.found, turned, e)
    for axis in range(len(e.shape)):
        if e.shape[axis] > 1 and _same(e.found, np.flip(table, axis).ravel(), e):
            yield f"it is reversed along axis {axis}"
    if _same(np.sort(e.found), np.sort(e.expected), e):
        yield "the right numbers in another order"


def _near(a: Array, b: Array, e: Evidence) -> Array:
    return np.abs(a - b) <= 10 * e.error + LOOSE * np.abs(b)


def _same(a: Array, b: Array, e: Evidence) -> bool:
    scale = float(np.max(np.abs(e.expected), initial=0.0))
    return bool(np.all(np.abs(a - b) <= 10 * e.error + LOOSE * scale))


def _proportional(a: Array, b: Array) -> bool:
    return bool(np.all(a * b >= 0))
