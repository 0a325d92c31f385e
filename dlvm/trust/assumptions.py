"""Checks what a program assumes of its matrices, by running it in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import FalseAssumption
from dlvm.ir import Array, Module, Op
from dlvm.ir.interpret import Interpreter
from dlvm.ir.properties import closed
from dlvm.ops import Assume
from dlvm.ops.flow.effects import Outgoing

from .rounding import epsilon

ROUNDINGS = 32
"""Roundings of the largest element, for each row, by which an element may miss what is assumed."""


def check_assumptions(module: Module, arrays: Sequence[Array]) -> None:
    """Raises ``FalseAssumption`` at the line of the first assumption that does not hold."""
    if any(Assume in fn.kinds for fn in module.functions):
        with np.errstate(all="ignore"):
            Checking(module).enter(module.main.name, [np.array(a) for a in arrays])


@dataclass(slots=True)
class Checking(Interpreter):
    """An interpreter that looks at every assumption; what would be printed is not."""

    def step(self, op: Op, operands: list[Array]) -> tuple[Array, ...]:
        """Runs one operation."""
        if isinstance(op, Outgoing):
            return ()
        if isinstance(op, Assume):
            for word in sorted(closed((op.known,)), key=ORDER.index):
                _check(op, word, operands[0])
        return super(Checking, self).step(op, operands)


@dataclass(frozen=True, slots=True)
class Check:
    """What is looked at of a matrix, in words too, and what it should be."""

    seen: Callable[[Array], Any]
    should: Callable[[Array], Any]
    words: str = "the matrix"


def _check(op: Assume, word: str, x: Array) -> None:
    """Compares what is looked at for one property; equal NaN and infinities are equal."""
    check, wide = CHECKS[word], x.astype(np.float64)
    seen, should = check.seen(wide), check.should(wide)
    largest = float(np.abs(wide, where=np.isfinite(wide), out=np.zeros(wide.shape)).max(initial=0))
    scale = largest if check.words != GRAM else largest**2
    slack = ROUNDINGS * max(x.shape[-1:] or (1,)) * epsilon(x) * scale
    same = (seen == should) | (np.isnan(seen) & np.isnan(should))
    wrong = np.argwhere(~(same | (np.abs(seen - should) <= slack)))
    if len(wrong):
        at = tuple(map(int, wrong[0]))
        raise FalseAssumption(
            f"assume: expected a matrix that is {word}, found {check.words} with "
            f"{seen[at]:.6g} in place of {should[at]:.6g} at {list(at)}",
            origin=op.origin,
            remedy=f'leave "{op.known}" out, or make the matrix {op.known} first',
        )


def _itself(x: Array) -> Array:
    return x


def _gram(x: Array) -> Array:
    return np.matmul(np.swapaxes(x, -1, -2), x)


def _negative_eigenvalues(x: Array) -> Array:
    """Those below 0; a matrix that is not finite has none that can be computed."""
    finite = np.where(np.isfinite(x).all((-2, -1), keepdims=True), x, 0)
    return np.minimum(np.linalg.eigvalsh(finite), 0)


def _identity(x: Array) -> Array:
    return np.broadcast_to(np.eye(x.shape[-1]), x.shape)


def _none(x: Array) -> Array:
    return np.zeros(x.shape[:-1])


GRAM = "its transpose times it"
CHECKS: Mapping[str, Check] = {
    "symmetric": Check(_itself, lambda x: np.swapaxes(x, -1, -2)),
    "psd": Check(_negative_eigenvalues, _none, "eigenvalues"),
    "spd": Check(_negative_eigenvalues, _none, "eigenvalues"),
    "lower": Check(_itself, np.tril),
    "upper": Check(_itself, np.triu),
    "diagonal": Check(_itself, lambda x: x * np.eye(x.shape[-1])),
    "identity": Check(_itself, _identity),
    "orthogonal": Check(_gram, _identity, GRAM),
    "nonnegative": Check(_itself, lambda x: np.maximum(x, 0)),
}
"""Every property. Of a definite matrix no eigenvalue may be negative beyond rounding."""
ORDER = tuple(CHECKS)
"""What others follow from is looked at last: eigenvalues are those of symmetric matrices."""
