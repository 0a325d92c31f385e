"""The cheapest order of a product of many matrices, by dynamic programming.

The classic recurrence (Godbole, 1973) finds the cheapest parenthesisation of every range of
factors from those of its parts, here with cells that may be diagonal (GMC, Barthels and others,
2018). What a cell costs is what ``dlvm.cost`` says of the operation that would compute it. Numbers
and signs are applied where there are fewest elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlvm.cost import Work, product_work, typical
from dlvm.ir import Op, TensorType, Value, rewrite
from dlvm.ir.dims import product as size_of
from dlvm.ir.numerics import ROUNDING
from dlvm.ops import Broadcast, Matmul, Mul, Neg, Reshape, transposed

from .products import Factor, Opened, Product, flat


def everything(value: Value) -> bool:
    """Whether a value may be taken apart: any may."""
    return True


def multiplied(x: Value, y: Value) -> Value:
    """``x y`` in its cheapest order, with everything inside taken apart."""
    found = _built(flat(x, y, everything), x.type.with_shape((*x.shape[:-1], y.shape[-1])))
    return Matmul(x, y) if found is None else found


@rewrite(
    Matmul,
    example=(
        lambda a, b, v: Matmul(Matmul(a, b), v),
        lambda a, b, v: Matmul(transposed(v), Matmul(transposed(b), transposed(a))),
        lambda a, b, v: Matmul(Matmul(-a, b * 3.0), v),
    ),
    given=("f[M,N]", "f[N,K]", "f[K,1]"),
    law_class=ROUNDING,
    weighed=True,
    keeps=False,
)
def cheapest_order(op: Matmul) -> Value | None:
    """A B C ... in the order that costs least, with numbers and signs where there is least."""
    return reordered(op, everything)


def reordered(op: Op, opened: Opened) -> Value | None:
    """A product with those of its operands taken apart that may be."""
    if not isinstance(op, Matmul):
        return None
    found = flat(op.x, op.y, opened)
    if op.x.shape[-1] != 1 and found == Product([Factor(op.x), Factor(op.y)]):
        return None
    return _built(found, op.type)


def _built(product: Product, t: TensorType) -> Value | None:
    """Writes a product in its cheapest order; None where nothing but identities was multiplied."""
    if not product.factors:
        return None
    plan = Plan(product.factors, t)
    fewest = min(plan.ranges(), key=lambda at: (plan.cells[at].elements, at[0] - at[1]))
    return plan.written(product, fewest).matrix()


def _with_numbers(product: Product, x: Factor) -> Factor:
    """The numbers of a product, and its sign, applied to one factor."""
    value = x.value
    for kind, number in product.numbers:
        value = kind(value, Broadcast(number, value.shape, ()))
    return replace(x, value=Neg(value) if product.negative else value)


@dataclass(frozen=True, slots=True)
class Cell:
    """The cheapest way to multiply a range of factors: its time, where it is cut, what it gives."""

    time: int
    cut: int
    elements: int
    diagonal: bool


Range = tuple[int, int]
"""The first and the last of some neighbouring factors."""


class Plan:
    """The cheapest order of some factors."""

    def __init__(self, factors: Sequence[Factor], t: TensorType) -> None:
        self.factors = factors
        self.dtype = t.dtype
        self.count = typical(size_of(t.shape[:-2]))
        self.sizes = [typical(f.rows) for f in factors] + [typical(factors[-1].columns)]
        self.cells: dict[Range, Cell] = {}
        for i, f in enumerate(factors):
            self.cells[i, i] = Cell(0, i, typical(f.value.type.size), f.diagonal)
        for length in range(1, len(factors)):
            for i in range(len(factors) - length):
                self.cells[i, i + length] = self._cheapest(i, i + length)

    def _cheapest(self, i: int, j: int) -> Cell:
        """The best cut of a range; of equal ones that nearest to its middle, where powers meet."""
        ways = (self._cut(i, k, j) for k in range(i, j))
        return min(ways, key=lambda c: (c.time, abs(2 * c.cut - i - j + 1)))

    def _cut(self, i: int, k: int, j: int) -> Cell:
        """The product of two neighbouring ranges."""
        left, right = self.cells[i, k], self.cells[k + 1, j]
        rows, inner, columns = self.sizes[i], self.sizes[k + 1], self.sizes[j + 1]
        diagonal = left.diagonal and right.diagonal
        elements = self.count * (rows if diagonal else rows * columns)
        step = Work(elements if self.dtype.is_float else 0, elements * self.dtype.bytes)
        if not (left.diagonal or right.diagonal or inner == 1):
            step = product_work(self.dtype, self.count, rows, inner, columns)
        return Cell(left.time + right.time + step.time, k, elements, diagonal)

    def ranges(self) -> list[Range]:
        """The ranges that are computed, operands first."""
        found: list[Range] = []
        pending = [(0, len(self.factors) - 1)]
        while pending:
            i, j = pending.pop()
            found.append((i, j))
            if i < j:
                cut = self.cells[i, j].cut
                pending += [(i, cut), (cut + 1, j)]
        return found[::-1]

    def written(self, product: Product, at: Range) -> Factor:
        """Writes the product, its numbers applied to one range."""
        done: dict[Range, Factor] = {}
        for i, j in self.ranges():
            cut = self.cells[i, j].cut
            found = self.factors[i] if i == j else _times(done[i, cut], done[cut + 1, j])
            done[i, j] = _with_numbers(product, found) if (i, j) == at else found
        return done[0, len(self.factors) - 1]


def matrix_product(x: Value, y: Value) -> Value:
    """``x y``; a column times a row, whose sums have one term, is a product of elements."""
    if x.shape[-1] != 1:
        return Matmul(x, y)
    shape, rank = (*x.shape[:-1], y.shape[-1]), x.type.rank
    column, row = Reshape(x, x.shape[:-1]), Reshape(y, (*y.shape[:-2], y.shape[-1]))
    axes = tuple(range(rank - 2))
    return Mul(
        Broadcast(column, shape, (*axes, rank - 2)), Broadcast(row, shape, (*axes, rank - 1))
    )


def _times(x: Factor, y: Factor) -> Factor:
    """The product of two factors; one that is diagonal scales the rows or columns of the other."""
    if x.diagonal and y.diagonal:
        return Factor(Mul(x.value, y.value), diagonal=True)
    if not x.diagonal and not y.diagonal:
        return Factor(matrix_product(x.matrix(), y.matrix()))
    scale, matrix = (x.value, y.matrix()) if x.diagonal else (y.value, x.matrix())
    rank = matrix.type.rank
    axes = (*range(rank - 2), rank - 2 if x.diagonal else rank - 1)
    return Factor(Mul(Broadcast(scale, matrix.shape, axes), matrix))
