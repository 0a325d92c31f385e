"""Cholesky factors of matrices that should be definite, with LU factors where one is not.

A Gram matrix ``A' A`` is semidefinite by how it is made, and no more: with a column that depends on
others it has no Cholesky factor, and rounding may leave one that means nothing. So the factor is
computed first and its pivots are compared with their rounding errors. A branch computes LU factors
of the matrices that fail, and gives both kinds in one form: everything that reads the factors of a
matrix, derivatives included, reads them behind the same branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dlvm.cost import typical
from dlvm.ir import I64, Builder, Function, Op, Param, Part, Value, splat, zeros
from dlvm.ir.decisions import allowed
from dlvm.ir.knowledge import properties_of
from dlvm.ir.rewrite import Env, has, transform
from dlvm.ops import (
    LU,
    Add,
    Assume,
    Broadcast,
    Cast,
    Cholesky,
    Cond,
    Determinant,
    Diagonal,
    DimSize,
    Div,
    Equal,
    Gather,
    Iota,
    Less,
    LogDeterminant,
    Matmul,
    Max,
    Mul,
    Not,
    Select,
    Solve,
    TriangularSolve,
    transposed,
)
from dlvm.ops.factorisations.triangles import diagonal_of, lower
from dlvm.opt.facts import pure

SMALLEST = 24
"""Rows from which a single matrix is factorised faster this way, by measurement."""
SMALLEST_OF_MANY = 12
"""The same of each matrix of a batch."""
DEPTH = 16
"""Operations deep in which a sum of semidefinite terms is looked for."""
SPARED = 'dlvm.assume(…, "spd") of this matrix would spare the branch'


@dataclass(frozen=True, slots=True)
class Factors:
    """``A[order] = left right'`` with lower triangles; ``left`` is NaN where ``A`` is singular.

    ``pivots`` is the diagonal of ``U``, the product of which is the determinant, with the sign of
    the order.
    """

    left: Value
    right: Value
    order: Value
    pivots: Value


def by_cholesky_or_lu(fn: Function) -> Function:
    """A = L L', and where a pivot is within its rounding errors A[order] = L U, chosen by a branch."""
    if not has(fn, LU):
        return fn
    wanted = {op for op in fn.ops if isinstance(op, LU) and _pays(op.a) and _hopeful(op.a)}
    wanted -= _read_otherwise(fn, wanted) if wanted else set()
    return _branched(fn, wanted) if wanted else fn


# -- which matrices -------------------------------------------------------------------------------


def _pays(a: Value) -> bool:
    """Whether the steps that are saved outweigh a branch, and a copy of the factor."""
    least = SMALLEST_OF_MANY if a.type.rank > 2 else SMALLEST
    return typical(a.shape[-1]) >= least


def _hopeful(a: Value) -> bool:
    """Whether a symmetric matrix is likely to be definite, and nobody stated that it is."""
    known = properties_of(a)
    if "symmetric" not in known or not known.isdisjoint(("spd", "lower", "upper")):
        return False
    return _full(a, DEPTH)


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
        case Assume(x):
            return x
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
    found = {packed[v] for v in fn.results if v in packed}
    for op in reversed(fn.ops):
        if pure(op) and live.isdisjoint(op.results):
            continue
        read = (op.d,) if isinstance(op, Determinant | LogDeterminant) else op.operands
        live.update(read)
        for v in read:
            if v in packed and not isinstance(op, Solve | Diagonal | Broadcast):
                found.add(packed[v])
            elif isinstance(v, Broadcast) and v.x in packed and not isinstance(op, Solve):
                found.add(packed[v.x])
    found.update(packed[op.x] for op in fn.ops if _returned(op, fn, packed))
    return found | {op for op in wanted if live.isdisjoint(op.results)}


def _returned(op: Op, fn: Function, packed: dict[Value, LU]) -> bool:
    return isinstance(op, Broadcast) and op.x in packed and op in fn.results


