"""Sizes that may be unknown: integer polynomials over symbols, in canonical form.

A size is a Python ``int`` or an ``Expr``. Its atoms are symbols and the floor division, modulus,
minimum and maximum of expressions. Two sizes are equal exactly if their canonical forms are. A
symbol that names a size of an array is >= 0, and an axis of symbolic size never broadcasts. Loop
variables of code generation are symbols too, so the same algebra checks their bounds. This file
knows nothing of types or operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, cast

from dlvm.base.errors import ShapeError

from . import intervals
from .immutable import Immutable
from .intervals import Range

Atom: TypeAlias = "str | Call"
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Dim: TypeAlias = "int | Expr"

FUNCTIONS: dict[str, Callable[[int, int], int]] = {
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Call(Immutable):
    """``function(lhs, rhs)``, kept as an atom because it has no polynomial form."""

    function: str
    lhs: Dim
    rhs: Dim

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Call)
            and hash(self) == hash(other)
            and (self.function, self.lhs, self.rhs) == (other.function, other.lhs, other.rhs)
        )

    __hash__ = Immutable.__hash__

    def _parts(self) -> Any:
        return self.function, self.lhs, self.rhs

    def bounds(self) -> Range:
        """An interval that contains every value of it, where no symbol has a range."""
        try:
            return self._range
        except AttributeError:
            object.__setattr__(self, "_range", found := _call_bounds(self, {}))
            return found

    def _written(self) -> str:
        return f"{self.function}({self.lhs},{self.rhs})"

    def _occurring(self) -> Iterator[str]:
        yield from symbols(self.lhs)
        yield from symbols(self.rhs)


@lru_cache(maxsize=1 << 16)
def _key(mono: Monomial) -> tuple[int, list[tuple[str, int]]]:
    return (-sum(p for _, p in mono), [(str(a), -p) for a, p in mono])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Expr(Immutable):
    """A sorted sum of integer multiples of monomials; a constant is an ``int`` instead."""

    terms: tuple[tuple[Monomial, int], ...]

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Expr) and hash(self) == hash(other) and self.terms == other.terms
        )

    __hash__ = Immutable.__hash__

    def _parts(self) -> Any:
        return self.terms

    def _written(self) -> str:
        return "".join(_signed(mono, k, first=i == 0) for i, (mono, k) in enumerate(self.terms))

    def _occurring(self) -> Iterator[str]:
        for mono, _ in self.terms:
            for atom, _ in mono:
                yield from names_of(atom)

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Expr):
            return NotImplemented
        if not isinstance(other, Expr) and not other:
            return self
        out = dict(self.terms)
        for mono, k in terms_of(other):
            out[mono] = out.get(mono, 0) + k
        return canonical(out)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int | Expr):
            return NotImplemented
        if not isinstance(other, Expr):  # a constant factor keeps the order of the terms
            return self._times(int(other))
        out: dict[Monomial, int] = {}
        for m1, k1 in self.terms:
            for m2, k2 in terms_of(other):
                mono = _times(m1, m2)
                out[mono] = out.get(mono, 0) + k1 * k2
        return canonical(out)

    def _times(self, factor: int) -> Dim:
        if factor == 1:
            return self
        return Expr(tuple((mono, k * factor) for mono, k in self.terms)) if factor else 0

    def __neg__(self) -> Dim:
        return self._times(-1)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return floordiv(other, self)

    def __rmod__(self, other: Dim) -> Dim:
        return mod(other, self)

    def __bool__(self) -> bool:
        raise ShapeError(
            f"the size {self} is not known while tracing, so it has no truth value",
            remedy="compile for fixed shapes",
        )

    def __index__(self) -> int:
        raise ShapeError(
            f"expected a size that is known while tracing, found {self}",
            remedy="use the symbolic size itself in shapes, or compile for fixed shapes",
        )


def _signed(mono: Monomial, k: int, *, first: bool) -> str:
    factors = [str(a) for a, p in mono for _ in range(p)]
    if abs(k) != 1 or not factors:
        factors.insert(0, str(abs(k)))
    sign = "-" if k < 0 else "" if first else "+"
    return sign + "*".join(factors)


def summed(sizes: Iterable[Dim]) -> Dim:
    """The sum of sizes, whose terms are put in order once."""
    terms: dict[Monomial, int] = {}
    for size in sizes:
        for mono, k in terms_of(size):
            terms[mono] = terms.get(mono, 0) + k
    return canonical(terms)


def terms_of(d: Dim) -> tuple[tuple[Monomial, int], ...]:
    """The monomials of a size with their factors."""
    return d.terms if isinstance(d, Expr) else (((), int(d)),) if d else ()


def _times(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for atom, p in b:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda ap: str(ap[0])))


def canonical(terms: dict[Monomial, int]) -> Dim:
    """The size with these factors of monomials."""
    kept = [(m, k) for m, k in terms.items() if k]
    if len(kept) > 1:
        kept.sort(key=lambda mk: _key(mk[0]))
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    return Expr(tuple(kept))


def names_of(atom: Atom) -> tuple[str, ...]:
    """The symbols in a factor of a term."""
    return (atom,) if isinstance(atom, str) else atom.names()


def symbol(name: str) -> Expr:
    """The unknown size with this name."""
    return Expr(((((name, 1),), 1),))


def call_of(function: str, lhs: Dim, rhs: Dim) -> Expr:
    """A call as a size, in no simpler form."""
    return Expr(((((Call(function, lhs, rhs), 1),), 1),))


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a // b``, exact if every term is divisible: ``(6*B+4)//2 == 3*B+2``.

    A quotient of a quotient is one: ``(B//2 + 1)//3 == (B+2)//6``.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b else 0
    if b == 1:
        return a
    if a == 0:
        return 0
    if isinstance(b, int) and b > 0:
        whole = canonical({m: k // b for m, k in terms_of(a) if k % b == 0})
        rest = canonical({m: k for m, k in terms_of(a) if k % b})
        if isinstance(rest, int):
            return whole + rest // b
        if (inner := _quotient(rest)) is not None:
            return whole + floordiv(inner[0], inner[1] * b)
        return whole + call_of("floordiv", rest, b)
    return quotient if (quotient := divide_exactly(a, b)) is not None else call_of("floordiv", a, b)


def mod(a: Dim, b: Dim) -> Dim:
    """``a % b`` with the sign of ``b``, as in Python; ``(3*(a % 12) + c) % 4 == (3*a + c) % 4``."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b if b else 0
    if isinstance(b, int) and b > 0:
        rest = canonical({m: k % b for m, k in terms_of(a)})
        if (bare := _without_remainders(rest, b)) != rest:
            return mod(bare, b)
        if isinstance(rest, int):
            return rest % b
        least, most = bounds(rest)
        return rest if least >= 0 and most < b else call_of("mod", rest, b)
    return 0 if divide_exactly(a, b) is not None else call_of("mod", a, b)


