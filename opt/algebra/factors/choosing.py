"""The cheapest factors for what is known of a matrix.

Solves and determinants are written with the LU factors of a matrix, which every matrix has. A
diagonal or triangular one needs no factors, and of one that is symmetric positive definite the
Cholesky factor takes half of the steps; one that should be definite has it computed, and LU factors
where that fails (``semidefinite.py``). Everything that reads the factors of a matrix, derivatives
included, is decided here by the same properties, so one factorisation still serves all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dlvm.ir import Function, Op, Part, Value, splat, zeros
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import ROUNDING, licensed
from dlvm.ir.rewrite import Law, has, settle
from dlvm.ops import (
    LU,
    Abs,
    Broadcast,
    Cholesky,
    Determinant,
    Diagonal,
    Div,
    Equal,
    Log,
    Max,
    Mul,
    Prod,
    Select,
    Solve,
    Sum,
    TriangularSolve,
)
from dlvm.ops.factorisations.stated import OfFactors
from dlvm.opt.algebra.solves.semidefinite import by_cholesky_or_lu
from dlvm.passes import finite_function_pass

ByFactors = Solve | OfFactors


@finite_function_pass
def choose_factors(fn: Function) -> Function:
    """Compute solves and determinants by the best factors for what is known of their matrices.

    A law of the class ``ROUNDING``. A claim that is wrong may give any numbers; where a matrix
    that is stated to be positive definite is not, they are NaN.
    """
    if not licensed(ROUNDING) or not has(fn, ByFactors):
        return fn
    return by_cholesky_or_lu(settle(fn, _choices))


def _choices(op: Op) -> tuple[Law, ...]:
    return (by_diagonal, by_substitution, by_cholesky) if isinstance(op, ByFactors) else ()


def by_diagonal(op: Op) -> Value | None:
    """inv(diag(d)) B = B / d."""
    if not isinstance(op, Solve) or _moved(op) or (found := _known(op, "diagonal")) is None:
        return None
    diagonal = Diagonal(found.stretched(found.value))
    batch = tuple(range(op.type.rank - 2))
    rows = Broadcast(diagonal, op.shape, (*batch, len(batch)))
    return _unless_singular(diagonal, Div(op.b, rows))


def by_substitution(op: Op) -> Value | None:
    """inv(T) B by substitution, and det(T) = prod(diag(T)), for a triangular T."""
    lower = _known(op, "lower")
    if (found := lower or _known(op, "upper")) is None or _moved(op):
        return None
    if isinstance(op, Solve):
        t = found.stretched(found.value)
        solved = TriangularSolve(t, op.b, lower is not None, op.transposed)
        return _unless_singular(Diagonal(t), solved)
    pivots = Diagonal(found.value)
    if isinstance(op, Determinant):
        return Prod(pivots, (pivots.type.rank - 1,))
    return Sum(Log(Abs(pivots)), (pivots.type.rank - 1,))


def by_cholesky(op: Op) -> Value | None:
    """inv(L L') B = inv(L') inv(L) B, and det(L L') = det(L)**2 for a triangular L."""
    if (found := _known(op, "spd")) is None:
        return None
    factor = Cholesky(found.value)
    if isinstance(op, Solve):
        factor = found.stretched(factor)
        return TriangularSolve(factor, TriangularSolve(factor, op.b), True, True)
    pivots = Diagonal(factor)
    last = (pivots.type.rank - 1,)
    if isinstance(op, Determinant):
        root = Prod(pivots, last)
        return Mul(root, root)
    half = Sum(Log(pivots), last)
    return half + half


LAWS_OF_FACTORS: tuple[Callable[..., object], ...] = (
    by_diagonal,
    by_substitution,
    by_cholesky,
    by_cholesky_or_lu,
)
"""The laws of ``choose_factors``, each named after what it computes by, for ``explain``."""


@dataclass(frozen=True)
class Factorised:
    """A matrix that has factors, and how it stretches to the batch of what reads them."""

    value: Value
    stretched: Callable[[Value], Value]


def _known(op: Op, word: str) -> Factorised | None:
    """The matrix whose factors an operation reads, if it has a property."""
    if not isinstance(op, ByFactors):
        return None
    found = _factorised(op.order)
    return found if found is not None and word in properties_of(found.value) else None


def _factorised(order: Value) -> Factorised | None:
    match order:
        case Part(LU(a), 1):
            return Factorised(a, lambda x: x)
        case Broadcast(Part(LU(a), 1), shape, axes):
            whole, both = (*shape, shape[-1]), (*axes, axes[-1] + 1)
            return Factorised(a, lambda x: Broadcast(x, whole, both))
        case _:
            return None


def _moved(op: Op) -> bool:
    """Whether the factors are those of a matrix nearby, which ``det`` takes of a singular one."""
    if isinstance(op, Determinant):
        return op.d is op.near
    return isinstance(op, Solve) and not isinstance(op.packed, Part | Broadcast)


def _unless_singular(diagonal: Value, x: Value) -> Value:
    """NaN for a triangular matrix with a zero on its diagonal, as of every singular one."""
    batch = tuple(range(x.type.rank - 2))
    zero = Max(Equal(diagonal, zeros(diagonal.type)), (len(batch),))
    return Select(Broadcast(zero, x.shape, batch), splat(math.nan, x.type), x)
