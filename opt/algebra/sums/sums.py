"""Sums and products: factors taken out of sums, and sums multiplied term by term.

Which of the two is cheaper depends on the terms: a sum of matrices is multiplied as a whole, a
matrix of rank one or a diagonal one on its own, as neither is ever formed.
Which terms may be is said in ``cancelling``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dlvm.ir import Dim, Value, rearrangement
from dlvm.ir.numerics import FAST
from dlvm.ops import Add, Matmul, Neg, Permute, Reshape, Sub, transposed
from dlvm.ops.patterns import is_transpose
from dlvm.opt.algebra.factors.chains import multiplied
from dlvm.opt.algebra.factors.factors import turned_about

from .cancelling import Term, opaque, stays

MOST = 16
"""Terms that are taken apart."""
Stays = Callable[[Term, Sequence[Term]], bool]
"""Whether a term is multiplied together with others of these."""


@rearrangement(
    Add,
    Sub,
    example=(
        lambda a, b, c: Add(Matmul(a, b), Matmul(a, c)),
        lambda a, b, c: Add(Matmul(b, a), Matmul(c, a)),
        lambda a, b, c: Sub(Matmul(a, b), Matmul(a, c)),
        lambda a, b, c: Sub(Matmul(b, a), Matmul(c, a)),
    ),
    given=("n[N,N]", "n[N,N]", "n[N,N]"),
)
def common_factor(op: Add | Sub) -> Value | None:
    """A B + A C = A (B + C), and B A + C A = (B + C) A; also of differences."""
    if not isinstance(op.x, Matmul) or not isinstance(op.y, Matmul):
        return None
    (a, b), (c, d) = op.x.operands, op.y.operands
    if a is c:
        return Matmul(a, type(op)(b, d))
    return Matmul(type(op)(a, c), b) if b is d else None


@rearrangement(
    Matmul,
    example=(
        lambda a, u, v, x: Matmul(Add(a, Matmul(u, v)), x),
        lambda a, u, v, x: Matmul(Sub(Matmul(u, v), a), x),
        lambda a, u, v, x: Matmul(Add(Matmul(u, v), Matmul(u, v)), x),
        lambda a, u, v, x: Matmul(Neg(Add(Matmul(u, v), Matmul(u, v))), x),
        lambda a, u, v, x: Matmul(Add(Neg(Matmul(u, v)), Sub(a, Matmul(u, v))), x),
        lambda a, u, v, x: Matmul(transposed(Add(transposed(a), transposed(Matmul(u, v)))), x),
        lambda a, u, v, x: Matmul(_reshaped(Add(_flat(Matmul(u, v)), _flat(a)), a), x),
        lambda a, u, v, x: Matmul(_reshaped(Sub(_flat(a), _flat(Matmul(u, v))), a), x),
    ),
    given=("n[M,N]", "n[M,2]", "n[2,N]", "n[N,1]"),
)
def sum_times(op: Matmul) -> Value | None:
    """(A + B) x = A x + B x, where a term is cheaper on its own."""
    found = _terms(op.x)
    return None if found is None else _added((n, multiplied(v, op.y)) for n, v in found)


@rearrangement(
    Matmul,
    example=(
        lambda a, u, v, x: Matmul(x, Add(a, Matmul(u, v))),
        lambda a, u, v, x: Matmul(x, Sub(Matmul(u, v), a)),
    ),
    given=("n[M,N]", "n[M,2]", "n[2,N]", "n[1,M]"),
)
def times_sum(op: Matmul) -> Value | None:
    """x (A + B) = x A + x B, where a term is cheaper on its own."""
    found = _terms(op.y)
    return None if found is None else _added((n, multiplied(op.x, v)) for n, v in found)


@rearrangement(
    Matmul,
    example=(
        lambda a, u, v, x: Matmul(Add(a, Matmul(u, v)), x),
        lambda a, u, v, x: Matmul(Sub(Matmul(u, v), a), x),
    ),
    given=("f[M,N]", "f[M,1]", "f[1,N]", "f[N,1]"),
    law_class=FAST,
)
def sum_times_taken_apart(op: Matmul) -> Value | None:
    """(A + B) x = A x + B x also where A + B cancels, and has digits that the products have not."""
    found = _terms(op.x, _is_opaque)
    return None if found is None else _added((n, multiplied(v, op.y)) for n, v in found)


@rearrangement(
    Matmul,
    example=(
        lambda a, u, v, x: Matmul(x, Add(a, Matmul(u, v))),
        lambda a, u, v, x: Matmul(x, Sub(Matmul(u, v), a)),
    ),
    given=("f[M,N]", "f[M,1]", "f[1,N]", "f[1,M]"),
    law_class=FAST,
)
def times_sum_taken_apart(op: Matmul) -> Value | None:
    """x (A + B) = x A + x B also where A + B cancels, and has digits that the products have not."""
    found = _terms(op.y, _is_opaque)
    return None if found is None else _added((n, multiplied(op.x, v)) for n, v in found)


def _is_opaque(term: Term, _: Sequence[Term]) -> bool:
    """Whether a term is no cheaper on its own."""
    return opaque(term[1])


def _flat(x: Value) -> Value:
    """For the examples: the elements of a matrix in a row."""
    return Reshape(x, (x.type.size,))


def _reshaped(x: Value, like: Value) -> Value:
    """For the examples: elements in a row as a matrix again."""
    return Reshape(x, like.shape)


def _terms(whole: Value, stays: Stays = stays) -> list[Term] | None:
    """The terms of a sum, those that stay together as one; None where that is all."""
    every: list[Term] = []
    pending: list[tuple[Value, bool, bool]] = [(whole, False, False)]
    while pending and len(every) < MOST:
        value, negative, turned = pending.pop()
        match value:
            case Add(x, y):
                pending += [(y, negative, turned), (x, negative, turned)]
            case Sub(x, y):
                pending += [(y, not negative, turned), (x, negative, turned)]
            case Neg(x):
                pending.append((x, not negative, turned))
            case Reshape(Add() | Sub() | Neg() as inner):
                parts = [_in_shape(x, value.shape) for x in inner.operands]
                pending.append((inner.rebuild(parts), negative, turned))
            case Permute(x) if is_transpose(value):
                pending.append((x, negative, not turned))
            case _:
                every.append((negative, turned_about(value) if turned else value))
    every += [(n, turned_about(v) if t else v) for v, n, t in pending]
    together = [term for term in every if stays(term, every)]
    if len(every) < 2 or len(together) == len(every):
        return None
    rest = [term for term in every if term not in together]
    return [*([(False, _added(together))] if together else []), *rest]


def _in_shape(x: Value, shape: tuple[Dim, ...]) -> Value:
    """A value in another shape; one that had it before is that."""
    before = x.x if isinstance(x, Reshape) else x
    return before if before.shape == shape else Reshape(before, shape)


def _added(terms: Iterable[Term]) -> Value:
    """The sum of terms; the first that is not subtracted goes first."""
    first, *rest = sorted(terms, key=lambda term: term[0])
    total = Neg(first[1]) if first[0] else first[1]
    for negative, value in rest:
        total = Sub(total, value) if negative else Add(total, value)
    return total
