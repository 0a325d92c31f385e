"""Whether an offset is another one in each turn of some loops: the proof that goes by digits.

Each variable must step over all that the variables before it span, as the digits of a number do. A
quotient and its rest are digits of what is divided, and a name for an index stands for what it is
computed of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import (
    Atom,
    Call,
    at_least,
    atoms_of,
    divide_exactly,
    floordiv,
    substitute,
    symbol,
    symbols,
    terms_of,
    with_atoms,
)

from .index import step_of
from .proofs import Facts
from .statements import Define

Digit: TypeAlias = tuple[Dim, Dim]

EASY = 80
"""Steps of a search for a proof that one digit steps over another; of most orders there is none."""


def distinct(offset: Dim, names: Sequence[str], facts: Facts, defines: dict[str, Define]) -> bool:
    """Whether an offset is different for different values of these variables.

    Each variable must step over all that the variables before it span, as digits do; or else
    there is one whose steps span all the rest, and for each value of it the rest is distinct.
    """
    if (digits := _digits(offset, names, facts, defines)) is not None and _stepping(*digits):
        return True
    for name in names:
        step = slope(offset, name)
        rest = offset - step * symbol(name)
        alone = set(symbols(step)).isdisjoint(names)
        if alone and facts.nonnegative(rest) and facts.nonnegative(step - 1 - rest):
            return distinct(rest, [n for n in names if n != name], facts, defines)
    return False


def _behind(offset: Dim, defines: dict[str, Define]) -> set[str]:
    """The variables that names in an offset are defined by."""
    pending, seen = [n for n in symbols(offset) if n in defines], set[str]()
    while pending:
        for n in symbols(defines[pending.pop()].dim):
            if n not in seen:
                seen.add(n)
                pending += [n] if n in defines else []
    return seen


def _parted(offset: Dim, name: str, facts: Facts) -> tuple[Dim, list[str], Facts] | None:
    """The same of the digits of a variable, where quotients and rests of it are asked for."""
    calls = [a for a in atoms_of(offset) if isinstance(a, Call) and name in symbols(a.lhs)]
    ranges = [_range(a, name) for a in calls]
    ends = _chain([1, *(d for r in ranges if r for d in r if d is not None)])
    high = next(iter(facts.upper(name)), None)
    if not calls or None in ranges or ends is None or high is None:
        return None
    names = [f"{name}.digit{k}" for k in range(len(ends))]
    top = divide_exactly(high + 1, ends[-1])
    highs = [n - 1 for n in map(_ratio, ends[1:], ends)]
    highs.append(floordiv(high, ends[-1]) if top is None else top - 1)

    def part(low: Dim, up: Dim | None) -> Dim:
        """The digits from one end to another, as the number that they are."""
        first, last = ends.index(low), len(ends) if up is None else ends.index(up)
        steps = (_ratio(ends[k], low) * symbol(names[k]) for k in range(first, last))
        return sum(steps, start=cast(Dim, 0))

    parts = zip(calls, ranges, strict=True)
    values: dict[Atom, Dim] = {a: part(*r) for a, r in parts if r}
    for digit, most in zip(names, highs, strict=True):
        facts = facts.with_variable(digit, most)
    whole = substitute(with_atoms(offset, values), {name: part(1, None)})
    return whole, names, facts


def _range(call: Call, name: str) -> tuple[Dim, Dim | None] | None:
    """Between which steps the digits lie that a quotient or rest of a variable has."""
    inner = call.lhs
    if call.function == "floordiv" and inner == symbol(name):
        return call.rhs, None
    if call.function != "mod":
        return None
    if inner == symbol(name):
        return 1, call.rhs
    (atom,) = atoms_of(inner) if isinstance(inner, Expr) and len(atoms_of(inner)) == 1 else (None,)
    quotient = isinstance(atom, Call) and atom.function == "floordiv" and atom.lhs == symbol(name)
    if isinstance(atom, Call) and quotient and inner == Expr(((((atom, 1),), 1),)):
        return atom.rhs, atom.rhs * call.rhs
    return None


def _chain(ends: Sequence[Dim]) -> list[Dim] | None:
    """These steps in the order in which each divides the next, if there is one."""
    left = list(dict.fromkeys(ends))
    chain: list[Dim] = []
    while left:
        least = next((d for d in left if all(divide_exactly(e, d) is not None for e in left)), None)
        if least is None:
            return None
        chain.append(least)
        left.remove(least)
    return chain


def _ratio(a: Dim, b: Dim) -> Dim:
    found = divide_exactly(a, b)
    assert found is not None
    return found


def slope(offset: Dim, name: str) -> Dim:
    """What a variable is multiplied by where it stands by itself, not within a call."""
    total: Dim = 0
    for mono, k in offset.terms if isinstance(offset, Expr) else ():
        if (name, 1) in mono:
            others = tuple(pair for pair in mono if pair != (name, 1))
            total = total + (Expr(((others, k),)) if others else k)
    return total


def _stepping(digits: list[Digit], span: Dim, facts: Facts) -> bool:
    """Whether the digits have an order in which each steps over those before."""
    if not digits:
        return True
    return any(
        facts.nonnegative(step - span, EASY)
        and _stepping(digits[:i] + digits[i + 1 :], span + step * high, facts)
        for i, (step, high) in enumerate(digits)
    )


def _digits(
    offset: Dim, names: Sequence[str], facts: Facts, defines: dict[str, Define]
) -> tuple[list[Digit], Dim, Facts] | None:
    """The step and highest value of each variable; those that are always 0 are left out.

    A name for an index stands for the variables in it where these stand in nothing else. A
    quotient and its rest are digits of what is divided.
    """
    digits: list[Digit] = []
    left = set(names)
    gone = set[str]()
    for name, s in reversed(defines.items()):
        behind = _behind(symbol(name), defines)
        covered = left & behind
        if name not in symbols(offset):
            continue
        if not gone.isdisjoint(behind):
            return None
        if not covered:
            continue
        others = [symbol(n) for n in symbols(offset) if n != name]
        elsewhere = {n for d in others for n in (*symbols(d), *_behind(d, defines))}
        before = {n: d for n, d in defines.items() if n != name}
        if covered.isdisjoint(elsewhere) and distinct(s.dim, sorted(covered), facts, before):
            left, gone = (left - covered) | {name}, gone | covered
        else:
            offset = substitute(offset, {name: s.dim})
    for name in sorted(left):
        if (parted := _parted(offset, name, facts)) is not None:
            offset, parts, facts = parted
            left = (left - {name}) | {*parts}
    for name in sorted(left):
        highs = facts.upper(name)
        if any(at_least(0, h) for h in highs):
            continue
        step = step_of(offset, name)
        if step is None or not highs:
            return None
        if not facts.nonnegative(step):
            step = -step
        short = next((h for h in reversed(highs) if not set(symbols(h)) & left), highs[0])
        digits.append((step, short))
    return sorted(digits, key=lambda digit: _degree(digit[0])), 1, facts


def _degree(step: Dim) -> int:
    """How many sizes are multiplied in a step: with more of them it is most likely larger."""
    return max((sum(power for _, power in mono) for mono, _ in terms_of(step)), default=0)
