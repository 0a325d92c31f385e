"""The cheapest order of a product of many matrices, by dynamic programming.

The classic recurrence (Godbole, 1973) finds the cheapest parenthesisation of every range of
factors from those of its parts, here with factors of several kinds (GMC, Barthels and others,
2018). What a cell costs is what ``dlvm.cost`` says of the operation that would compute it. Numbers
and signs are applied where there are fewest elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlvm.cost import typical
from dlvm.ir import F16, Op, TensorType, Value, rearrangement, rewrite, splat
from dlvm.ir.knowledge import properties_of
from dlvm.ir.numerics import ROUNDING
from dlvm.ir.sizes.dims import product as size_of
from dlvm.ops import Broadcast, Matmul, Mul, Neg, Reshape, transposed
from dlvm.opt.algebra.examples import wide

from .factors import Factor, Sketch, step_work, times, turned_about
from .products import MayTakeApart, Product, flat
from .structure import scaled


def everything(value: Value) -> bool:
    """Whether a value may be taken apart: any may."""
    return True


def nothing(value: Value) -> bool:
    """Whether a value may be taken apart: none may."""
    return False


@rewrite(
    Matmul,
    example=(
        lambda a, v: Matmul(wide(a) * 3.0, wide(v)),
        lambda a, v: Matmul(transposed(v), Neg(a)),
        lambda a, v: Matmul(wide(a), Reshape(Reshape(wide(v), v.shape[:1]) * 3.0, v.shape)),
        lambda a, v: Matmul(a, Neg(v)),
    ),
    given=("f[N,N]", "f[N,1]"),
    law_class=ROUNDING,
    keeps=False,
)
def number_behind_product(op: Matmul) -> Value | None:
    """(s A) B = s (A B) where that has no more elements: what follows a product costs least.

    In f16 only for s = -1: attention scales its operands so that their product stays below 65,504.
    """
    for i, x in enumerate(op.operands):
        if (found := _number_and_rest(x)) is None or typical(op.type.size) > typical(x.type.size):
            continue
        rest, number = found
        if number is not None and op.dtype is F16:
            continue
        whole = Matmul(rest, op.y) if i == 0 else Matmul(op.x, rest)
        return Neg(whole) if number is None else Mul(whole, Broadcast(number, op.shape, ()))
    return None


def _number_and_rest(x: Value) -> tuple[Value, Value | None] | None:
    """X and s of ``s X``, also where that is reshaped; no s where it is ``-X``."""
    match x:
        case Neg(inner):
            return inner, None
        case Reshape(inner) if (found := _number_and_rest(inner)) is not None:
            return Reshape(found[0], x.shape), found[1]
        case Mul() if (found := scaled(x)) is not None:
            inner, number = found
            assert isinstance(number, Broadcast)
            return inner, number.x
        case _:
            return None


def multiplied(x: Value, y: Value) -> Value:
    """``x y`` in its cheapest order, with everything inside taken apart."""
    t = x.type.with_shape((*x.shape[:-1], y.shape[-1]))
    return _built(flat(x, y, everything), t)


@rearrangement(
    Matmul,
    example=(
        lambda a, b, v: Matmul(Matmul(a, b), v),
        lambda a, b, v: Matmul(transposed(v), Matmul(transposed(b), transposed(a))),
        lambda a, b, v: Matmul(Matmul(-a, b * 3.0), v),
    ),
    given=("f[M,N]", "f[N,K]", "f[K,1]"),
)
def cheapest_order(op: Matmul) -> Value | None:
    """A B C ... in the order that costs least, with numbers and signs where there is least."""
    return reordered(op, everything)


def reordered(op: Op, opened: MayTakeApart) -> Value | None:
    """A product with those of its operands taken apart that may be."""
    if not isinstance(op, Matmul):
        return None
    found = flat(op.x, op.y, opened)
    plain = [Factor(op.x), Factor(op.y)]
    as_it_is = found.factors == plain and not found.numbers and not found.negative
    if op.x.shape[-1] != 1 and as_it_is:
        return _beside_symmetric(op.x, op.y)
    return _built(found, op.type)


def _beside_symmetric(x: Value, y: Value) -> Value | None:
    """S v as (v' S)', and v' S as (S v)', for symmetric S: pays where that is computed anyway."""
    row, column = x.shape[-2] == 1, y.shape[-1] == 1
    if row == column or "symmetric" not in properties_of(y if row else x):
        return None
    return turned_about(Matmul(turned_about(y), x) if column else Matmul(y, turned_about(x)))


def _built(product: Product, t: TensorType) -> Value:
    """Writes a product in its cheapest order; where nothing is left of it, the identity."""
    if not product.factors:
        ones = splat(1, t.with_shape(t.shape[:-1]))
        product.factors.append(Factor(ones, kind="diagonal"))
    plan = Plan(product.factors, t)
    formed = [at for at in plan.ranges() if plan.cells[at].gives.kind in ("dense", "diagonal")]
    fewest = min(formed or plan.ranges(), key=lambda at: (plan.elements(at), at[0] - at[1]))
    return plan.written(product, fewest).matrix()


def _with_numbers(product: Product, x: Factor) -> Factor:
    """The numbers of a product, and its sign, applied to one factor."""
    value = x.value if x.kind in ("dense", "diagonal") else x.matrix()
    for kind, number in product.numbers:
        value = kind(value, Broadcast(number, value.shape, ()))
    value = Neg(value) if product.negative else value
    return replace(x, value=value) if x.kind in ("dense", "diagonal") else Factor(value)


@dataclass(frozen=True, slots=True)
class Cell:
    """The cheapest way to multiply a range of factors: its time, where it is cut, what it gives."""

    time: int
    cut: int
    gives: Sketch


Range = tuple[int, int]
"""The first and the last of some neighbouring factors."""


class Plan:
    """The cheapest order of some factors."""

    def __init__(self, factors: Sequence[Factor], t: TensorType) -> None:
        self.factors = factors
        self.dtype = t.dtype
        self.count = typical(size_of(t.shape[:-2]))
        self.cells: dict[Range, Cell] = {}
        for i, factor in enumerate(factors):
            self.cells[i, i] = Cell(0, i, Sketch.of(factor))
        for length in range(1, len(factors)):
            for i in range(len(factors) - length):
                self.cells[i, i + length] = self._cheapest(i, i + length)

    def _cheapest(self, i: int, j: int) -> Cell:
        """The best cut of a range; of equal ones that nearest to its middle, where powers meet."""
        time, _, cut = min((self._cut(i, k, j), abs(2 * k - i - j + 1), k) for k in range(i, j))
        return Cell(time, cut, self.cells[i, cut].gives @ self.cells[cut + 1, j].gives)

    def _cut(self, i: int, k: int, j: int) -> int:
        """The time for the product of two neighbouring ranges, and for what they give."""
        left, right = self.cells[i, k], self.cells[k + 1, j]
        step = step_work(left.gives, right.gives, self.dtype, self.count)
        return left.time + right.time + step.time

    def elements(self, at: Range) -> int:
        """The number of elements of what a range gives."""
        return self.cells[at].gives.elements

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
            found = self.factors[i] if i == j else times(done[i, cut], done[cut + 1, j])
            done[i, j] = _with_numbers(product, found) if (i, j) == at else found
        return done[0, len(self.factors) - 1]
