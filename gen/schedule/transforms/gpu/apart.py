"""The transform ``apart``: what a row folds, and then what it writes, each in blocks of its own.

A block has a row for itself: it folds it, and writes elements that need the result, as a softmax
does. Of few long rows that is a few blocks, and lanes that share columns would each fold the same
one. Here the folds store the numbers that elements need, and any block writes any elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Number,
    Scalar,
    Size,
    Statement,
    Store,
    accesses,
    dims,
    scalars,
    statements,
)
from dlvm.gen.schedule.chunks import inside, rows_of
from dlvm.gen.schedule.transform import OfKernel, register
from dlvm.gen.schedule.transforms.fuse import nested
from dlvm.ir import TensorType
from dlvm.ir.sizes.dims import product, symbol, symbols
from dlvm.ir.sizes.positions import flatten

MOST_ROWS = 256
"""Rows from which on there are blocks enough, one for each."""
LONG = 4096
"""Elements of such a row from which on more than its block should write them."""
SHORT = 32
"""Elements of a column up to which its lane writes them."""
FEWEST = 1 << 14
"""Elements from which on they are worth a launch of their own."""


@register
@dataclass(frozen=True, slots=True)
class Apart(OfKernel):
    """A loop over rows for their folds, and one over all elements for each loop behind these."""

    word: ClassVar[str] = "apart"
    impossible: ClassVar[str] = "none of its rows folds, and then writes many elements"
    makes_memory: ClassVar[bool] = True

    @staticmethod
    def made(body: Body) -> Body | None:
        """The statements with this done, if that can be."""
        numbers = count()
        cut = [_Row.of(s).apart(numbers) if isinstance(s, Loop) else None for s in body]
        if not any(cut):
            return None
        return tuple(t for s, found in zip(body, cut, strict=True) for t in found or (s,))


@dataclass(frozen=True, slots=True)
class _Row:
    """The loops over rows, what is before these writes elements, and the loops that do."""

    chain: Sequence[Loop]
    folds: Body
    writes: Sequence[Loop]

    @staticmethod
    def of(loop: Loop) -> _Row:
        """What lies inside of a loop: folds first, then loops of independent turns."""
        scalars, chain, body = rows_of((loop,))
        ends = (i + 1 for i, s in enumerate(body) if _folds(s))
        end = max(ends, default=0)
        rest = body[end:]
        loops = [s for s in rest if isinstance(s, Loop)]
        plain = tuple(s for s in rest if not isinstance(s, Loop))
        return _Row(chain, (*scalars, *body[:end], *plain) if end else (), loops)

    def apart(self, numbers: Iterator[int]) -> Body | None:
        """The folds, with what they store, and the loops by themselves, if that is better."""
        if not (
            self.folds and self.writes and self._is_free() and all(map(self._many, self.writes))
        ):
            return None
        made = [s.scalar for s in self.folds if isinstance(s, Let)]
        used = {x for w in self.writes for s in statements((w,)) for x in scalars(s)}
        sizes = tuple(s.extent for s in self.chain)
        at = flatten([symbol(s.var) for s in self.chain], sizes)
        again = [Let(x) for x in made if x in used and self._is_anywhere(x)]
        given = [x for x in made if x in used and not self._is_anywhere(x)]
        kept = [
            Buffer(f"apart{next(numbers)}", TensorType(x.dtype, (product(sizes),)), "scratch")
            for x in given
        ]
        stores = [Store(b, at, x) for b, x in zip(kept, given, strict=True)]
        loads: dict[Scalar, Scalar] = {
            x: Load(x.dtype, b, at) for b, x in zip(kept, given, strict=True)
        }
        before = (*again, *map(Let, loads.values()))
        done = list(inside(self.chain, (*self.folds, *stores)))
        for w in self.writes:
            done += self._written(w, before, loads, f".w{next(numbers)}")
        return tuple(done)

    def _written(self, loop: Loop, before: Body, loads: dict[Scalar, Scalar], suffix: str) -> Body:
        """A loop over elements, around that over rows where neighbours lie in these."""
        own = nested(loop)
        between = tuple(t for s in own[:-1] for t in s.body[:-1])
        whole = (*between, *own[-1].body)
        chain = [s for s in self.chain if s.extent != 1]
        values = {s.var: 0 for s in self.chain if s.extent == 1}
        around = [*own, *chain] if self._is_column(loop) else [*chain, *own]
        return Rewriting(values, (), suffix).body(inside(around, (*before, *renamed(whole, loads))))

    def _is_free(self) -> bool:
        """Whether what is written in one part is not read in the other as it was before."""
        inner = [s for w in self.writes for s in statements((w,))]
        plain = all(isinstance(s, Loop | Let | Store | Define) for s in inner)
        whole = all(s.kind == "parallel" and s.limit is None for s in inner if isinstance(s, Loop))
        end = max(i for i, s in enumerate(self.folds) if _folds(s))
        moved = {x.memory for x in accesses(self.folds[end + 1 :]) if isinstance(x.memory, Buffer)}
        touched = [x for w in self.writes for x in accesses((w,))]
        apart = moved.isdisjoint(x.memory for x in touched)
        own = all(isinstance(x.memory, Buffer) for x in touched)
        asked = {n for s in inner for d in dims(s) for n in symbols(d)}
        rows = {s.var for s in self.chain}
        even = all(rows.isdisjoint(symbols(s.extent)) for s in inner if isinstance(s, Loop))
        return plain and whole and apart and own and even and self._named().isdisjoint(asked)

    def _is_anywhere(self, x: Scalar) -> bool:
        """Whether a scalar is known without the folds: a number, or a size of rows alone."""
        plain = isinstance(x, Size) and self._named().isdisjoint(symbols(x.dim))
        return plain or isinstance(x, Number)

    def _named(self) -> set[str]:
        """The indices that are named where rows are folded."""
        return {s.name for s in self.folds if isinstance(s, Bind | Define)}

    def _many(self, loop: Loop) -> bool:
        """Whether there are so many elements that they are worth a launch of their own."""
        rows = product(tuple(s.extent for s in self.chain))
        each = product(tuple(s.extent for s in nested(loop)))
        if not (isinstance(rows, int) and isinstance(each, int) and rows * each >= FEWEST):
            return False
        return each > SHORT if self._is_column(loop) else each > LONG and rows <= MOST_ROWS

    def _is_column(self, loop: Loop) -> bool:
        """Whether neighbours of an element lie in other rows."""
        rows = [s for s in self.chain if s.extent != 1]
        stores = [x for x in accesses((loop,)) if isinstance(x, Store)]
        return bool(rows) and all(step_of(x.offset, rows[-1].var) == 1 for x in stores)


def _folds(s: Statement) -> bool:
    """Whether a statement is part of a fold: its array, its loops, or what goes into the array."""
    inner = [*statements((s,))]
    arrays = any(isinstance(t, Local) for t in inner)
    into = any(isinstance(x, Store) and isinstance(x.memory, Local) for x in accesses((s,)))
    serial = isinstance(s, Loop) and s.kind != "parallel"
    return arrays or into or serial
