"""Which terms of a sum may be multiplied one by one: those in which no digits are left to lose.

Terms may cancel: where M is near to the identity, ``M - I`` is small and has all its digits, and
``M x - x`` has lost them. A sum is taken apart only so far that this cannot happen:

- where nothing is negative, or integers are added, nothing cancels;
- a product of matrices is as far off as its factors are large, so a term that it cancels has lost
  as many digits in the sum as it loses beside it: K H in ``I - K H`` is multiplied on its own, and
  all terms that are exact stay together;
- windows of the identity have their ones in different places;
- a diagonal and outer products ``u v'``, which were rounded, meet in one element of a row; ones
  less a small number, as in ``I - 1/n``, do not cancel.

Under ``numerics="fast"`` laws of their own take every sum apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.cost import typical
from dlvm.ir import Value
from dlvm.ir.knowledge import properties_of
from dlvm.ops import Cast, Div, Mul, Permute, Slice
from dlvm.ops.literals import DimSize, scalar_value
from dlvm.ops.patterns import is_transpose
from dlvm.opt.algebra.factors.chains import everything
from dlvm.opt.algebra.factors.factors import Factor
from dlvm.opt.algebra.factors.products import apart
from dlvm.opt.algebra.factors.structure import is_identity, scalar_of, scaled

Term = tuple[bool, Value]
"""Whether a term is subtracted, and the term."""
HALF = 0.5
"""The largest number that leaves half of a one when it is taken from it."""


def stays(term: Term, every: Sequence[Term]) -> bool:
    """Whether a term is multiplied together with others: it is no cheaper alone, or is exact."""
    value = term[1]
    if not _may_cancel(every):
        return opaque(value)
    return not _is_rounded(value) and _exact_ones_cancel(every)


def _may_cancel(terms: Sequence[Term]) -> bool:
    """Whether a sum of these terms may be smaller than one of them."""
    if not terms[0][1].dtype.is_float:
        return False
    signs = {negative for negative, _ in terms}
    return len(signs) > 1 or not all("nonnegative" in properties_of(v) for _, v in terms)


def _exact_ones_cancel(every: Sequence[Term]) -> bool:
    """Whether terms that are no products of matrices may cancel one another."""
    exact = [value for _, value in every if not _is_rounded(value)]
    if len({start for v in exact if (start := _window(v)) is not None}) == len(exact):
        return False  # their ones are in different places: all windows are as wide
    rest = [v for v in exact if not _is_diagonal(v)]
    if len(exact) - len(rest) != 1:
        return True
    ones = all(is_identity(v) for v in exact if v not in rest)
    return not all(_is_outer(v) or (ones and _is_small(v)) for v in rest)


def opaque(value: Value) -> bool:
    """Whether a matrix is one factor whose structure is not known."""
    factors = apart(value, everything).factors
    return len(factors) == 1 and factors[0].kind == "dense"


def _is_rounded(value: Value) -> bool:
    """Whether a value is a product of matrices whose elements are sums."""
    return any(typical(f.columns) > 1 for f in _dense(value)[:-1])


def _dense(value: Value) -> list[Factor]:
    return [f for f in apart(value, everything).factors if f.kind == "dense"]


def _is_diagonal(value: Value) -> bool:
    """Whether a value has nothing outside of its diagonal."""
    return all(f.diagonal for f in apart(value, everything).factors)


def _is_outer(value: Value) -> bool:
    """Whether a value is an outer product of two vectors, of which none repeats one number."""
    factors = apart(value, everything).factors
    outer = len(factors) == 2 and len(_dense(value)) == 2 and factors[0].columns == 1
    return outer and all(scalar_of(f.value) is None for f in factors)


def _is_small(value: Value) -> bool:
    """Whether a value repeats a number that is known to be at most a half, or one over a size."""
    number = scalar_of(value)
    if number is None:
        match value:
            case Div(x, y):
                x, y = scalar_of(x), scalar_of(y)
                sized = isinstance(y, Cast) and isinstance(y.x, DimSize)
                return sized and x is not None and scalar_value(x) == 1
            case _:
                return False
    found = scalar_value(number)
    return found is not None and abs(float(found)) <= HALF


def _window(value: Value) -> tuple[object, ...] | None:
    """Where a window of the identity starts, which a number may multiply; it may be turned."""
    if isinstance(value, Mul) and (found := scaled(value)) is not None:
        value = found[0]
    if isinstance(value, Permute) and is_transpose(value):
        return None if (found := _window(value.x)) is None else ("turned", *found)
    match value:
        case Slice(eye, starts, sizes, (1, 1)) if is_identity(eye):
            return (*starts, *sizes[1:])
        case _:
            return None
