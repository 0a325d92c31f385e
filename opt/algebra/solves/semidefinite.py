"""Cholesky factors of matrices that should be definite, with LU factors where one is not.

A Gram matrix ``A' A`` is semidefinite by how it is made, and no more: with a column that depends on
others it has no Cholesky factor, and rounding may leave one that means nothing. So the factor is
computed first and its pivots are compared with their rounding errors. A branch computes LU factors
of the matrices that fail, and gives both kinds in one form: everything that reads the factors of a
matrix, derivatives included, reads them behind the same branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.cost import typical
from dlvm.ir import I64, Builder, Dim, Function, Op, Param, Value, splat
from dlvm.ir.decisions import allowed
from dlvm.ir.knowledge import properties_of
from dlvm.ir.rewrite import Env, has, transform
from dlvm.ops import (
    LU,
    Add,
    Broadcast,
    Cast,
    Cholesky,
    Cond,
    Diagonal,
    DimSize,
    Div,
    Iota,
    Less,
    Matmul,
    Max,
    Mul,
    Not,
    Select,
    Solve,
    TriangularSolve,
)
from dlvm.ops.factorisations.stated import OfFactors
from dlvm.opt.facts import pure

SMALLEST = 16
"""Rows from which the steps that are saved outweigh the branches, by measurement.

Below, a call takes as long either way, and batches are faster or slower by a tenth. Matrices of an
open size may be small, and their branches plan memory when they run: they keep LU factors, too.
"""
DEPTH = 16
"""Operations deep in which a sum of semidefinite terms is looked for."""
SPARED = 'dlvm.assume(…, "spd") of this matrix would spare the branch'


@dataclass(frozen=True, slots=True)
class Factors:
    """The factors of each matrix of ``a``: Cholesky ones, or LU ones where ``lanes`` holds.

    ``factor`` is the lower ``L`` with ``L L' = A``, or both LU factors; ``order`` is that of the
    rows, and the product of ``pivots`` with its sign is the determinant.
    """

    a: Value
    lanes: Value
    any: Value
    factor: Value
    order: Value
    pivots: Value


def by_cholesky_or_lu(fn: Function) -> Function:
    """A = L L', and A[order] = L U behind a branch if a pivot is within its rounding errors."""
    if not has(fn, LU):
        return fn
    wanted = {op for op in fn.ops if isinstance(op, LU) and _hopeful(op.a)}
    wanted -= _read_otherwise(fn, wanted) if wanted else set()
    return _branched(fn, wanted) if wanted else fn


# -- which matrices -------------------------------------------------------------------------------


def _hopeful(a: Value) -> bool:
    """Whether a matrix is large and likely to be definite, and nobody stated that it is."""
    known = properties_of(a)
    if "symmetric" not in known or not known.isdisjoint(("spd", "lower", "upper")):
        return False
    n = a.shape[-1]
    return isinstance(n, int) and n >= SMALLEST and _full(a, DEPTH)


def _full(a: Value, depth: int) -> bool:
    """Whether a matrix is a semidefinite one that need not lack rank, or a sum with such a term.

    The signs of factors, such as the weight of a ridge, are unknown and taken to be positive: where
    one is not, the branch is taken.
    """
    if depth == 0:
        return False
    match a:
        case Add(x, y):
            full = _full(x, depth - 1) or _full(y, depth - 1)
            terms = _term(x, depth - 1) and _term(y, depth - 1)
            return terms and (full or _diagonal(x) or _diagonal(y))
        case Matmul(x) if "psd" in properties_of(a):
            return typical(x.shape[-1]) >= typical(a.shape[-1])
        case _ if (inner := _scaled(a)) is not None:
            return _full(inner, depth - 1)
        case _:
            return "psd" in properties_of(a)


def _term(a: Value, depth: int) -> bool:
    """Whether a matrix is semidefinite or diagonal, but for the signs of factors."""
    if depth == 0:
        return False
    if "psd" in properties_of(a) or _diagonal(a):
        return True
    if isinstance(a, Add):
        return _term(a.x, depth - 1) and _term(a.y, depth - 1)
    return (inner := _scaled(a)) is not None and _term(inner, depth - 1)


def _diagonal(a: Value) -> bool:
    return "diagonal" in properties_of(a)


def _scaled(a: Value) -> Value | None:
    """The matrix that is multiplied with, or divided by, one number for each matrix."""
    match a:
        case Mul(x, Broadcast() as s) | Mul(Broadcast() as s, x) | Div(x, Broadcast() as s):
            rank = a.type.rank
            return x if all(axis < rank - 2 for axis in s.axes) else None
        case _:
            return None


def _read_otherwise(fn: Function, wanted: set[LU]) -> set[LU]:
    """The factorisations of which more is read than solves, pivots and the order of rows.

    What reads determinants reads their value alone: they are opened after this.
    """
    packed: dict[Value, LU] = {op.results[0]: op for op in wanted}
    live = set(fn.results)
    found = {packed[_whole(v)] for v in fn.results if _whole(v) in packed}
    for op in reversed(fn.ops):
        if pure(op) and live.isdisjoint(op.results):
            continue
        read = (op.d,) if isinstance(op, OfFactors) else op.operands
        live.update(read)
        found.update(packed[_whole(v)] for v in read if _whole(v) in packed and not _reads(op, v))
    return found | {op for op in wanted if live.isdisjoint(op.results)}


def _reads(op: Op, packed: Value) -> bool:
    """Whether an operation reads factors as a solve does, or their diagonal."""
    if isinstance(op, Solve):
        return packed is op.packed and packed is not op.b
    return isinstance(op, Diagonal | Broadcast) and not isinstance(packed, Broadcast)


