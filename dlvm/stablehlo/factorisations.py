"""Factors of matrices and triangular solves in StableHLO; halves are computed in f32.

StableHLO leaves open what stands above the diagonal of a Cholesky factor: zeros are put there.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm import ops
from dlvm.exporting.inlining import Inline, TypedName
from dlvm.ir import BOOL, I64, Op, TensorType

from .arrays import Form
from .elements import compared, converted, selected
from .text import Text


def cholesky(t: Text, op: ops.Cholesky, xs: Sequence[TypedName], inline: Inline) -> TypedName:
    """The lower factor."""
    wide = op.type.with_dtype(op.dtype.compute)
    found = t.one("cholesky", (converted(t, xs[0], wide.dtype),), wide, {"lower": "true"})
    places = TensorType(I64, op.shape[-2:])
    row, column = t.iota(places, 0), t.iota(places, 1)
    below = compared(t, "LE", column, row)
    rank = op.type.rank
    mask = t.broadcast(below, op.type.with_dtype(BOOL), (rank - 2, rank - 1))
    return converted(t, selected(t, mask, found, t.filled(0, wide)), op.dtype)


def triangular_solve(
    t: Text, op: ops.TriangularSolve, xs: Sequence[TypedName], inline: Inline
) -> TypedName:
    """A solve with the matrix on the left."""
    said = {
        "left_side": "true",
        "lower": _word(op.lower),
        "unit_diagonal": _word(op.unit),
        "transpose_a": f"#stablehlo<transpose {'' if op.transposed else 'NO_'}TRANSPOSE>",
    }
    wide = op.type.with_dtype(op.dtype.compute)
    given = [converted(t, x, wide.dtype) for x in xs]
    return converted(t, t.one("triangular_solve", given, wide, said), op.dtype)


def _word(truth: bool) -> str:
    return "true" if truth else "false"


FORMS: dict[type[Op], Form] = {
    ops.Cholesky: cholesky,
    ops.TriangularSolve: triangular_solve,
}
