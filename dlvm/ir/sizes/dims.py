"""Sizes as the rest of the compiler uses them: arithmetic, the smaller and larger of two, values.

The smaller of two sizes is decided by a proof where there is one (``order``), else it is a call
(``polynomials``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .intervals import Range
from .order import at_least
from .polynomials import (
    FUNCTIONS,
    Atom,
    Call,
    Dim,
    Expr,
    Monomial,
    atoms_of,
    bounds,
    call_of,
    canonical,
    divide_exactly,
    evaluate,
    floordiv,
    is_call,
    mod,
    names_of,
    product,
    symbol,
    symbols,
    terms_of,
    with_atoms,
    with_values,
)

__all__ = [
    "FUNCTIONS",
    "Atom",
    "Call",
    "Dim",
    "Expr",
    "Monomial",
    "Range",
    "at_least",
    "atoms_of",
    "bounds",
    "canonical",
    "divide_exactly",
    "evaluate",
    "floordiv",
    "is_call",
    "maximum",
    "minimum",
    "mod",
    "names_of",
    "product",
    "substitute",
    "symbol",
    "symbols",
    "terms_of",
    "with_atoms",
]


def minimum(a: Dim, b: Dim) -> Dim:
    """The smaller of two sizes, resolved while tracing if their bounds decide it."""
    if at_least(b, a):
        return a
    if at_least(a, b):
        return b
    for x, y in ((a, b), (b, a)):
        if (found := _less_one("min", y, lambda d, x=x: at_least(d, x))) is not None:
            return minimum(x, found)
    return call_of("min", *_sorted(a, b))


def maximum(a: Dim, b: Dim) -> Dim:
    """The larger of two sizes, resolved while tracing if their bounds decide it."""
    if at_least(a, b):
        return a
    if at_least(b, a):
        return b
    for x, y in ((a, b), (b, a)):
        if (found := _less_one("max", y, lambda d, x=x: at_least(x, d))) is not None:
            return maximum(x, found)
    return call_of("max", *_sorted(a, b))


def _less_one(function: str, d: Dim, idle: Callable[[Dim], bool]) -> Dim | None:
    """Simplifies ``max(x, max(p, q) + r)`` to ``max(x, q + r)`` if ``x >= p + r``; min likewise.

    So ``max(0, max(0, N-1) - 1)``, the size of a slice of a slice, becomes ``max(0, N-2)``.
    """
    for mono, k in terms_of(d):
        call = mono[0][0] if is_call(mono) else None
        if k == 1 and isinstance(call, Call) and call.function == function:
            rest = d - call_of(function, call.lhs, call.rhs)
            for dropped, kept in ((call.lhs, call.rhs), (call.rhs, call.lhs)):
                if idle(dropped + rest):
                    return kept + rest
    return None


def _sorted(a: Dim, b: Dim) -> tuple[Dim, Dim]:
    return (a, b) if str(a) <= str(b) else (b, a)


def substitute(d: Dim, values: Mapping[str, Dim]) -> Dim:
    """The size with values substituted for symbols; symbols without a value remain."""
    if isinstance(d, int) or values.keys().isdisjoint(d.names()):
        return d
    return with_values(d, lambda a: _atom_value(a, values))


def _atom_value(atom: Atom, values: Mapping[str, Dim]) -> Dim | None:
    if isinstance(atom, str):
        return values.get(atom)
    if values.keys().isdisjoint(atom.names()):
        return None
    a, b = substitute(atom.lhs, values), substitute(atom.rhs, values)
    return {"floordiv": floordiv, "mod": mod, "min": minimum, "max": maximum}[atom.function](a, b)
