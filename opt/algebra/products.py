"""A product of many factors as a flat list: what associativity leaves open is not in it.

Transposes are carried to the factors, ``(A B)' = B' A'``. Numbers and signs are collected beside
the list, as they commute with everything. Scalings of rows and columns are diagonal factors,
``d[:, None] * A = diag(d) A``, outer products are two factors, and identities are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dlvm.ir import Dim, Op, Value, zeros
from dlvm.ir.knowledge import known
from dlvm.ir.properties import Properties
from dlvm.ops import (
    Assume,
    Broadcast,
    Diagonal,
    Div,
    Equal,
    Iota,
    Matmul,
    Mul,
    Neg,
    Permute,
    Reshape,
    Select,
    transposed,
)

from . import structure

MOST = 32
"""Values of one product that are looked into; a longer product is several."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A matrix, its transpose, or the diagonal matrix that has a vector on its diagonal."""

    value: Value
    turned: bool = False
    diagonal: bool = False

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
        if not self.turned:
            return self.value
        *batch, rows, columns = self.value.shape
        if 1 in (rows, columns):
            return Reshape(self.value, (*batch, columns, rows))
        return transposed(self.value)


def diagonal_matrix(d: Value) -> Value:
    """The matrix with a vector on its diagonal, and zeros elsewhere."""
    *batch, n = d.shape
    square: tuple[Dim, ...] = (*batch, n, n)
    rank = len(square)
    row, column = (Broadcast(Iota(n), square, (axis,)) for axis in (rank - 2, rank - 1))
    repeated = Broadcast(d, square, tuple(range(rank - 1)))
    return Select(Equal(row, column), repeated, zeros(repeated.type))


@dataclass(slots=True)
class Product:
    """Factors from left to right, numbers by which to multiply or divide, and a sign."""

    factors: list[Factor] = field(default_factory=lambda: [])
    numbers: list[tuple[type[Mul] | type[Div], Value]] = field(default_factory=lambda: [])
    negative: bool = False
    opened: int = 0


Opened = Callable[[Value], bool]
"""Whether a value may be taken apart."""


def flat(x: Value, y: Value, opened: Opened) -> Product:
    """The product ``x y`` as a list; values that are not opened are factors as they are."""
    product = Product()
    _add(product, x, False, opened)
    _add(product, y, False, opened)
    return product


def _add(product: Product, value: Value, turned: bool, opened: Opened) -> None:
    """Appends the factors of a value, or of its transpose."""
    if product.opened < MOST and _open(product, value, turned, opened):
        return
    facts = known(value)
    if "diagonal" in facts:
        product.factors.append(Factor(Diagonal(value), diagonal=True))
        return
    factor = Factor(value, turned and "symmetric" not in facts)
    if "orthogonal" in facts and product.factors[-1:] == [_inverse(factor, facts)]:
        product.factors.pop()
        return
    product.factors.append(factor)


def _inverse(factor: Factor, facts: Properties) -> Factor:
    """The transpose of an orthogonal matrix."""
    return factor if "symmetric" in facts else Factor(factor.value, not factor.turned)


def _open(product: Product, value: Value, turned: bool, opened: Opened) -> bool:
    """Appends what a value is made of; False where it is a factor of its own."""
    if structure.is_turned(value):
        assert isinstance(value, Permute)
        _add(product, value.x, not turned, opened)
        return True
    if (d := structure.diagonal_of(value)) is not None:
        product.factors.append(Factor(d, diagonal=True))
        return True
    if structure.is_identity(value):
        return True
    product.opened += 1
    return opened(value) and _take_apart(product, value, turned, opened)


def _take_apart(product: Product, value: Value, turned: bool, opened: Opened) -> bool:
    match value:
        case Assume(x) if isinstance(x, Op) and not isinstance(x, Assume):
            return _take_apart(product, x, turned, opened)
        case Matmul(x, y):
            for part in (y, x) if turned else (x, y):
                _add(product, part, turned, opened)
        case Neg(x):
            product.negative = not product.negative
            _add(product, x, turned, opened)
        case Div(x, Broadcast(number, _, ())):
            product.numbers.append((Div, number))
            _add(product, x, turned, opened)
        case Reshape(x) if _is_turned_vector(value):
            _add(product, x, not turned, opened)
        case Mul():
            return _take_apart_scaling(product, value, turned, opened)
        case _:
            return False
    return True


def _take_apart_scaling(product: Product, value: Mul, turned: bool, opened: Opened) -> bool:
    if (found := structure.scaled(value)) is not None:
        x, number = found
        assert isinstance(number, Broadcast)
        product.numbers.append((Mul, number.x))
        _add(product, x, turned, opened)
        return True
    if (vectors := structure.outer_of(value)) is not None:
        u, v = (Reshape(w, (*w.shape[:-1], 1, w.shape[-1])) for w in vectors)
        left, right = (v, u) if turned else (u, v)
        product.factors += [Factor(left, True), Factor(right)]
        return True
    for x, scale in ((value.x, value.y), (value.y, value.x)):
        rows, columns = structure.along_rows(scale), structure.along_columns(scale)
        if (vector := columns if rows is None else rows) is None:
            continue
        diagonal = [Factor(vector, diagonal=True)]
        left = turned == (rows is None)
        product.factors += diagonal if left else []
        _add(product, x, turned, opened)
        product.factors += [] if left else diagonal
        return True
    return False


def _is_turned_vector(value: Reshape) -> bool:
    """Whether a column was made a row, or a row a column."""
    before, after = value.x.shape, value.shape
    both = len(before) == len(after) >= 2 and before[:-2] == after[:-2]
    return both and 1 in before[-2:] and before[-2:] == (after[-1], after[-2])
