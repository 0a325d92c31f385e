"""Products with matrices that pick rows, and with Kronecker products, which are never formed."""

from __future__ import annotations

from dlvm.ir import Value, rewrite, splat, zeros
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import (
    Broadcast,
    Gather,
    Less,
    Matmul,
    Mul,
    Permute,
    Reshape,
    ScatterAdd,
    Select,
    transposed,
)

from . import structure
from .chains import multiplied
from .examples import identity, kron, one_hot


@rewrite(
    Matmul,
    example=(
        lambda i, w: Matmul(one_hot(i, w), w),
        lambda i, w: Matmul(Reshape(one_hot(Reshape(i, (1, *i.shape)), w), (i.shape[0], 8)), w),
    ),
    given=("i[M]", "n[8,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def one_hot_times(op: Matmul) -> Value | None:
    """One-hot rows times W are rows of W; a place outside of W gives zeros."""
    i = _places(op.x)
    return None if i is None else Gather(op.y, _inside(i), 0, mode="drop")


@rewrite(
    Matmul,
    example=lambda i, g: Matmul(transposed(one_hot(i, g)), g),
    given=("i[M]", "n[M,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def one_hot_turned_times(op: Matmul) -> Value | None:
    """One-hot columns times G add the rows of G where the ones are."""
    if not isinstance(op.x, Permute) or op.x.perm != (1, 0) or (i := _places(op.x.x)) is None:
        return None
    return ScatterAdd(zeros(op.type), _inside(i), op.y, 0, mode="drop")


def _places(x: Value) -> Value | None:
    """The place of the one in every row of a matrix, as a vector."""
    i = None if structure.is_identity(x) else structure.one_hot_of(structure.matrix_of_rows(x))
    return None if i is None or x.type.rank != 2 else Reshape(i, (x.shape[0],))


def _inside(i: Value) -> Value:
    """Whole numbers with negative ones moved outside, as indices would count them from the end."""
    if i.dtype.kind == "u":
        return i
    outside = splat(i.dtype.highest, i.type)
    return Select(Less(i, splat(0, i.type)), outside, i)


@rewrite(
    Matmul,
    example=lambda i, x: Matmul(Gather(identity(x), i, 0, mode="clip"), x),
    given=("i[M]", "n[8,N]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def rows_of_identity_times(op: Matmul) -> Value | None:
    """I[i] A = A[i], as for a permutation."""
    match op.x:
        case Gather(eye, i, 0, 0, mode) if structure.is_identity(eye) and op.y.type.rank == 2:
            found = Gather(op.y, i, 0, 0, mode)
            found.origin = op.x.origin
            return found
        case _:
            return None


@rewrite(
    Matmul,
    example=(
        lambda a, b, x: Matmul(kron(a, b), x),
        lambda a, b, x: Matmul(transposed(kron(a, b)), x),
    ),
    given=("n[M,N]", "n[N,M]", "n[M*N,2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def kronecker_times(op: Matmul) -> Value | None:
    """kron(A, B) X, column by column A X_c B' with X_c of rows by columns of A and of B."""
    found = _kronecker_factors(op.x)
    return None if found is None else _kronecker_times(*found, op.y)


@rewrite(
    Matmul,
    example=lambda a, b, x: Matmul(transposed(x), kron(a, b)),
    given=("n[M,N]", "n[N,M]", "n[M*N,2]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def times_kronecker(op: Matmul) -> Value | None:
    """X kron(A, B) = (kron(A', B') X')'."""
    found = _kronecker_factors(op.y)
    if found is None:
        return None
    a, b = map(transposed, found)
    return transposed(_kronecker_times(a, b, transposed(op.x)))


def _kronecker_factors(value: Value) -> tuple[Value, Value] | None:
    """A and B of ``kron(A, B)``, or A' and B' of its transpose."""
    if structure.is_turned(value) and isinstance(value, Permute) and value.type.rank == 2:
        found = _kronecker_factors(value.x)
        return None if found is None else (transposed(found[0]), transposed(found[1]))
    match value:
        case Reshape(Mul(Broadcast(a, shape, axes), Broadcast(b, _, others)), to):
            if (axes, others) == ((1, 3), (0, 2)):
                a, b, axes, others = b, a, others, axes
            if len(shape) != 4 or (axes, others) != ((0, 2), (1, 3)):
                return None
            m, p, n, q = shape
            return (a, b) if to == (m * p, n * q) else None
        case _:
            return None


def _kronecker_times(a: Value, b: Value, x: Value) -> Value:
    """A X B' for every column of x, as two products of all of them."""
    (m, n), (p, q), columns = a.shape, b.shape, x.shape[-1]
    left = multiplied(a, Reshape(x, (n, q * columns)))
    if columns == 1:
        return Reshape(multiplied(left, transposed(b)), (m * p, 1))
    turned = Permute(Reshape(left, (m, q, columns)), (1, 0, 2))
    right = multiplied(b, Reshape(turned, (q, m * columns)))
    back = Permute(Reshape(right, (p, m, columns)), (1, 0, 2))
    return Reshape(back, (m * p, columns))
