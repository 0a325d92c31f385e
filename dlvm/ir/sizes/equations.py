"""What equations and inequalities of sizes say about the symbols in them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .dims import (
    Call,
    Dim,
    Monomial,
    Range,
    at_least,
    canonical,
    divide_exactly,
    is_call,
    symbols,
    terms_of,
)


def unequal(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
    """The first pair of sizes that differ between two shapes of equal rank, else an empty tuple."""
    if len(a) != len(b):
        return ()
    return next(((x, y) for x, y in zip(a, b, strict=True) if x != y), ())


def when_positive(size: Dim) -> dict[str, Range]:
    """The ranges of symbols that ``size >= 1`` implies, such as in a window that is not empty."""
    if isinstance(size, int):
        return {}
    (mono, k), *rest = size.terms
    offset = sum(c for m, c in rest if not m)
    if k < 0 or any(m for m, _ in rest):
        return {}
    least = -((offset - 1) // k)
    if any(isinstance(atom, Call) for atom, _ in mono):
        return _when_quotient(mono, least)
    if len(mono) == 1 and mono[0][1] == 1:
        return {str(mono[0][0]): (max(0, least), math.inf)}
    return {} if offset > 0 else {str(atom): (1, math.inf) for atom, _ in mono}


def clipped_by(part: Dim, whole: Dim) -> Dim | None:
    """``n`` if a part is ``min(whole, n)``, as large as the whole wherever ``n`` is as large."""
    terms = terms_of(part)
    if len(terms) != 1 or terms[0][1] != 1 or not is_call(terms[0][0]):
        return None
    call = terms[0][0][0][0]
    if not isinstance(call, Call) or call.function != "min" or whole not in (call.lhs, call.rhs):
        return None
    return call.rhs if call.lhs == whole else call.lhs


def where_positive(size: Dim) -> Dim:
    """The size without a clamp at 0: ``a`` for ``max(0, a)``, equal wherever it is not 0."""
    terms = terms_of(size)
    if len(terms) != 1 or terms[0][1] != 1 or not is_call(terms[0][0]):
        return size
    call = terms[0][0][0][0]
    if not isinstance(call, Call) or call.function != "max" or 0 not in (call.lhs, call.rhs):
        return size
    return call.rhs if call.lhs == 0 else call.lhs


def _when_quotient(mono: Monomial, least: int) -> dict[str, Range]:
    """The ranges that ``floordiv(x, n) >= least`` implies, which is ``x >= n * least``."""
    call = mono[0][0]
    if not (is_call(mono) and isinstance(call, Call) and call.function == "floordiv"):
        return {}
    if not isinstance(call.rhs, int) or call.rhs <= 0:
        return {}
    return when_positive(call.lhs - (least * call.rhs - 1))


def solve(pattern: Dim, size: Dim, unknown: str) -> Dim | None:
    """The size >= 0 of the symbol that makes ``pattern == size``; None if there is no proof.

    Of ``min(n, a)``, which is ``n`` for any larger ``a`` as well, the least one is found.
    """
    if (clamp := as_clamped(pattern, unknown)) is not None:
        inside, most, offset = clamp
        return solve(inside, size - offset, unknown) if at_least(most, size - offset) else None
    line = as_line(pattern, unknown)
    found = None if line is None else divide_exactly(size - line[1], line[0])
    return found if found is not None and at_least(found, 0) else None


def as_clamped(d: Dim, name: str) -> tuple[Dim, Dim, Dim] | None:
    """``(a, n, offset)`` of ``d = min(n, a) + offset``, of which ``a`` alone has the symbol."""
    for mono, k in terms_of(d):
        call = mono[0][0] if is_call(mono) else None
        if k != 1 or not isinstance(call, Call) or call.function != "min":
            continue
        offset = d - canonical({mono: 1})
        for inside, most in ((call.lhs, call.rhs), (call.rhs, call.lhs)):
            if name in symbols(inside) and name not in (*symbols(most), *symbols(offset)):
                return inside, most, offset
    return None


def is_solvable(d: Dim, name: str, *, clamped: bool) -> bool:
    """Whether the value of a size tells that of a symbol in it, perhaps one in a minimum."""
    clamp = as_clamped(d, name) if clamped else None
    if clamp is not None:
        return is_solvable(clamp[0], name, clamped=True)
    return as_line(d, name) is not None


def as_line(d: Dim, name: str) -> tuple[Dim, Dim] | None:
    """``(factor, offset)`` of ``d = factor*name + offset``, both free of the symbol; else None."""
    terms = {m: k for m, k in terms_of(d) if (name, 1) in m}
    factor = canonical({tuple(ap for ap in m if ap[0] != name): k for m, k in terms.items()})
    offset = d - canonical(terms)
    free = name not in symbols(offset) and name not in symbols(factor)
    return (factor, offset) if factor != 0 and free else None
