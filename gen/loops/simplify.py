"""Loops without what their own ranges decide: guards that always hold, elements never read.

A select between what is read here and what is read elsewhere becomes the one of the two that it
is, and what nobody uses then is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm.ir import BOOL
from dlvm.ir.sizes.dims import symbols

from .index import guarded
from .proofs import Facts
from .rewriting import Rewriting
from .statements import (
    Bind,
    Body,
    Check,
    Define,
    Fill,
    Inside,
    Let,
    Load,
    Loop,
    Nested,
    Number,
    Product,
    Scalar,
    Size,
    Statement,
    Store,
    Where,
    Word,
    dims,
    scalars,
)


def simplified(body: Body) -> Body:
    """The same loops: what is decided is decided, and what nobody uses is gone."""
    return used(_Simplifier().body(body, Facts()))


class _Simplifier:
    """``new`` holds the scalars that others took the place of."""

    def __init__(self) -> None:
        self.new: dict[Scalar, Scalar] = {}
        self.there: set[Scalar] = set()

    def body(self, body: Sequence[Statement], facts: Facts) -> Body:
        """Statements in order, which may name indices for those after them."""
        done: list[Statement] = []
        for s in body:
            done += self.statement(s, facts)
            if isinstance(s, Define | Bind):
                facts = facts.with_variable(s.name, s.high)
        return tuple(done)

    def statement(self, s: Statement, facts: Facts) -> Body:
        """The statements that replace one."""
        match s:
            case Let(scalar):
                found = self.scalar(scalar, facts)
                if found is scalar:
                    return (self.computed(s),)
                self.new[scalar] = found
                return () if found in self.there else (self.computed(replace(s, scalar=found)),)
            case Store(where=where) | Check(where=where):
                left = _left(where, facts)
                return () if left is None else (self.renamed(replace(s, where=left)),)
            case Bind():
                return (self.renamed(s),)
            case Loop():
                return self.loop(s, facts)
            case Product() | Fill():
                return (replace(s, body=self.body(s.body, facts)),)
            case _:
                return (s,)

    def computed(self, s: Let) -> Let:
        """A statement that computes a scalar, which others may use from here on."""
        self.there.add(s.scalar)
        return s

    def renamed(self, s: Store | Check | Bind) -> Statement:
        """A statement that uses the scalars that are there now."""
        if isinstance(s, Check):
            return replace(s, ok=self.now(s.ok), index=self.now(s.index))
        return replace(s, scalar=self.now(s.scalar))

    def now(self, x: Scalar) -> Scalar:
        """The scalar that took the place of one."""
        while x in self.new:
            x = self.new[x]
        return x

    def loop(self, s: Loop, facts: Facts) -> Body:
        """A loop that turns once is no loop; one that never does leaves nothing."""
        if s.extent == 0:
            return ()
        if s.extent == 1 and s.grain == 0 and s.kind in ("parallel", "serial"):
            return self.body(Rewriting({s.var: 0}).body(s.body), facts)
        inner = facts.with_variable(s.var, s.extent - 1, s.extent - 1)
        before, body = _hoisted(self.body(s.body, inner), s.var)
        return (*before, replace(s, body=body))

    def scalar(self, x: Scalar, facts: Facts) -> Scalar:
        """A scalar under what is known here."""
        match x:
            case Inside(where):
                left = _left(where, facts)
                if not left:
                    return Number(BOOL, left is not None)
                return x if left == where else Inside(left)
            case Load(dtype, _, _, where) if where:
                left = _left(where, facts)
                if left is None:
                    return Number(dtype, False if dtype is BOOL else 0)
                return x if left == where else replace(x, where=left)
            case Word(_, "select", (condition, yes, no)):
                known = self.now(condition)
                if isinstance(known, Number):
                    return self.now(yes if known.value else no)
                return self.word(x)
            case Word():
                return self.word(x)
            case _:
                return x

    def word(self, x: Word) -> Scalar:
        """A word of the scalars that are there now."""
        operands = tuple(map(self.now, x.operands))
        return x if operands == x.operands else replace(x, operands=operands)


def _hoisted(body: Body, var: str) -> tuple[Body, Body]:
    """What a loop computes alike in every turn, before it, and the rest."""
    before: list[Statement] = []
    rest: list[Statement] = []
    own: set[Scalar] = set()
    names = {var}
    for s in body:
        varies = not isinstance(s, Let) or not isinstance(s.scalar, Word | Number | Size | Inside)
        varies = varies or not own.isdisjoint(scalars(s))
        varies = varies or any(not names.isdisjoint(symbols(d)) for d in dims(s))
        (rest if varies else before).append(s)
        if varies and isinstance(s, Let):
            own.add(s.scalar)
        if isinstance(s, Define | Bind):
            names.add(s.name)
    return tuple(before), tuple(rest)


def _left(where: Where, facts: Facts) -> Where | None:
    """The conditions that are not known to hold; None if one is known never to."""
    if any(facts.nonnegative(-1 - d) for d in where):
        return None
    return guarded((), *(d for d in where if not facts.nonnegative(d)))


def used(body: Body) -> Body:
    """The body without scalars and indices that nothing uses, and loops that do nothing."""
    return _used(body, set(), set())


def _used(body: Body, needed: set[Scalar], names: set[str]) -> Body:
    kept: list[Statement] = []
    for s in reversed(body):
        if isinstance(s, Nested):
            s = replace(s, body=_used(s.body, needed, names))
        idle = isinstance(s, Let) and s.scalar not in needed
        idle = idle or (isinstance(s, Loop) and not s.body)
        if idle or (isinstance(s, Bind | Define) and s.name not in names):
            continue
        needed.update(scalars(s))
        names.update(n for d in dims(s) for n in symbols(d))
        kept.append(s)
    return tuple(reversed(kept))
