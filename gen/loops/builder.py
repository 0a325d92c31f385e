"""Building a kernel body: open loops, and scalars that are computed once, as far out as can be.

A ``Nest`` is a stack of open scopes. A pure scalar goes to the outermost scope in which its
operands and index symbols exist, and is found there again; reads of memory that the kernel
writes stay where they are asked for. ``LoopScalars`` gives the scalar words their meaning here.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import numpy as np

from dlvm.base.errors import CompilerError
from dlvm.ir import BOOL, I64, Dim, DType, Expr, TensorType, Value
from dlvm.ir.scalar import BINARY, UNARY
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ir.sizes.positions import Index

from .proofs import Facts
from .statements import (
    Bind,
    Buffer,
    Check,
    Define,
    Inside,
    Kind,
    Let,
    Load,
    Local,
    Loop,
    Memory,
    Number,
    Scalar,
    Search,
    Size,
    Statement,
    Store,
    Table,
    Where,
    Word,
)


@dataclass(frozen=True, slots=True)
class At:
    """An index into a value, asked for only where all of ``where`` are >= 0."""

    index: Index
    where: Where = ()


@dataclass(slots=True)
class Scope:
    """An open loop: what it defines, holds and has computed; ``closed`` ones let nothing out."""

    names: set[str]
    closed: bool = False
    highest: dict[str, Dim] = field(default_factory=dict[str, Dim])
    body: list[Statement] = field(default_factory=list[Statement])
    shared: dict[Hashable, Scalar] = field(default_factory=dict[Hashable, Scalar])
    elements: dict[tuple[Value, At], tuple[Scalar, ...]] = field(
        default_factory=dict[tuple[Value, At], tuple[Scalar, ...]]
    )


class Nest:
    """The scopes that are open, outermost first."""

    def __init__(self) -> None:
        self.scopes = [Scope(set())]
        self.counting = True
        self.scratch: list[Buffer] = []
        self._home: dict[Scalar, int] = {}
        self._bound: dict[tuple[Scalar, Dim], Dim] = {}
        self._names = 0

    # -- scopes ----------------------------------------------------------------------------

    def fresh(self, hint: str) -> str:
        """A name that is not used yet."""
        self._names += 1
        return f"{hint}{self._names}"

    def put(self, statement: Statement) -> None:
        """Write a statement here."""
        self.scopes[-1].body.append(statement)

    def include(self, body: Sequence[Statement]) -> None:
        """Write statements that were made elsewhere, whose scalars may be used from here on."""
        for s in body:
            self.put(s)
            if isinstance(s, Let):
                self._home[s.scalar] = len(self.scopes) - 1

    @contextmanager
    def scope(self, *names: str, closed: bool = False) -> Generator[list[Statement]]:
        """Open a scope and give its statements; the caller puts them somewhere."""
        opened = Scope(set(names), closed)
        self.scopes.append(opened)
        yield opened.body
        self.scopes.pop()
        for statement in opened.body:
            if isinstance(statement, Let):
                del self._home[statement.scalar]

    @contextmanager
    def loop(
        self,
        kind: Kind,
        extent: Dim,
        hint: str = "i",
        limit: int | None = None,
        width: int = 0,
        counts: Dim | None = None,
    ) -> Generator[Dim]:
        """A loop; its index. One that turns once is no loop; one that never does leaves nothing."""
        if extent == 1:
            yield 0
            return
        name = self.fresh(f"%{hint}")
        with self.scope(name) as body:
            self.scopes[-1].highest[name] = extent - 1
            yield symbol(name)
        if extent == 0:
            return
        self.put(Loop(name, extent, kind, tuple(body), limit, width, counts=counts))

    @contextmanager
    def loops(self, shape: Index, axes: Sequence[int], kind: Kind) -> Generator[Index]:
        """A loop for each of these axes."""
        with ExitStack() as stack:
            yield tuple(stack.enter_context(self.loop(kind, shape[a])) for a in axes)

    def local(self, hint: str, dtype: DType, size: int) -> Local:
        """Declare an array."""
        found = Local(self.fresh(hint), dtype, size)
        self.put(found)
        return found

    def room(self, hint: str, dtype: DType, size: Dim) -> Buffer:
        """Memory for what is too large, or lives too long, for an array of the kernel's own."""
        found = Buffer(self.fresh(hint), TensorType(dtype, (size,)), "scratch")
        self.scratch.append(found)
        return found

    def define(self, hint: str, dim: Dim, high: Dim, where: Where = ()) -> Dim:
        """A symbol for an index that lies in ``0..high`` under a guard; a plain one needs none."""
        if not isinstance(dim, Expr) or len(dim.terms) == 1:
            return dim
        name = self.fresh(f"%{hint}")
        self.put(Define(name, dim, high, where))
        self.scopes[-1].names.add(name)
        return symbol(name)

    @contextmanager
    def uncounted(self) -> Generator[None]:
        """What is computed inside serves the order of a fold, not its result."""
        before, self.counting = self.counting, False
        yield
        self.counting = before

    def holds(self, d: Dim) -> bool:
        """Whether ``d >= 0`` in every turn of the loops that are open."""
        return Facts({n: high for s in self.scopes for n, high in s.highest.items()}).nonnegative(d)

    # -- scalars ---------------------------------------------------------------------------

    def pure(
        self, key: Hashable, scalar: Scalar, dims: Sequence[Dim] = (), xs: Sequence[Scalar] = ()
    ) -> Scalar:
        """The scalar that this key names, placed if it is new."""
        depth = max([self._floor(), *map(self._depth, dims), *(self._home[x] for x in xs)])
        scope = self.scopes[depth]
        if (found := scope.shared.get(key)) is not None:
            return found
        scope.shared[key] = scalar
        scope.body.append(Let(scalar, self.counting))
        self._home[scalar] = depth
        return scalar

    def _floor(self) -> int:
        closed = (i for i, s in enumerate(self.scopes) if s.closed)
        return max(closed, default=0)

    def _depth(self, dim: Dim) -> int:
        names = set(symbols(dim))
        deep = (i for i, s in enumerate(self.scopes) if not names.isdisjoint(s.names))
        return max(deep, default=0)

    def size(self, dim: Dim) -> Scalar:
        """The number that a size or index has."""
        return self.pure((Size, dim), Size(dim), (dim,))

    def inside(self, where: Where) -> Scalar:
        """Whether all of these are >= 0."""
        return self.pure((Inside, where), Inside(where), where)

    def load(self, memory: Memory, offset: Dim, where: Where = ()) -> Scalar:
        """An element of memory; what the kernel itself writes is read here and now.

        Memory of no element is never read, and no number may stand outside of the loops that
        would not have read it.
        """
        if memory.size == 0:
            return LoopScalars(self).constant(0, memory.dtype)
        found = Load(memory.dtype, memory, offset, where)
        if isinstance(memory, Table) or (isinstance(memory, Buffer) and memory.role == "in"):
            return self.pure((memory, offset, where), found, (offset, *where))
        self.put(Let(found))
        self._home[found] = len(self.scopes) - 1
        return found

    def search(
        self, memory: Memory, offset: Dim, count: Dim, key: Scalar, right: bool, where: Where
    ) -> Scalar:
        """How many elements of a row in order come before a key."""
        found = Search(I64, memory, offset, count, key, right, where)
        self.put(Let(found))
        self._home[found] = len(self.scopes) - 1
        return found

    def store(self, memory: Buffer | Local, offset: Dim, x: Scalar, where: Where = ()) -> None:
        """Write an element of memory."""
        self.put(Store(memory, offset, x, where))

    def bind(self, hint: str, scalar: Scalar, high: Dim) -> Dim:
        """A scalar that was made to lie in ``0..high`` as an index, where the scalar stands."""
        if (scalar, high) not in self._bound:
            name = self.fresh(f"%{hint}")
            scope = self.scopes[max(self._home[scalar], self._depth(high))]
            scope.body.append(Bind(name, scalar, high))
            scope.names.add(name)
            self._bound[scalar, high] = symbol(name)
        return self._bound[scalar, high]

    def named(self, hint: str, dim: Dim, high: Dim) -> Dim:
        """An index in ``0..high`` that is computed here, once, and is a symbol from here on."""
        return self.bind(hint, self.size(dim), high) if isinstance(dim, Expr) else dim

    def check(
        self, ok: Scalar, index: Scalar, size: Dim, code: int, where: Where, some: Where
    ) -> None:
        """Demand that an index is inside its axis, where these scalars stand.

        Outside of the loops over indices it is asked whether there are ``some``.
        """
        depths = (self._home[ok], self._home[index], *map(self._depth, (size, *where)))
        depth = max(depths)
        where = where if depth == len(self.scopes) - 1 else (*where, *some)
        self.scopes[depth].body.append(Check(ok, index, size, code, where))

    # -- elements --------------------------------------------------------------------------

    def known(self, value: Value, at: At) -> tuple[Scalar, ...] | None:
        """What was computed of a value at an index, there or in more places, in an open scope."""
        weaker = [At(at.index, at.where[:n]) for n in range(len(at.where), -1, -1)]
        for scope in reversed(self.scopes):
            for place in weaker:
                if (found := scope.elements.get((value, place))) is not None:
                    return found
            if scope.closed:
                break
        return None

    def remember(self, value: Value, at: At, scalars: tuple[Scalar, ...]) -> None:
        """Keep what was computed, for as long as it exists."""
        depth = max(self._home[s] for s in scalars)
        self.scopes[max(depth, self._floor())].elements[(value, at)] = scalars


