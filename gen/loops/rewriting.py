"""A copy of loops with other indices, guards and names: what transforms of loops are made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from dlvm.ir import Dim
from dlvm.ir.sizes.dims import substitute, symbol, symbols
from dlvm.ir.sizes.positions import recombine

from .index import guarded
from .statements import (
    Bind,
    Body,
    Buffer,
    Check,
    Define,
    Fill,
    Inside,
    Let,
    Load,
    Local,
    Loop,
    Memory,
    Operand,
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

    Arrays that are declared in what is copied are each turn's own, and need no guard. With a
    ``suffix`` the copy can stand beside what it is a copy of: it has names and scalars of its own.
    In place of some arrays the copy has other ``arrays``, which are each turn's own as well.
    """

    def __init__(
        self,
        values: Mapping[str, Dim],
        where: Where = (),
        suffix: str = "",
        arrays: Mapping[str, Local] | None = None,
    ) -> None:
        self.values = dict(values)
        self.where = where
        self.suffix = suffix
        self._scalars: dict[Scalar, Scalar] = {}
        self._own: dict[str, Local] = dict(arrays or {})

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
                memory, where = self._memory(s.memory), self._touched(s.memory, s.where)
                x, offset = self._scalar(s.scalar), self.dim(s.offset)
                return Store(cast(Buffer | Local, memory), offset, x, where)
            case Define():
                dim, high, guard = self.dim(s.dim), self.dim(s.high), self._guard(s.where)
                return Define(self._named(s.name), dim, high, guard)
            case Bind():
                x, high = self._scalar(s.scalar), self.dim(s.high)
                return Bind(self._named(s.name), x, high)
            case Check():
                ok, index = self._scalar(s.ok), self._scalar(s.index)
                guard = self._guard(s.where)
                return replace(s, ok=ok, index=index, size=self.dim(s.size), where=guard)
            case Loop():
                extent, name = self.dim(s.extent), self._named(s.var)
                return replace(s, var=name, extent=extent, body=self.body(s.body))
            case Product():
                return self._product(s)
            case Fill():
                return self._fill(s)
            case Sort():
                offset, count = self.dim(s.offset), self.dim(s.count)
                return replace(s, offset=offset, count=count, where=self._guard(s.where))
            case Local():
                return self._declared(s)
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

    def _named(self, name: str) -> str:
        """The name of an index in the copy, also for what comes after it."""
        if self.suffix:
            self.values[name] = symbol(f"{name}{self.suffix}")
        return f"{name}{self.suffix}"

    def _memory(self, memory: Memory) -> Memory:
        return self._own.get(memory.name, memory)

    def _scalar(self, x: Scalar) -> Scalar:
        return self._scalars.get(x, x)

    def _made(self, x: Scalar) -> Scalar:
        match x:
            case Size(dim):
                return Size(self.dim(dim))
            case Inside(where):
                return Inside(tuple(map(self.dim, where)))
            case Load():
                memory, where = self._memory(x.memory), self._touched(x.memory, x.where)
                return Load(x.dtype, memory, self.dim(x.offset), where)
            case Search():
                offset, count = self.dim(x.offset), self.dim(x.count)
                key, where = self._scalar(x.key), self._guard(x.where)
                return replace(x, offset=offset, count=count, key=key, where=where)
            case Word():
                return replace(x, operands=tuple(map(self._scalar, x.operands)))
            case _:
                return replace(x) if self.suffix else x

    def _product(self, s: Product) -> Product:
        m, n, k = map(self.dim, (s.m, s.n, s.k))
        spot = tuple(map(self._named, s.spot))
        tile = self._declared(s.tile)
        body = self.body(s.body)  # which declares the pieces of operands
        x, y = map(self._operand, (s.x, s.y))
        return Product(x, y, m, n, k, s.chunk, tile, s.width, spot, body)

    def _operand(self, x: Operand) -> Operand:
        memory = cast(Buffer | Local, self._memory(x.buffer))
        return replace(x, buffer=memory, offset=self.dim(x.offset), step=self.dim(x.step))

    def _declared(self, local: Local) -> Local:
        self._own[local.name] = found = replace(local, name=f"{local.name}{self.suffix}")
        return found

    def _fill(self, s: Fill) -> Fill:
        piece, spot = self._declared(s.piece), tuple(map(self._named, s.spot))
        return Fill(piece, s.unit, spot, self.body(s.body))


def renamed(body: Body, names: Mapping[Scalar, Scalar]) -> Body:
    """The same statements on other scalars, and on what is computed of them."""
    return _renamed(body, {**names})


def _renamed(body: Body, new: dict[Scalar, Scalar]) -> Body:
    done: list[Statement] = []
    for s in body:
        match s:
            case Let(scalar):
                if isinstance(scalar, Word) and any(x in new for x in scalar.operands):
                    operands = tuple(new.get(x, x) for x in scalar.operands)
                    new.setdefault(scalar, replace(scalar, operands=operands))
                s = replace(s, scalar=new.get(scalar, scalar))
            case Store() | Bind():
                s = replace(s, scalar=new.get(s.scalar, s.scalar))
            case Check():
                s = replace(s, ok=new.get(s.ok, s.ok), index=new.get(s.index, s.index))
            case Loop() | Product() | Fill():
                s = replace(s, body=_renamed(s.body, new))
            case _:
                pass
        done.append(s)
    return tuple(done)
