"""Matrices of some structure, as the language writes them: for the examples of laws."""

from __future__ import annotations

from dlvm.ir import Value, splat, zeros
from dlvm.ops import (
    LU,
    Broadcast,
    Cast,
    Concat,
    Equal,
    Iota,
    LessEqual,
    Matmul,
    Mul,
    Reshape,
    Select,
    Sign,
    Solve,
    transposed,
)
from dlvm.opt.algebra.factors.factors import diagonal_matrix


def triangle(x: Value, lower: bool) -> Value:
    """The lower or the upper triangle of a square matrix, its diagonal included."""
    row, column = (Broadcast(Iota(n), x.shape, (axis,)) for axis, n in enumerate(x.shape))
    mask = LessEqual(column, row) if lower else LessEqual(row, column)
    return Select(mask, x, zeros(x.type))


def one_hot(i: Value, like: Value, size: int = 8) -> Value:
    """Rows that are 1 at a whole number and 0 elsewhere."""
    shape = (*i.shape, size)
    places = Broadcast(Iota(size), shape, (len(shape) - 1,))
    repeated = Broadcast(Cast(i, places.dtype), shape, tuple(range(len(shape) - 1)))
    return Cast(Equal(repeated, places), like.dtype)


def kron(a: Value, b: Value) -> Value:
    """The Kronecker product, as the language writes it."""
    (m, n), (p, q) = a.shape, b.shape
    shape = (m, p, n, q)
    each = Mul(Broadcast(a, shape, (0, 2)), Broadcast(b, shape, (1, 3)))
    return Reshape(each, (m * p, n * q))


def wide(x: Value) -> Value:
    """Halves as f32, of which a law for longer floats has examples."""
    return Cast(x, x.dtype.compute)


def twice(x: Value) -> Value:
    """A batch of two."""
    return Concat((Reshape(x, (1, *x.shape)),) * 2, 0)


def identity(like: Value) -> Value:
    """The identity with as many rows as a matrix has."""
    return diagonal_matrix(splat(1, like.type.with_shape(like.shape[:1])))


def on_diagonal(x: Value) -> Value:
    """Where the diagonal of a square matrix is."""
    row, column = (Broadcast(Iota(n), x.shape, (axis,)) for axis, n in enumerate(x.shape))
    return Equal(row, column)


def outer(u: Value, v: Value) -> Value:
    """The outer product of two vectors, as the language writes it."""
    shape = (*u.shape, *v.shape)
    return Mul(Broadcast(u, shape, (0,)), Broadcast(v, shape, (1,)))


def solve(x: Value, swap: Value, b: Value, turned: bool = False) -> Value:
    """A solve with factors of two rows, whose diagonals of 1 keep whole numbers whole."""
    packed = Select(on_diagonal(x), splat(1, x.type), x)
    order = Iota(2)
    order = Select(Broadcast(swap, order.shape, ()), splat(1, order.type) - order, order)
    return Solve(x, packed, order, b, turned)


def solve_by_lu(a: Value, b: Value, turned: bool = False) -> Solve:
    """A solve with the factors of a matrix, or with its transpose."""
    packed, order = LU(a).results
    return Solve(a, packed, order, b, turned)


def inverse(x: Value, swap: Value, turned: bool = False) -> Value:
    """The inverse of a matrix with such factors, or its transpose."""
    return solve(x, swap, identity(x), turned)


def gram(x: Value) -> Value:
    """A symmetric matrix whose factors are whole numbers, without row exchanges."""
    root = _unit(triangle(x, True))
    return Matmul(root, transposed(root))


def whole_factors(x: Value, y: Value) -> Value:
    """A matrix whose factors are whole numbers, as are those of its transpose."""
    return Matmul(_unit(triangle(x, True)), _unit(triangle(y, False)))


def _unit(x: Value) -> Value:
    """Signs of a triangle, and a diagonal of 1."""
    return Select(on_diagonal(x), splat(1, x.type), Sign(x))
