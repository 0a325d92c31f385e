"""The factors of a product, and what it costs and takes to multiply two of them.

A *diagonal* factor is known by its diagonal, a *picking* one by the places of its ones (rows of
zeros with a single one), a *Kronecker* product by its two factors. None of them is formed where it
is multiplied with something else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dlvm.cost import Work, product_work, typical
from dlvm.ir import Dim, DType, Value, splat, zeros
from dlvm.ir.sizes.dims import at_least
from dlvm.ops import (
    Broadcast,
    Equal,
    Gather,
    Iota,
    Less,
    Matmul,
    Mul,
    Permute,
    Reshape,
    ScatterAdd,
    Select,
    Slice,
    Update,
    transposed,
)

from .structure import is_identity

Kind = Literal["dense", "diagonal", "picking", "kronecker"]
Places = Literal["picked", "added", "window"]
TURNED: dict[Places, Places] = {"picked": "added", "added": "picked", "window": "window"}
"""What the transpose of a picking factor does, for what the factor does."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix or its transpose; ``parts`` are what a matrix of its kind is known by."""

    value: Value
    turned: bool = False
    kind: Kind = "dense"
    parts: tuple[Value, ...] = ()

    @property
    def window(self) -> Slice | None:
        """The places of ones that follow one another, if all lie inside for certain."""
        places = self.parts[0]
        if not (isinstance(places, Slice) and isinstance(places.x, Iota)):
            return None
        (start,), (size,), (step,) = places.starts, places.sizes, places.steps
        extent = self.rows if self.turned else self.columns
        first, last = (start, start + (size - 1) * step)[:: 1 if step > 0 else -1]
        return places if at_least(first, 0) and at_least(extent - 1, last) else None

    @property
    def diagonal(self) -> bool:
        """Whether the value is the diagonal, and not the matrix."""
        return self.kind == "diagonal"

    @property
    def rows(self) -> Dim:
        """The number of rows."""
        return self.value.shape[-1 if self.turned or self.diagonal else -2]

    @property
    def columns(self) -> Dim:
        """The number of columns."""
        return self.value.shape[-2 if self.turned and not self.diagonal else -1]

    def matrix(self) -> Value:
        """The matrix; a vector is turned by another shape, which costs nothing."""
        if self.diagonal:
            return diagonal_matrix(self.value)
        return turned_about(self.value) if self.turned else self.value

    def transpose(self) -> Factor:
        """The transpose."""
        return self if self.diagonal else Factor(self.value, not self.turned, self.kind, self.parts)


def turned_about(x: Value) -> Value:
    """The transpose; that of a vector is another shape."""
    *batch, rows, columns = x.shape
    if 1 not in (rows, columns):
        return transposed(x)
    return Reshape(x.x if isinstance(x, Reshape) else x, (*batch, columns, rows))


def diagonal_matrix(d: Value) -> Value:
    """The matrix with a vector on its diagonal, and zeros elsewhere."""
    *batch, n = d.shape
    square: tuple[Dim, ...] = (*batch, n, n)
    rank = len(square)
    row, column = (Broadcast(Iota(n), square, (axis,)) for axis in (rank - 2, rank - 1))
    repeated = Broadcast(d, square, tuple(range(rank - 1)))
    return Select(Equal(row, column), repeated, zeros(repeated.type))


# -- what two of them cost ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sketch:
    """What the cost of a product asks of a factor, with usual numbers for open sizes.

    ``parts`` are the factors of a Kronecker product: their rows, their columns, and whether they
    are identities, which are not multiplied.
    """

    kind: Kind
    rows: int
    columns: int
    parts: tuple[tuple[int, int, bool], ...] = ()
    places: Places = "window"
    """What a picking factor does: reads rows, adds to rows, or either of a window."""

    @staticmethod
    def of(x: Factor) -> Sketch:
        """That of a factor."""
        matrices = x.parts if x.kind == "kronecker" else ()
        each = (Factor(part, x.turned) for part in matrices)
        parts = tuple((typical(f.rows), typical(f.columns), is_identity(f.value)) for f in each)
        found = Sketch(x.kind, typical(x.rows), typical(x.columns), parts)
        if x.kind != "picking" or x.window is not None:
            return found
        return replace(found, places="added" if x.turned else "picked")

    @property
    def transpose(self) -> Sketch:
        """That of the transpose."""
        parts = tuple((columns, rows, eye) for rows, columns, eye in self.parts)
        return Sketch(self.kind, self.columns, self.rows, parts, TURNED[self.places])

    @property
    def elements(self) -> int:
        """The number of elements that are stored."""
        return self.rows if self.kind == "diagonal" else self.rows * self.columns

    def __matmul__(self, other: Sketch) -> Sketch:
        """That of a product."""
        both = self.kind == other.kind == "diagonal"
        return Sketch("diagonal" if both else "dense", self.rows, other.columns)


