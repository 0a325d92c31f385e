"""Factors of matrices and triangular solves of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm import ops
from dlvm.ir import Value
from dlvm.ops.arrays.contraction import transposed

from .table import Place, Results, reads
from .tree import Node


@reads("stablehlo.cholesky")
def cholesky(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """The lower factor; the upper one of A is the transpose of the lower one of A'."""
    (x,) = xs
    if node.attributes.get("lower", False):
        return ops.Cholesky(x)
    return transposed(ops.Cholesky(transposed(x)))


@reads("stablehlo.triangular_solve")
def triangular_solve(node: Node, xs: Sequence[Value], place: Place) -> Results:
    """``op(A) X = B``; and ``X op(A) = B``, which is ``op(A)' X' = B'``."""
    (a, b), said = xs, node.attributes
    turned = said["transpose_a"] != "NO_TRANSPOSE"
    lower, unit = said["lower"], said["unit_diagonal"]
    if said["left_side"]:
        return ops.TriangularSolve(a, b, lower, turned, unit)
    return transposed(ops.TriangularSolve(a, transposed(b), lower, not turned, unit))
