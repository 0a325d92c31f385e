"""A product of many factors as a flat list: what associativity leaves open is not in it.

Transposes are carried to the factors, ``(A B)' = B' A'``. Numbers and signs are collected beside
the list, as they commute with everything. Scalings of rows and columns are diagonal factors,
``d[:, None] * A = diag(d) A``, outer products are two factors, and identities are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dlvm.ir import F16, Op, Part, Value, splat
from dlvm.ir.knowledge import properties_of
from dlvm.ir.properties import Properties
from dlvm.ops import (
    Assume,
    Broadcast,
    Diagonal,
    Div,
    Factorisation,
    Iota,
    Matmul,
    Mul,
    Neg,
    Permute,
    Reshape,
    Slice,
)
from dlvm.ops.patterns import is_transpose

from . import structure
from .factors import Factor

MOST = 32
"""Values of one product that are looked into; a longer product is several."""


@dataclass(slots=True)
class Product:
    """Factors from left to right, numbers by which to multiply or divide, and a sign."""

    factors: list[Factor] = field(default_factory=lambda: [])
    numbers: list[tuple[type[Mul] | type[Div], Value]] = field(default_factory=lambda: [])
    negative: bool = False
    opened: int = 0


MayTakeApart = Callable[[Value], bool]
"""Whether a value may be taken apart."""


def apart(value: Value, opened: MayTakeApart) -> Product:
    """A single value as a product."""
    product = Product()
    _add(product, value, False, opened)
    return product


def flat(x: Value, y: Value, opened: MayTakeApart) -> Product:
    """The product ``x y`` as a list; values that are not opened are factors as they are."""
    product = Product()
    _add(product, x, False, opened)
    _add(product, y, False, opened)
    return product


def _add(product: Product, value: Value, turned: bool, opened: MayTakeApart) -> None:
    """Appends the factors of a value, or of its transpose."""
    if product.opened < MOST and _open(product, value, turned, opened):
        return
    facts = properties_of(value)
    if "diagonal" in facts:
        product.factors.append(Factor(Diagonal(value), kind="diagonal"))
        return
    factor = Factor(value, turned and "symmetric" not in facts)
    known = "orthogonal" in facts or _orthonormal_columns(factor)
    if known and product.factors[-1:] == [_inverse(factor, facts)]:
        product.factors.pop()
        return
    product.factors.append(factor)


def _inverse(factor: Factor, facts: Properties) -> Factor:
    """The transpose of an orthogonal matrix."""
    return factor if "symmetric" in facts else factor.transpose()


def _orthonormal_columns(factor: Factor) -> bool:
    """Whether a factorisation states it of a matrix of any shape, or of the rows of one turned."""
    match factor.value:
        case Part(op=Factorisation() as op, index=index):
            return index in (op.orthonormal_rows if factor.turned else op.orthonormal_columns)
        case _:
            return False


def _open(product: Product, value: Value, turned: bool, opened: MayTakeApart) -> bool:
    """Appends what a value is made of; False where it is a factor of its own."""
    if is_transpose(value):
        assert isinstance(value, Permute)
        _add(product, value.x, not turned, opened)
        return True
    if (d := structure.diagonal_of(value)) is not None:
        product.factors.append(Factor(d, kind="diagonal"))
        return True
    if structure.is_identity(value):
        return True
    if (special := _special(value)) is not None:
        product.factors.append(special.transpose() if turned else special)
        return True
    product.opened += 1
    return opened(value) and _take_apart(product, value, turned, opened)


def _special(value: Value) -> Factor | None:
    """A factor that is never formed: one that picks rows, or a Kronecker product."""
    if (i := structure.places_of(value)) is not None:
        return Factor(value, kind="picking", parts=(Reshape(i, value.shape[:1]),))
    if (parts := structure.kronecker_of(value)) is not None:
        return Factor(value, kind="kronecker", parts=parts)
    return _window_of_identity(value)


def _window_of_identity(value: Value) -> Factor | None:
    """Some rows of the identity, which pick these; the one may be in a column that is cut off."""
    match value:
        case Slice(eye, (start, 0), (size, _), (step, 1)) if structure.is_identity(eye):
            places = Slice(Iota(eye.shape[0]), (start,), (size,), (step,))
            return Factor(value, kind="picking", parts=(places,))
        case _:
            return None


def _take_apart(product: Product, value: Value, turned: bool, opened: MayTakeApart) -> bool:
    """Appends the parts of a value; False where it has none, and of f16 where it is a scaling.

    Attention scales its operands so that their product stays below 65,504, where f16 ends.
    """
    if value.dtype is F16 and isinstance(value, Mul | Div):
        return False
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
        case Broadcast(x, (rows, columns), axes) if 1 not in (rows, columns) and len(axes) < 2:
            _add_repeated(product, x, value, turned)
        case _:
            return False
    return True


def _add_repeated(product: Product, x: Value, value: Broadcast, turned: bool) -> None:
    """A number, a column or a row that is repeated is an outer product with ones."""
    rows, columns = value.shape
    column, row = (splat(1, value.type.with_shape(s)) for s in ((rows, 1), (1, columns)))
    match value.axes:
        case ():
            product.numbers.append((Mul, x))
        case (0,):
            column = Reshape(x, (rows, 1))
        case _:
            row = Reshape(x, (1, columns))
    both = [Factor(column), Factor(row)]
    product.factors += [f.transpose() for f in reversed(both)] if turned else both


def _take_apart_scaling(product: Product, value: Mul, turned: bool, opened: MayTakeApart) -> bool:
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
        diagonal = [Factor(vector, kind="diagonal")]
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