class LoopScalars:
    """The scalar words as loop code; half precision computes in f32 and rounds after each."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest

    def constant(self, number: float | int | bool, dtype: DType) -> Scalar:
        """A number, told apart from others by its bits."""
        exact = np.asarray(number).astype(dtype.numpy)
        plain = float(exact) if dtype.is_float else int(exact)
        found = Number(dtype, bool(plain) if dtype is BOOL else plain)
        return self.nest.pure((Number, dtype, exact.tobytes()), found)

    def dtype(self, x: Scalar) -> DType:
        """The type of a scalar."""
        return x.dtype

    def unary(self, word: str, x: Scalar) -> Scalar:
        """A word of one operand."""
        _in_vocabulary(word, UNARY)
        return self.cast(self._word(word, self.wide(x)), x.dtype)

    def binary(self, word: str, x: Scalar, y: Scalar) -> Scalar:
        """A word of two operands."""
        _in_vocabulary(word, BINARY)
        found = self._word(word, self.wide(x), self.wide(y))
        return found if found.dtype is BOOL else self.cast(found, x.dtype)

    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
        """One of two."""
        return self._word("select", condition, x, y, dtype=x.dtype)

    def cast(self, x: Scalar, dtype: DType) -> Scalar:
        """Another type; none where it is that already."""
        return x if x.dtype == dtype else self._word("cast", x, dtype=dtype)

    def reinterpret(self, x: Scalar, dtype: DType) -> Scalar:
        """The same bits in another type."""
        return self._word("reinterpret", x, dtype=dtype)

    def multiply_add(self, x: Scalar, y: Scalar, z: Scalar) -> Scalar:
        """``x * y + z``, rounded once if these are floats."""
        if x.dtype.is_float:
            return self._word("fma", x, y, z)
        return self.binary("add", self.binary("mul", x, y), z)

    def wide(self, x: Scalar) -> Scalar:
        """A scalar in the type that it is computed in."""
        return self.cast(x, x.dtype.compute)

    def _word(self, word: str, *xs: Scalar, dtype: DType | None = None) -> Scalar:
        compares = word in ("lt", "le", "eq", "ne")
        result = dtype or (BOOL if compares else xs[0].dtype)
        return self.nest.pure((word, result, *xs), Word(result, word, xs), xs=xs)


def _in_vocabulary(word: str, words: Mapping[str, str]) -> None:
    if word not in words:
        raise CompilerError(f"{word!r} is no scalar word; there are {', '.join(words)}")
