"""What of a product is asked for: a part of it, its sum or its diagonal, without the whole."""

from __future__ import annotations

from dlvm.ir import Value, rearrangement, rewrite
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.rewrite import Example
from dlvm.ops import Diagonal, Gather, Matmul, Mul, Neg, Reshape, Slice, Sum, transposed
from dlvm.ops.elements.casting import converted
from dlvm.opt.algebra.examples import twice
from dlvm.opt.algebra.factors.chains import multiplied


@rewrite(
    Slice,
    example=lambda x, y: Slice(Matmul(x, y), (3, 1), (1, 4), (1, 2)),
    given=("n[8,K]", "n[K,8]"),
    law_class=ROUNDING,
    weighed=True,
)
def window_of_product(op: Slice) -> Value | None:
    """(A B)[i, j] = A[i] B[:, j]: rows come from the left factor, columns from the right."""
    match op:
        case Slice(Matmul(x, y), starts, sizes, steps):
            *_, k = x.shape
            left = Slice(x, (*starts[:-1], 0), (*sizes[:-1], k), (*steps[:-1], 1))
            right = Slice(
                y,
                (*starts[:-2], 0, starts[-1]),
                (*sizes[:-2], k, sizes[-1]),
                (*steps[:-2], 1, steps[-1]),
            )
            return Matmul(_whole(left), _whole(right))
        case _:
            return None


def _whole(window: Slice) -> Value:
    """The value itself, where the window is all of it."""
    forwards = all(step > 0 for step in window.steps)
    return window.x if forwards and window.sizes == window.x.shape else window


@rearrangement(
    Gather,
    example=(
        lambda x, y, i: Gather(Matmul(x, y), i, 0, mode="clip"),
        lambda x, y, i: Gather(Matmul(x, y), i, 1, mode="drop"),
    ),
    given=("n[3,K]", "n[K,3]", "i[1]"),
)
def rows_of_product(op: Gather) -> Value | None:
    """(A B)[i] = A[i] B, and (A B)[:, j] = A B[:, j], for indices that are known when it runs."""
    match op:
        case Gather(Matmul(x, y), i, axis, 0):
            if x.type.rank != 2 or i.type.rank > 1:
                return None
            at = i if i.type.rank else Reshape(i, (1,))
            if axis == 0:
                return Reshape(Matmul(_picked(op, x, at), y), op.shape)
            return Reshape(Matmul(x, _picked(op, y, at)), op.shape)
        case _:
            return None


def _picked(like: Gather, x: Value, indices: Value) -> Value:
    """The same rows or columns of another matrix; an index outside is blamed on the same line."""
    found = Gather(x, indices, like.axis, 0, like.mode)
    found.origin = like.origin
    return found


@rearrangement(
    Sum,
    example=(
        lambda x, y: Sum(Matmul(x, y), (0, 1)),
        lambda x, y: Sum(Matmul(x, y), (0,)),
        lambda x, y: Sum(Matmul(x, y), (1,)),
        lambda x, y: Sum(Matmul(twice(x), twice(y)), (0, 2)),
    ),
    given=("n[M,K]", "n[K,N]"),
)
def sum_of_product(op: Sum) -> Value | None:
    """1' (A B) = (1' A) B, (A B) 1 = A (B 1), and 1' A B 1 = sum_k (1' A)_k (B 1)_k."""
    match op:
        case Sum(Matmul(x, y), axes):
            return _summed(x, y, axes)
        case _:
            return None


def _summed(x: Value, y: Value, axes: tuple[int, ...]) -> Value | None:
    rank = x.type.rank
    rows, columns = rank - 2, rank - 1
    outside = tuple(a for a in axes if a < rows)
    if rows not in axes and columns not in axes:
        return None
    if rows in axes and columns in axes:
        each = Mul(Sum(x, (rows,)), Sum(y, (columns,)))
        return Sum(each, (*outside, rows))
    batch = x.shape[:-2]
    if rows in axes:
        row = Reshape(Sum(x, (rows,)), (*batch, 1, x.shape[-1]))
        found = Reshape(multiplied(row, y), (*batch, y.shape[-1]))
    else:
        column = Reshape(Sum(y, (columns,)), (*batch, y.shape[-2], 1))
        found = Reshape(multiplied(x, column), (*batch, x.shape[-2]))
    return Sum(found, outside) if outside else found


@rewrite(
    Diagonal,
    example=lambda x, y: Diagonal(Matmul(x, y)),
    given=("n[M,K]", "n[K,M]"),
    law_class=ROUNDING,
    weighed=True,
)
def diagonal_of_product(op: Diagonal) -> Value | None:
    """diag(A B) = the sums of the rows of A * B'; halves multiply in f32."""
    match op.x:
        case Matmul(x, y):
            compute = op.dtype.compute
            left, right = (converted(v, compute) for v in (x, transposed(y)))
            return converted(Sum(Mul(left, right), (x.type.rank - 1,)), op.dtype)
        case _:
            return None


AGAINST: tuple[Example, ...] = (
    lambda p, q, b, c: Sum(Mul(Neg(Matmul(p, q)), Matmul(b, c)), (0, 1)),
    lambda p, q, b, c: Sum(Mul(Matmul(b, c), Neg(Matmul(p, q))), (0, 1)),
    lambda p, q, b, c: Sum(Sum(Mul(Matmul(b, c), Neg(Matmul(p, q))), (1,)), (0,)),
)
"""The sum of a product of matrices times others, element by element, in its forms."""


@rearrangement(
    Sum,
    example=AGAINST,
    given=("n[8,1]", "n[1,N]", "n[8,8]", "n[8,N]"),
)
def sum_against_product(op: Sum) -> Value | None:
    """sum(A * B C) = sum(A C' * B): the trace of a product from another side."""
    if (found := _against(op)) is None:
        return None
    a, b, c = found
    return _total(Mul(multiplied(a, transposed(c)), b))


@rearrangement(
    Sum,
    example=AGAINST,
    given=("n[M,1]", "n[1,8]", "n[M,8]", "n[8,8]"),
)
def sum_against_product_turned(op: Sum) -> Value | None:
    """sum(A * B C) = sum(B' A * C): the trace of a product from a third side."""
    if (found := _against(op)) is None:
        return None
    a, b, c = found
    return _total(Mul(multiplied(transposed(b), a), c))


def _total(x: Value) -> Value:
    """The sum of all elements."""
    return Sum(x, tuple(range(x.type.rank)))


def _against(op: Sum) -> tuple[Value, Value, Value] | None:
    """A, B and C of the sum of all elements of ``A * B C``, or of ``B C * A``, batches included.

    The elements may be summed in several steps, as the trace of a product is.
    """
    each = op.x
    while isinstance(each, Sum):
        each = each.x
    match each:
        case Mul(a, Matmul(b, c)) | Mul(Matmul(b, c), a) if not op.shape:
            return a, b, c
        case _:
            return None