# -- what reads the factors -----------------------------------------------------------------------


def _branched(fn: Function, wanted: set[LU]) -> Function:
    made: dict[Value, Factors] = {}

    def visit(op: Op, env: Env) -> Sequence[Value] | None:
        match op:
            case LU() if op in wanted and allowed(by_cholesky_or_lu, (op,), SPARED):
                made[op.results[0]] = factors = _factors(env.get(op.a, op.a), op.origin)
                env[op.results[1]] = factors.order
                return None
            case Diagonal(packed) if packed in made:
                return (made[packed].pivots,)
            case Solve() if (found := _whole(op.packed)) in made:
                return (_solved(op, made[found], env),)
            case _:
                return None

    return transform(fn, visit, on=LU | Diagonal | Solve)


def _whole(packed: Value) -> Value:
    """The factors that are stretched to a batch, or are read as they are."""
    return packed.x if isinstance(packed, Broadcast) else packed


def _solved(op: Solve, by: Factors, env: Env) -> Value:
    """``inv(A) B`` for a symmetric A, by LU factors if any matrix of the batch has those."""
    given = {"a": by.a, "factor": by.factor, "order": by.order, "lanes": by.lanes}
    given["b"] = env.get(op.b, op.b)
    axes = tuple(range(op.type.rank))
    if isinstance(op.packed, Broadcast):
        axes = op.packed.axes

    def by_root(v: dict[str, Value]) -> tuple[Value, ...]:
        root = _stretched(v["factor"], op.a.shape, axes)
        return (TriangularSolve(root, TriangularSolve(root, v["b"]), True, True),)

    def by_lu(v: dict[str, Value]) -> tuple[Value, ...]:
        a, packed = (_stretched(v[name], op.a.shape, axes) for name in ("a", "factor"))
        order = _stretched(v["order"], op.a.shape[:-1], axes[:-1])
        solved = Solve(a, packed, order, v["b"])
        lanes = _stretched(v["lanes"], op.a.shape[:-2], axes[:-2])
        return (_chosen(lanes, solved, by_root(v)[0]) if lanes.type.rank else solved,)

    (found,) = _branch(by.any, given, by_lu, by_root, op.origin)
    return found


def _stretched(x: Value, shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Value:
    return x if x.shape == shape else Broadcast(x, shape, axes)


# -- the branch -----------------------------------------------------------------------------------


def _factors(a: Value, origin: Any) -> Factors:
    root = Cholesky(a)
    lanes = _doubtful(a, _squares(root))
    axes = tuple(range(lanes.type.rank))
    doubt = Max(lanes, axes) if axes else lanes
    given = {"a": a, "root": root, "lanes": lanes}
    return Factors(a, lanes, doubt, *_branch(doubt, given, _indefinite, _definite, origin))


def _doubtful(a: Value, pivots: Value) -> Value:
    """Whether a pivot is no larger than its rounding errors, or NaN, for each matrix.

    A pivot is what subtracting a sum of squares from a diagonal element leaves, each of n steps of
    which errs by up to an epsilon of that element (Higham 2002, theorem 10.3). No threshold on the
    whole matrix would do: one whose rows have different units is not singular.
    """
    n, eps = a.shape[-1], float(np.finfo(a.dtype.numpy).eps)
    diagonal = Diagonal(a)
    steps = splat(n, a.type.with_shape(())) if isinstance(n, int) else Cast(DimSize(n), a.dtype)
    error = Mul(steps, splat(eps, steps.type))
    least = Mul(Broadcast(error, diagonal.shape, ()), diagonal)
    return Max(Not(Less(least, pivots)), (diagonal.type.rank - 1,))


def _definite(v: dict[str, Value]) -> tuple[Value, ...]:
    """The factor itself, rows as they are, and the pivots that LU factors would have."""
    root = v["root"]
    order = Broadcast(Iota(root.shape[-1], I64), root.shape[:-1], (root.type.rank - 2,))
    return root, order, _squares(root)


def _indefinite(v: dict[str, Value]) -> tuple[Value, ...]:
    """The LU factors; matrices of a batch that have a Cholesky factor keep theirs."""
    packed, order = LU(v["a"]).results
    bad, lanes = (packed, order, Diagonal(packed)), v["lanes"]
    if not lanes.type.rank:
        return bad
    return tuple(_chosen(lanes, x, y) for x, y in zip(bad, _definite(v), strict=True))


def _squares(root: Value) -> Value:
    pivots = Diagonal(root)
    return Mul(pivots, pivots)


def _chosen(lanes: Value, x: Value, y: Value) -> Value:
    """``x`` for the matrices of a batch for which ``lanes`` holds, and ``y`` for the others."""
    return Select(Broadcast(lanes, x.shape, tuple(range(lanes.type.rank))), x, y)


Side = Callable[[dict[str, Value]], tuple[Value, ...]]


def _branch(
    condition: Value, given: dict[str, Value], then: Side, otherwise: Side, origin: Any
) -> tuple[Value, ...]:
    """A branch whose sides write their operations on what they are given, by name."""

    def region(name: str, side: Side) -> Function:
        params = {n: Param(v.type, n) for n, v in given.items()}
        with (builder := Builder()):
            builder.origin = origin
            results = side(dict(params))
        return Function(name, tuple(params.values()), tuple(builder.ops), results)

    sides = region("then", then), region("otherwise", otherwise)
    return Cond(condition, tuple(given.values()), *sides).results
