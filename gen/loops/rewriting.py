"""A copy of loops with other indices, guards and names: what transforms of loops are made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dlvm.ir import Dim
from dlvm.ir.dims import substitute, symbols

from .index import guarded, recombine
from .statements import (
    Bind,
    Body,
    Check,
    Define,
    Inside,
    Let,
    Load,
    Local,
    Loop,
    Memory,
    Product,
    Scalar,
    Search,
    Size,
    Sort,
    Statement,
    Store,
    Where,
    Word,
)


class Rewriting:
    """Indices in ``values`` become those; what touches memory does so only ``where`` as well.

    Arrays that are declared in what is copied are each turn's own, and need no guard.
    """

    def __init__(self, values: Mapping[str, Dim], where: Where = ()) -> None:
        self.values = values
        self.where = where
        self._scalars: dict[Scalar, Scalar] = {}
        self._own: set[str] = set()

    def body(self, body: Sequence[Statement]) -> Body:
        """The copy of some statements."""
        return tuple(map(self.statement, body))

    def statement(self, s: Statement) -> Statement:
        """The copy of one statement."""
        match s:
            case Let(scalar):
                found = self._scalars[scalar] = self._made(scalar)
                return replace(s, scalar=found)
            case Store():
                where = self._touched(s.memory, s.where)
                x = self._scalar(s.scalar)
                return replace(s, offset=self.dim(s.offset), scalar=x, where=where)
            case Define():
                guard = self._guard(s.where)
                return replace(s, dim=self.dim(s.dim), high=self.dim(s.high), where=guard)
            case Bind():
                return replace(s, scalar=self._scalar(s.scalar), high=self.dim(s.high))
            case Check():
                ok, index = self._scalar(s.ok), self._scalar(s.index)
                guard = self._guard(s.where)
                return replace(s, ok=ok, index=index, size=self.dim(s.size), where=guard)
            case Loop():
                return replace(s, extent=self.dim(s.extent), body=self.body(s.body))
            case Product():
                return self._product(s)
            case Sort():
                offset, count = self.dim(s.offset), self.dim(s.count)
                return replace(s, offset=offset, count=count, where=self._guard(s.where))
            case Local(name):
                self._own.add(name)
                return s
            case _:
                return s

    def dim(self, d: Dim) -> Dim:
        """An index in its new form."""
        if any(name in self.values for name in symbols(d)):
            return recombine(substitute(d, self.values))
        return d

    def _guard(self, where: Where) -> Where:
        return guarded(self.where, *map(self.dim, where))

    def _touched(self, memory: Memory, where: Where) -> Where:
        """The guard of an access."""
        return tuple(map(self.dim, where)) if memory.name in self._own else self._guard(where)

    def _scalar(self, x: Scalar) -> Scalar:
        return self._scalars.get(x, x)

    def _made(self, x: Scalar) -> Scalar:
        match x:
            case Size(dim):
                return Size(self.dim(dim))
            case Inside(where):
                return Inside(tuple(map(self.dim, where)))
            case Load():
                where = self._touched(x.memory, x.where)
                return replace(x, offset=self.dim(x.offset), where=where)
            case Search():
                offset, count = self.dim(x.offset), self.dim(x.count)
                key, where = self._scalar(x.key), self._guard(x.where)
                return replace(x, offset=offset, count=count, key=key, where=where)
            case Word():
                return replace(x, operands=tuple(map(self._scalar, x.operands)))
            case _:
                return x

    def _product(self, s: Product) -> Product:
        x, y = (replace(o, offset=self.dim(o.offset), step=self.dim(o.step)) for o in (s.x, s.y))
        m, n, k = map(self.dim, (s.m, s.n, s.k))
        return replace(s, x=x, y=y, m=m, n=n, k=k, body=self.body(s.body))
