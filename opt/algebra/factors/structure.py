"""Matrices that are known by how they are made: diagonals, identities, one-hot rows, outer ones.

Each function looks at the operations that make a value and answers with the vector, index or
factor from which it is made, or None. None of them builds an operation but a reshape.
"""

from __future__ import annotations

from dlvm.ir import Value
from dlvm.ir.knowledge import properties_of
from dlvm.ops import Broadcast, Cast, Equal, Iota, Mul, Reshape, Select
from dlvm.ops.literals import is_splat
from dlvm.opt.beforehand import is_known

Columns = tuple[Value, tuple[int, ...]]
"""Numbers, and the axes of a value along which they lie; along others they are repeated."""


def scalar_of(value: Value) -> Value | None:
    """The number, staged or constant, that a value repeats everywhere."""
    return value.x if isinstance(value, Broadcast) and not value.axes else None


def scaled(value: Value) -> tuple[Value, Value] | None:
    """X and s of ``X * s`` for a number s."""
    match value:
        case Mul(x, y) if value.shape:
            if scalar_of(y) is not None:
                return x, y
            return (y, x) if scalar_of(x) is not None else None
        case _:
            return None


def along_rows(value: Value) -> Value | None:
    """The vector with an element for each row, which a matrix repeats along its columns."""
    return _along(value, -2)


def along_columns(value: Value) -> Value | None:
    """The vector with an element for each column, which a matrix repeats along its rows."""
    return _along(value, -1)


def _along(value: Value, axis: int) -> Value | None:
    rank = value.type.rank
    if not isinstance(value, Broadcast) or rank < 2:
        return None
    return value.x if value.axes == (*range(rank - 2), rank + axis) else None


def outer_of(value: Value) -> tuple[Value, Value] | None:
    """The vectors u and v of ``u v'``."""
    match value:
        case Mul(x, y):
            for a, b in ((x, y), (y, x)):
                u, v = along_rows(a), along_columns(b)
                if u is not None and v is not None:
                    return u, v
            return None
        case _:
            return None


def diagonal_of(value: Value) -> Value | None:
    """The vector d of the matrix ``diag(d)``."""
    match value:
        case Select(where, d, zero) if "identity" in properties_of(where) and is_splat(zero, 0):
            vector = along_rows(d)
            return along_columns(d) if vector is None else vector
        case _:
            return None


def is_identity(value: Value) -> bool:
    """Whether a matrix is the identity."""
    return "identity" in properties_of(value)


def one_hot_of(value: Value) -> Value | None:
    """The whole numbers i of rows that are 1 at place i and 0 elsewhere."""
    match value:
        case Cast(Equal(a, b)):
            for index, places in ((a, b), (b, a)):
                found = _picked(index, places)
                if found is not None:
                    return found
            return None
        case _:
            return None


def _picked(index: Value, places: Value) -> Value | None:
    last = places.type.rank - 1
    match index, places:
        case Broadcast(i, _, axes), Broadcast(Iota(), _, (axis,)) if axis == last == len(axes):
            wide = i.dtype.is_integer and i.dtype.bytes == 8
            return i if wide and axes == tuple(range(last)) else None
        case _:
            return None


def matrix_of_rows(value: Value) -> Value:
    """What a value was before its leading axes were joined into one of rows."""
    match value:
        case Reshape(x) if value.type.rank == 2 and x.shape[-1:] == value.shape[-1:]:
            return x
        case _:
            return value


def places_of(value: Value) -> Value | None:
    """The place of the one in every row of a matrix that has a single one in each."""
    return None if value.type.rank != 2 else one_hot_of(matrix_of_rows(value))


def kronecker_of(value: Value) -> tuple[Value, Value] | None:
    """A and B of ``kron(A, B)``."""
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


def known_columns(value: Value) -> Columns | None:
    """Known numbers that lie along some axes of a value, of which each has more than one place."""
    x, axes = value, tuple(range(value.type.rank))
    if isinstance(value, Broadcast):
        x, axes = value.x, value.axes
    several = [i for i, n in enumerate(x.shape) if n != 1]
    if not several or not is_known(x):
        return None
    shape = tuple(x.shape[i] for i in several)
    return x if x.shape == shape else Reshape(x, shape), tuple(axes[i] for i in several)