# -- what reads the factors -----------------------------------------------------------------------


def _branched(fn: Function, wanted: set[LU]) -> Function:
    made: dict[Value, Factors] = {}

    def visit(op: Op, env: Env) -> Sequence[Value] | None:
        if op in wanted:
            assert isinstance(op, LU)
            if allowed(by_cholesky_or_lu, (op,), SPARED):
                made[op.results[0]] = factors = _factors(env.get(op.a, op.a), op)
                env[op.results[1]] = factors.order
            return None
        if isinstance(op, Diagonal):
            return (made[op.x].pivots,) if op.x in made else None
        assert isinstance(op, Solve)
        return None if (found := _of(op, made)) is None else (_solved(op, found, env),)

    return transform(fn, visit, on=LU | Diagonal | Solve)


def _of(op: Solve, made: dict[Value, Factors]) -> Factors | None:
    """The factors that a solve reads, stretched to its batch."""
    match op.packed:
        case Part() as packed if packed in made:
            return made[packed]
        case Broadcast(packed, shape, axes) if packed in made:
            f = made[packed]
            left, right = (Broadcast(x, shape, axes) for x in (f.left, f.right))
            return Factors(left, right, f.order, f.pivots)
        case _:
            return None


def _solved(op: Solve, by: Factors, env: Env) -> Value:
    """``inv(right') inv(left) B[order]``; a symmetric matrix is its transpose."""
    b, order = env.get(op.b, op.b), env.get(op.order, op.order)
    rows = b.type.rank - 2
    half = TriangularSolve(by.left, Gather(b, order, rows, rows, "clip"))
    return TriangularSolve(by.right, half, True, True)


# -- the branch -----------------------------------------------------------------------------------


def _factors(a: Value, op: LU) -> Factors:
    root = Cholesky(a)
    pivots = Diagonal(root)
    lanes = _doubtful(a, Mul(pivots, pivots))
    batch = tuple(range(lanes.type.rank))
    given = (a, root, lanes)
    both = (_region(name, given, op) for name in ("then", "otherwise"))
    return Factors(*Cond(Max(lanes, batch) if batch else lanes, given, *both).results)


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


def _region(name: str, given: Sequence[Value], op: LU) -> Function:
    params = tuple(Param(v.type, n) for v, n in zip(given, ("a", "root", "lanes"), strict=True))
    a, root, lanes = params
    with (builder := Builder()):
        builder.origin = op.origin
        good = _definite(root)
        results = good if name == "otherwise" else _indefinite(a, lanes, good)
    return Function(name, params, tuple(builder.ops), results)


def _definite(root: Value) -> tuple[Value, ...]:
    pivots = Diagonal(root)
    rows = root.type.rank - 2
    order = Broadcast(Iota(root.shape[-1], I64), root.shape[:-1], (rows,))
    return root, root, order, Mul(pivots, pivots)


def _indefinite(a: Value, lanes: Value, good: Sequence[Value]) -> tuple[Value, ...]:
    """The LU factors; matrices of a batch that have a Cholesky factor keep theirs."""
    packed, order = LU(a).results
    pivots = Diagonal(packed)
    singular = Max(Equal(pivots, zeros(pivots.type)), (pivots.type.rank - 1,))
    ones = splat(1.0, pivots.type)
    unit = lower(packed, -1) + diagonal_of(ones)
    left = _chosen(singular, splat(np.nan, unit.type), unit)
    bad = left, transposed(packed), order, pivots
    if not lanes.type.rank:
        return bad
    return tuple(_chosen(lanes, x, y) for x, y in zip(bad, good, strict=True))


def _chosen(lanes: Value, x: Value, y: Value) -> Value:
    """``x`` for the matrices of a batch for which ``lanes`` holds, and ``y`` for the others."""
    return Select(Broadcast(lanes, x.shape, tuple(range(lanes.type.rank))), x, y)
