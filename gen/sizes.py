"""Sizes as machine code: a polynomial of ``dlvm.ir.dims`` becomes i64 instructions."""

from __future__ import annotations

from collections.abc import Mapping

from dlvm.ir import Dim
from dlvm.ir.dims import Atom, Call

from .emit import Lines, Writer


def emit_size(w: Writer, dim: Dim, names: Mapping[str, str], into: Lines | None = None) -> str:
    """The value of a size, from the values of its symbols."""
    if isinstance(dim, int):
        return str(dim)
    total: str | None = None
    for monomial, factor in dim.terms:
        term: str | None = None if factor == 1 and monomial else str(factor)
        for atom, power in monomial:
            value = _atom(w, atom, names, into)
            for _ in range(power):
                term = value if term is None else w.value(f"mul i64 {term}, {value}", into)
        assert term is not None
        total = term if total is None else w.value(f"add i64 {total}, {term}", into)
    assert total is not None
    return total


def _atom(w: Writer, atom: Atom, names: Mapping[str, str], into: Lines | None) -> str:
    if isinstance(atom, str):
        return names[atom]
    x, y = emit_size(w, atom.lhs, names, into), emit_size(w, atom.rhs, names, into)
    match atom.function:
        case "min" | "max":
            less = w.value(f"icmp slt i64 {x}, {y}", into)
            first, second = (x, y) if atom.function == "min" else (y, x)
            return w.value(f"select i1 {less}, i64 {first}, i64 {second}", into)
        case _:
            return _divided(w, atom, x, y, into)


def _divided(w: Writer, atom: Call, x: str, y: str, into: Lines | None) -> str:
    """Quotient or remainder rounded down; by zero both are 0, as in ``dims``."""
    zero = w.value(f"icmp eq i64 {y}, 0", into)
    divisor = w.value(f"select i1 {zero}, i64 1, i64 {y}", into)
    rest = w.value(f"srem i64 {x}, {divisor}", into)
    inexact = w.value(f"icmp ne i64 {rest}, 0", into)
    signs = w.value(f"xor i64 {rest}, {divisor}", into)
    across = w.value(f"icmp slt i64 {signs}, 0", into)
    down = w.value(f"and i1 {inexact}, {across}", into)
    if atom.function == "floordiv":
        quotient = w.value(f"sdiv i64 {x}, {divisor}", into)
        less = w.value(f"sext i1 {down} to i64", into)
        found = w.value(f"add i64 {quotient}, {less}", into)
    else:
        more = w.value(f"select i1 {down}, i64 {divisor}, i64 0", into)
        found = w.value(f"add i64 {rest}, {more}", into)
    return w.value(f"select i1 {zero}, i64 0, i64 {found}", into)