def step_work(x: Sketch, y: Sketch, dtype: DType, count: int) -> Work:
    """The work of multiplying ``count`` pairs of such factors."""
    if x.kind == y.kind == "dense" and x.columns != 1:  # almost every pair
        return product_work(dtype, count, x.rows, x.columns, y.columns)
    elements = count * (x @ y).elements
    moved = elements * dtype.bytes
    if "diagonal" in (x.kind, y.kind) or (x.columns == 1 and x.kind == y.kind == "dense"):
        return Work(elements if dtype.is_float else 0, moved)
    for first, others in ((x, y.columns), (y.transpose, x.rows)):  # as ``times`` does
        if first.kind == "picking":
            return Work(first.columns * others if first.places == "added" else 0, moved)
        if first.kind == "kronecker":
            return _kronecker_work(first, others, dtype)
    return product_work(dtype, count, x.rows, x.columns, y.columns)


def _kronecker_work(x: Sketch, columns: int, dtype: DType) -> Work:
    """The work of both products, each of all columns of the other factor at once."""
    (m, n, first), (p, q, second) = x.parts
    left = Work() if first else product_work(dtype, 1, m, n, q * columns)
    right = Work() if second else product_work(dtype, 1, p, q, m * columns)
    return Work.sum((left, right))


# -- how two of them are multiplied ---------------------------------------------------------------


def times(x: Factor, y: Factor) -> Factor:
    """The product of two factors."""
    if x.diagonal and y.diagonal:
        return Factor(Mul(x.value, y.value), kind="diagonal")
    if x.diagonal or y.diagonal:
        return Factor(_scaled(x, y))
    if x.kind == "dense" != y.kind:
        return Factor(turned_about(_special_times(y.transpose(), turned_about(x.matrix()))))
    return Factor(_special_times(x, y.matrix()))


def _scaled(x: Factor, y: Factor) -> Value:
    """The rows or columns of a matrix times the diagonal of the other factor."""
    scale, matrix = (x.value, y.matrix()) if x.diagonal else (y.value, x.matrix())
    rank = matrix.type.rank
    axes = (*range(rank - 2), rank - 2 if x.diagonal else rank - 1)
    return Mul(Broadcast(scale, matrix.shape, axes), matrix)


def _special_times(x: Factor, y: Value) -> Value:
    """A factor of any kind but a diagonal one times a matrix."""
    match x.kind:
        case "picking":
            return _placed(x, y) if x.turned else _picked(x, y)
        case "kronecker":
            a, b = map(turned_about, x.parts) if x.turned else x.parts
            return kronecker_times(a, b, y)
        case _:
            return matrix_product(x.matrix(), y)


def _picked(x: Factor, y: Value) -> Value:
    """Rows of a matrix, those that follow one another as a window."""
    if (window := x.window) is None:
        return Gather(y, inside(x.parts[0]), 0, mode="drop")
    return Slice(y, (*window.starts, 0), (*window.sizes, y.shape[1]), (*window.steps, 1))


def _placed(x: Factor, y: Value) -> Value:
    """Rows among zeros: as a window, or added up where several have the same place."""
    sums = zeros(y.type.with_shape((x.rows, y.shape[-1])))
    if (window := x.window) is None:
        return ScatterAdd(sums, inside(x.parts[0]), y, 0, mode="drop")
    return Update(sums, y, (*window.starts, 0), (*window.steps, 1))


def matrix_product(x: Value, y: Value) -> Value:
    """``x y``; a column times a row, whose sums have one term, is a product of elements."""
    if x.shape[-1] != 1:
        return Matmul(x, y)
    shape, rank = (*x.shape[:-1], y.shape[-1]), x.type.rank
    column, row = Reshape(x, x.shape[:-1]), Reshape(y, (*y.shape[:-2], y.shape[-1]))
    axes = tuple(range(rank - 2))
    rows, columns = (*axes, rank - 2), (*axes, rank - 1)
    return Mul(Broadcast(column, shape, rows), Broadcast(row, shape, columns))


def inside(i: Value) -> Value:
    """Whole numbers with negative ones moved outside, as indices would count them from the end."""
    outside = splat(i.dtype.highest, i.type)
    return Select(Less(i, splat(0, i.type)), outside, i)


def kronecker_times(a: Value, b: Value, x: Value) -> Value:
    """``kron(A, B) X``, column by column A X_c B', as two products of all of them."""
    (m, n), (p, q), columns = a.shape, b.shape, x.shape[-1]
    left = _unless_identity(a, Reshape(x, (n, q * columns)))
    if columns == 1:
        whole = left if is_identity(b) else Matmul(Reshape(left, (m, q)), turned_about(b))
        return Reshape(whole, (m * p, 1))
    turned = Permute(Reshape(left, (m, q, columns)), (1, 0, 2))
    right = _unless_identity(b, Reshape(turned, (q, m * columns)))
    back = Permute(Reshape(right, (p, m, columns)), (1, 0, 2))
    return Reshape(back, (m * p, columns))


def _unless_identity(a: Value, x: Value) -> Value:
    return x if is_identity(a) else Matmul(a, x)
