"""Sizes and indices as integer instructions, each as far outside of the loops as its symbols allow.

LLVM runs no pass here that would move code out of loops, so a polynomial is summed from the
outermost loop inwards and each part is written at the head of the scope where it is known. In a
vector, the lane of the loop variable makes an index one of three: the same in all lanes,
linear in the lane with a known stride, or a vector of its own.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.index import step_of
from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import (
    Atom,
    Call,
    Monomial,
    at_least,
    canonical,
    floordiv,
    names_of,
    substitute,
    symbol,
    symbols,
)

from .access import vector
from .indices import as_number
from .lanes import splat_text
from .module import FunctionWriter, Lines, hidden

HIDDEN = symbol("%hidden")


@dataclass(slots=True)
class Scope:
    """A stretch of code: its head, the symbols it defines, and the indices known in it.

    Symbols that are ``late`` are defined after the head; each has a place of its own, just
    after its definition.
    """

    head: Lines
    names: dict[str, str] = field(default_factory=dict[str, str])
    late: dict[str, Lines] = field(default_factory=dict[str, Lines])
    values: dict[Dim, str] = field(default_factory=dict[Dim, str])
    masks: dict[tuple[Dim, int], tuple[str, str]] = field(
        default_factory=dict[tuple[Dim, int], tuple[str, str]]
    )
    wide: dict[Dim, str] = field(default_factory=dict[Dim, str])


@dataclass(slots=True)
class Vector:
    """The vector loop that is open: its variable, the index of lane 0, and which lanes run.

    ``access`` are the same lanes, for memory; ``bound`` are the symbols that have a value of their
    own in each lane.
    """

    var: str
    start: Dim
    lanes: int
    mask: str | None
    access: str | None
    bound: dict[str, str] = field(default_factory=dict[str, str])


class Offsets:
    """Writes indices; ``defined`` are other names for some."""

    def __init__(self, w: FunctionWriter) -> None:
        self.w, self.type = w, w.text.index
        self.scopes = [Scope(w.head)]
        self.defined: dict[str, Dim] = {}
        self.vector: Vector | None = None

    @contextmanager
    def scope(self, head: Lines | None = None) -> Generator[Scope]:
        """Code from here on, or from this head."""
        if head is None:
            head = []
            self.w.lines.append(head)
        self.scopes.append(Scope(head))
        yield self.scopes[-1]
        self.scopes.pop()

    def known(self, d: Dim) -> Dim:
        """An index without the names that are defined as others."""
        while isinstance(d, Expr) and any(s in self.defined for s in symbols(d)):
            d = substitute(d, self.defined)
        return d

    # -- how an index depends on the lane ---------------------------------------------------

    def varies(self, d: Dim) -> bool:
        """Whether it differs from lane to lane."""
        v = self.vector
        return v is not None and any(s == v.var or s in v.bound for s in symbols(d))

    def stride(self, d: Dim) -> Dim | None:
        """What it grows by from lane to lane, where that is the same for all."""
        v = self.vector
        if v is None or not self.varies(d):
            return 0
        step = step_of(d, v.var)
        if step is None or self.varies(step) or any(s in v.bound for s in symbols(d)):
            return None
        return step

    def positions(self, d: Dim, v: Vector) -> list[int]:
        """The value in each lane of a loop that is written out."""
        found = [substitute(d, {v.var: v.start + i}) for i in range(v.lanes)]
        known = [i for i in found if isinstance(i, int)]
        if len(known) < v.lanes:
            raise CompilerError(f"an array of a kernel's own is read at {d}, which is not known")
        return known

    def first(self, d: Dim) -> str:
        """The value in lane 0."""
        return self.index(d if self.vector is None else self._at_start(d, self.vector))

    def _at_start(self, d: Dim, v: Vector) -> Dim:
        return substitute(d, {v.var: v.start}) if v.var in symbols(d) else d

    # -- one value -------------------------------------------------------------------------

    def index(self, d: Dim) -> str:
        """An index that is the same in all lanes."""
        if not isinstance(d, Expr):
            return str(d)
        for scope in reversed(self.scopes):
            if (found := scope.values.get(d)) is not None:
                return found
        depths = [self._depth(n for a, _ in mono for n in names_of(a)) for mono, _ in d.terms]
        depth = max(depths)
        scope, into = self._place(d, depth)
        parts = [*zip(d.terms, depths, strict=True)]
        outer = canonical({mono: k for (mono, k), at in parts if at < depth})
        total = self.index(outer) if outer != 0 else ""
        for mono, k in (term for term, at in parts if at == depth):
            term = self._term(mono, k, into)
            total = self.w.value(f"add nsw {self.type} {total}, {term}", into) if total else term
        scope.values[d] = total
        return total

    def _depth(self, names: Iterable[str]) -> int:
        """How deep the scope is in which the last of these symbols is defined."""
        return max(map(self._depth_of, names), default=0)

    def _depth_of(self, name: str) -> int:
        inner = range(len(self.scopes) - 1, 0, -1)
        return next((i for i in inner if name in self.scopes[i].names), 0)

    def _place(self, d: Dim, depth: int) -> tuple[Scope, Lines]:
        """The scope in which an index belongs, and where in it: once its symbols are there."""
        scope, names = self.scopes[depth], set(symbols(d))
        after = [place for name, place in scope.late.items() if name in names]
        return scope, after[-1] if after else scope.head

    def define_late(self, name: str, value: str) -> None:
        """A symbol that has a value from here on."""
        place: Lines = []
        scope = self.scopes[-1]
        self.w.lines.append(place)
        scope.names[name] = value
        scope.late[name] = place

    def _term(self, mono: Monomial, k: int, into: Lines) -> str:
        total = "" if k == 1 and mono else str(k)
        for atom, power in mono:
            for _ in range(power):
                factor = self.atom(atom)
                total = (
                    self.w.value(f"mul nsw {self.type} {total}, {factor}", into)
                    if total
                    else factor
                )
        return total

    def atom(self, atom: Atom) -> str:
        """A symbol, or a function of sizes, as an index."""
        if isinstance(atom, str):
            return next(s.names[atom] for s in reversed(self.scopes) if atom in s.names)
        alone = Expr(((((atom, 1),), 1),))
        scope, into = self._place(alone, self._depth(names_of(atom)))
        if (found := scope.values.get(alone)) is None:
            found = scope.values[alone] = self._call(atom, into)
        return found

    def _call(self, call: Call, into: Lines) -> str:
        """A rest of an open size is what its quotient leaves, which is mostly wanted as well."""
        a, b = self.index(call.lhs), self.index(call.rhs)
        if call.function != "mod" or isinstance(call.rhs, int):
            return divided(self.w, call, a, b, self.type, 1, into)
        quotient = self.index(floordiv(call.lhs, call.rhs))
        times = self.w.value(f"mul nsw {self.type} {quotient}, {b}", into)
        rest = self.w.value(f"sub nsw {self.type} {a}, {times}", into)
        if at_least(call.rhs, 1):
            return rest
        none = self.w.value(f"icmp eq {self.type} {b}, 0", into)
        return self.w.value(f"select i1 {none}, {self.type} 0, {self.type} {rest}", into)

    # -- one value for each lane -----------------------------------------------------------

    def each(self, d: Dim) -> str:
        """The value in every lane, as a vector."""
        v = self.vector
        if v is None:
            return self.index(d)
        memo = self.scopes[-1].wide
        if d not in memo:
            memo[d] = self._each(d, v)
        return memo[d]

    def _each(self, d: Dim, v: Vector) -> str:
        wide = vector("i64", v.lanes)
        step = self.stride(d)
        if step is None:
            return self._sum_of_lanes(d, wide, v)
        first = splat_text(self.w, "i64", self.first(d), v.lanes)
        if step == 0 or v.lanes == 1:
            return first
        counting = f"<{', '.join(f'i64 {i}' for i in range(v.lanes))}>"
        if step != 1:
            steps = splat_text(self.w, "i64", self.index(step), v.lanes)
            counting = self.w.value(f"mul {wide} {steps}, {counting}")
        return self.w.value(f"add {wide} {first}, {counting}")

    def _sum_of_lanes(self, d: Dim, wide: str, v: Vector) -> str:
        total = ""
        for mono, k in d.terms if isinstance(d, Expr) else ():
            term = splat_text(self.w, "i64", str(k), v.lanes)
            for atom, power in mono:
                for _ in range(power):
                    factor = self._atom_of_lanes(atom, v)
                    term = self.w.value(f"mul {wide} {term}, {factor}")
            total = self.w.value(f"add {wide} {total}, {term}") if total else term
        return total

    def _atom_of_lanes(self, atom: Atom, v: Vector) -> str:
        if isinstance(atom, str):
            return v.bound[atom] if atom in v.bound else self.each(symbol(atom))
        a, b = self.each(atom.lhs), self.each(atom.rhs)
        return divided(self.w, atom, a, b, vector("i64", v.lanes), v.lanes, None)

    def holds(self, where: tuple[Dim, ...]) -> str | None:
        """Whether all of these are >= 0, and the lane runs; None where that is certain."""
        return self._all(where, None if self.vector is None else self.vector.mask, "0")

    def reaches(self, where: tuple[Dim, ...]) -> str | None:
        """The same, for an access to memory."""
        if self.vector is None:
            return self.holds(where)
        return self._all(where, self.vector.access, self.zero() if where else "0")

    def zero(self) -> str:
        """A zero for the masks of accesses, which LLVM does not see through."""
        if not self.w.text.hides_masks:
            return "0"
        scope = self.scopes[0]
        if HIDDEN not in scope.values:
            scope.values[HIDDEN] = hidden(self.w, "0", scope.head)
        return scope.values[HIDDEN]

    def masks(self, rest: Dim, lanes: int) -> tuple[str, str]:
        """The first lanes, as many as are left, written where that is known.

        One is for what is chosen, one for memory.
        """
        left = self.first(rest)
        scope, into = self._place(rest, self._depth(symbols(rest)))
        if (rest, lanes) not in scope.masks:
            scope.masks[rest, lanes] = self._masks(rest, left, lanes, into)
        return scope.masks[rest, lanes]

    def _masks(self, rest: Dim, left: str, lanes: int, into: Lines) -> tuple[str, str]:
        hides = self.w.text.hides_masks
        if isinstance(rest, int):
            known = f"<{', '.join('i1 true' if i < rest else 'i1 false' for i in range(lanes))}>"
            return known, self._some(rest, lanes, into) if hides else known
        few = self.w.value(f"trunc i64 {left} to i32", into)  # half a register to compare
        mask = self._below(few, lanes, into)
        return mask, self._some(left, lanes, into) if hides else mask

    def _some(self, count: int | str, lanes: int, into: Lines) -> str:
        """The first lanes, as LLVM does not know them."""
        if isinstance(count, int) and lanes <= 64:
            word = self.w.value(f"add i64 {self.zero()}, {(1 << count) - 1}", into)
            bits = self.w.value(f"trunc i64 {word} to i{lanes}", into) if lanes < 64 else word
            return self.w.value(f"bitcast i{lanes} {bits} to {vector('i1', lanes)}", into)
        left = self.w.value(f"add i64 {self.zero()}, {count}", into)
        return self._below(self.w.value(f"trunc i64 {left} to i32", into), lanes, into)

    def _below(self, count: str, lanes: int, into: Lines) -> str:
        counting = f"<{', '.join(f'i32 {i}' for i in range(lanes))}>"
        every = splat_text(self.w, "i32", count, lanes, into)
        return self.w.value(f"icmp slt {vector('i32', lanes)} {counting}, {every}", into)

    def _all(self, where: tuple[Dim, ...], found: str | None, least: str) -> str | None:
        lanes = 1 if self.vector is None else self.vector.lanes
        truth, wide = vector("i1", lanes), vector(self.type, lanes)
        zero = splat_text(self.w, self.type, least, lanes)
        for d in map(self.known, where):
            one = self.w.value(f"icmp sge {wide} {self.each(d)}, {zero}")
            found = one if found is None else self.w.value(f"and {truth} {found}, {one}")
        return found


def number_of(offsets: Offsets, d: Dim) -> str:
    """An index or a size as a number of i64, which may be larger than any index."""
    w = offsets.w
    if not isinstance(d, Expr) or offsets.type == "i64":
        return offsets.first(d)
    total = ""
    for mono, k in d.terms:
        term = str(k)
        for atom, power in mono:
            for _ in range(power):
                term = w.value(f"mul i64 {term}, {_number_of_atom(offsets, atom)}")
        total = w.value(f"add i64 {total}, {term}") if total else term
    return total


def _number_of_atom(offsets: Offsets, atom: Atom) -> str:
    if isinstance(atom, str):
        return as_number(offsets.w, offsets.atom(atom))
    a, b = number_of(offsets, atom.lhs), number_of(offsets, atom.rhs)
    return divided(offsets.w, atom, a, b, "i64", 1, None)


class _Division:
    """Instructions for the functions that have no polynomial form, on scalars or vectors."""

    def __init__(self, w: FunctionWriter, type_: str, lanes: int, into: Lines | None) -> None:
        self.w, self.type, self.lanes, self.into = w, type_, lanes, into
        self.truth = vector("i1", lanes)
        self.bits = int(type_.rstrip(">").rpartition("i")[2])

    def do(self, op: str, a: str, b: str) -> str:
        return self.w.value(f"{op} {self.type} {a}, {b}", self.into)

    def constant(self, n: int) -> str:
        return splat_text(self.w, f"i{self.bits}", str(n), self.lanes)

    def select(self, condition: str, x: str, y: str) -> str:
        line = f"select {self.truth} {condition}, {self.type} {x}, {self.type} {y}"
        return self.w.value(line, self.into)

    def by_power(self, call: Call, a: str, divisor: int) -> str:
        """Shifting rounds down, so the sign needs no care. Few divisors exceed all indices."""
        places = (divisor - 1).bit_length()
        if call.function == "floordiv":
            return self.do("ashr", a, self.constant(min(places, self.bits - 1)))
        return self.do("and", a, self.constant(divisor - 1 if places < self.bits else -1))

    def within(self, x: str) -> str:
        """A known bound that no index reaches, as the last one that an index may be."""
        most = (1 << (self.bits - 1)) - 1
        return str(min(int(x), most)) if x.isdecimal() else x

    def guarded(self, call: Call, a: str, b: str) -> str:
        """By 1 in place of 0, where the result is 0."""
        if at_least(call.rhs, 1):
            return self.whole(call, a, b)
        none = self.do("icmp eq", b, self.constant(0))
        found = self.whole(call, a, self.select(none, self.constant(1), b))
        return self.select(none, self.constant(0), found)

    def whole(self, call: Call, a: str, b: str) -> str:
        """Rounded down; divisors are positive."""
        quotient = call.function == "floordiv"
        if at_least(call.lhs, 0):
            return self.do("udiv" if quotient else "urem", a, b)
        rest = self.do("srem", a, b)
        below = self.do("icmp slt", rest, self.constant(0))
        if not quotient:
            return self.select(below, self.do("add", rest, b), rest)
        found = self.do("sdiv", a, b)
        return self.select(below, self.do("sub", found, self.constant(1)), found)


def divided(
    w: FunctionWriter, call: Call, a: str, b: str, type_: str, lanes: int, into: Lines | None
) -> str:
    """``floordiv``, ``mod``, ``min`` or ``max``; by zero, 0."""
    by = _Division(w, type_, lanes, into)
    if call.function in ("min", "max"):
        relation, a, b = "slt" if call.function == "min" else "sgt", by.within(a), by.within(b)
        return by.select(by.do(f"icmp {relation}", a, b), a, b)
    divisor = call.rhs
    if isinstance(divisor, int) and divisor > 0:
        beyond = divisor >> (by.bits - 1) > 0
        if beyond or divisor & (divisor - 1) == 0:
            return by.by_power(call, a, divisor)
    return by.guarded(call, a, b)