def _quotient(d: Dim) -> tuple[Dim, int] | None:
    """``(a + n*c, n)`` of ``d = a // n + c`` with constants c and n, else None."""
    match d:
        case Expr(((((Call("floordiv", a, int(n)), 1),), 1), *_)) if n > 0:
            offset = d - call_of("floordiv", a, n)
            return (a + n * offset, n) if isinstance(offset, int) else None
        case _:
            return None


def _without_remainders(d: Dim, b: int) -> Dim:
    """A size with the same rest by ``b``: ``x`` is in the place of ``x % n`` if b divides n."""
    out: Dim = 0
    for mono, k in terms_of(d):
        match mono:
            case ((Call("mod", x, int(n)), 1),) if n > 0 and n % b == 0:
                out = out + k * x
            case _:
                out = out + canonical({mono: k})
    return out


def divide_exactly(a: Dim, b: Dim) -> Dim | None:
    """The polynomial ``q`` with ``q * b == a``, or None; ``b`` is assumed to be nonzero."""
    if isinstance(b, int):
        if b == 0 or any(k % b for _, k in terms_of(a)):
            return None
        return canonical({m: k // b for m, k in terms_of(a)})
    quotient: Dim = 0
    rest = a
    lead_mono, lead_k = b.terms[0]
    for _ in range(64):
        if rest == 0:
            return quotient
        mono, k = terms_of(rest)[0]
        step = _divide_monomial(mono, lead_mono)
        if step is None or k % lead_k:
            return None
        term = canonical({step: k // lead_k})
        quotient, rest = quotient + term, rest - term * b
    return None


def _divide_monomial(a: Monomial, b: Monomial) -> Monomial | None:
    powers = dict(a)
    for atom, p in b:
        if powers.get(atom, 0) < p:
            return None
        powers[atom] -= p
    return tuple((atom, p) for atom, p in powers.items() if p)


def product(dims: tuple[Dim, ...]) -> Dim:
    """The number of elements of a shape."""
    out: Dim = 1
    for d in dims:
        out = out * d
    return out


def symbols(d: Dim) -> tuple[str, ...]:
    """Every symbol that occurs in a size, nested ones included, as often as it does."""
    return d.names() if isinstance(d, Expr) else ()


def with_values(d: Dim, value_of: Callable[[Atom], Dim | None]) -> Dim:
    """The size with values for atoms; those without one remain."""
    out: dict[Monomial, int] = {}
    for mono, k in terms_of(d):
        term: Dim = k
        rest: list[tuple[Atom, int]] = []
        for pair in mono:
            if (value := value_of(pair[0])) is None:
                rest.append(pair)
            for _ in range(pair[1] if value is not None else 0):
                term = term * cast(Dim, value)
        left = tuple(rest)
        for m, n in terms_of(term):
            whole = _times(m, left) if m and left else m or left
            out[whole] = out.get(whole, 0) + n
    return canonical(out)


def atoms_of(d: Dim) -> tuple[Atom, ...]:
    """The factors of the terms of a size, each once: symbols and calls."""
    return tuple(dict.fromkeys(a for mono, _ in terms_of(d) for a, _ in mono))


def with_atoms(d: Dim, values: Mapping[Atom, Dim]) -> Dim:
    """A size in which some factors of its terms are something else."""
    return with_values(d, lambda a: values.get(a))


def bounds(d: Dim, ranges: Mapping[str, Range] | None = None) -> Range:
    """An interval that contains every value of a size; a symbol without a range is >= 0."""
    if not isinstance(d, Expr):
        return d, d
    known = ranges or {}
    lo: float = 0
    hi: float = 0
    for mono, k in d.terms:
        term: Range = (1, 1)
        for i, (atom, p) in enumerate(mono):
            power = intervals.power(atom_bounds(atom, known), p)
            term = intervals.times(term, power) if i else power
        least, most = term if k > 0 else (term[1], term[0])
        lo += least * k if least else 0
        hi += most * k if most else 0
    return lo, hi


def atom_bounds(atom: Atom, ranges: Mapping[str, Range]) -> Range:
    """An interval that contains every value of a symbol or a call."""
    if isinstance(atom, str):
        return ranges.get(atom, (0, math.inf))
    return _call_bounds(atom, ranges) if ranges else atom.bounds()


def _call_bounds(atom: Call, ranges: Mapping[str, Range]) -> Range:
    a, b = bounds(atom.lhs, ranges), bounds(atom.rhs, ranges)
    match atom.function:
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "mod" if b[0] > 0:
            return 0, min(a[1], b[1] - 1) if a[0] >= 0 else b[1] - 1
        case "floordiv" if b[0] > 0:
            return intervals.quotient(a, b)
        case _:
            return -math.inf, math.inf


def is_call(mono: Monomial) -> bool:
    """Whether a monomial is a single call."""
    return len(mono) == 1 and mono[0][1] == 1 and isinstance(mono[0][0], Call)


def evaluate(d: Dim, values: Mapping[str, int]) -> int:
    """The number that a size is, given a value for every symbol."""
    if not isinstance(d, Expr):
        return d
    total = 0
    for mono, k in d.terms:
        for atom, p in mono:
            k *= _value(atom, d, values) ** p
        total += k
    return total


def _value(atom: Atom, whole: Dim, values: Mapping[str, int]) -> int:
    if isinstance(atom, Call):
        return FUNCTIONS[atom.function](evaluate(atom.lhs, values), evaluate(atom.rhs, values))
    if atom not in values:
        missing = ", ".join(sorted({*symbols(whole)} - values.keys()))
        raise ShapeError(f"the size {whole} needs a value for {missing}")
    return values[atom]
