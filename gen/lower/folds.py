"""Reductions and small products, element by element, in the one documented order.

The tree of a fold is ``(chunk, lanes)``: the reduced axes, taken together in row-major order,
are cut into chunks; within a chunk element k goes to accumulator k mod lanes; accumulators are
folded by halves, and chunks from first to last. Accumulators start from the identity. That
exchanges elements, so a ``Fold``, whose region need not commute, has one lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.frames import Frame
from dlvm.gen.loops.index import ceildiv, piece
from dlvm.gen.loops.statements import Buffer, Local, Scalar
from dlvm.ir import Dim, Value
from dlvm.ir.sizes.dims import floordiv, minimum, mod, product
from dlvm.ir.sizes.positions import Index, flatten, recombine, split
from dlvm.ops import Matmul, Reduction
from dlvm.ops.arrays import reduction

from .forms import Forms
from .short_folds import positions, written_out
from .staging import Along, Pieces, scattered

if TYPE_CHECKING:
    from .elements import Pull

State = tuple[Scalar, ...]


class Fold:
    """Reductions for ``Pull``; while ``beside``, the lanes of a fold are parallel loops.

    Where it is not 0 no row has more than ``short`` elements. Operands in ``keep`` are written on
    the way. Where folds are ``written_out``, all of them are short, and none has a loop
    (``short_folds``).
    """

    def __init__(self, pull: Pull, tree: tuple[int, int], forms: Forms) -> None:
        self.pull, self.nest, self.words = pull, pull.nest, pull.words
        self.tree, self.lanes = tree, tree[1]
        self.forms = forms
        self.beside = False
        self.written_out = False
        self.short = 0
        self.keep: dict[Value, Buffer] = {}

    def alone(self, op: Reduction, at: At) -> State:
        """One reduction where it is needed, by whoever needs it."""
        before, self.beside = self.beside, False
        self.together([op], at)
        self.beside = before
        found = self.nest.known(op, at)
        assert found is not None
        return found

    def together(self, ops: Sequence[Reduction], at: At) -> None:
        """Reductions of one shape over the same axes, in one loop, or one for those in order."""
        for ordered in (False, True):
            if group := [op for op in ops if isinstance(op, reduction.Fold) == ordered]:
                before, self.lanes = self.lanes, 1 if ordered else self.tree[1]
                self._loop(group, at)
                self.lanes = before

    def _loop(self, ops: Sequence[Reduction], at: At) -> None:
        if self.written_out:
            for op in ops:
                found = written_out(self.words, op, self._elements(op, at), self.lanes)
                self.nest.remember(op, at, found)
            return
        folds = [_Running(self, op, at) for op in ops]
        for fold in folds:
            fold.start()
        self._chunks(folds, product(folds[0].along.sizes))
        for fold, op in zip(folds, ops, strict=True):
            self.nest.remember(op, at, fold.result())

    def _elements(self, op: Reduction, at: At) -> Iterator[State]:
        """The operands at each position, of which there is a known number."""
        along = Along(op.operands[0].shape, op.axes, at)
        for place in map(along.place, positions(Frame(along.shape, op.axes))):
            yield tuple(self.pull.element(x, place) for x in op.operands)

    def _chunks(self, folds: Sequence[_Running], extent: Dim) -> None:
        """All chunks: in any order, each into a place of its own, or one after the other."""
        size = self.tree[0]
        if self.short:
            self._chunk(folds, extent, 0, extent)
            return
        if self._few_vectors(extent):
            self._in_turn(folds, extent)
            return
        with self.nest.loop("serial", ceildiv(extent, size), "chunk") as c:
            self._chunk(folds, extent, c, piece(size, extent, c))

    def _few_vectors(self, extent: Dim) -> bool:
        """Whether a row may be so short that it matters what is computed of its length."""
        return self.forms.take("unswitch", not isinstance(extent, int) and self.beside)

    def _in_turn(self, folds: Sequence[_Running], extent: Dim) -> None:
        """Whole chunks, then what is left, whose length is counted once for all rows."""
        size = self.tree[0]
        whole, rest = floordiv(extent, size), mod(extent, size)
        with self.nest.loop("serial", whole, "chunk") as c:
            self._chunk(folds, extent, c, size)
        with self.nest.loop("serial", minimum(1, rest), "last"):
            self._chunk(folds, extent, whole, rest)

    def partial(
        self,
        ops: Sequence[Reduction],
        at: At,
        lanes: int,
        to: Sequence[Sequence[Local]],
        start: Dim,
    ) -> None:
        """Reductions of one chunk down to some accumulators, which are stored in arrays."""
        folds = [_Running(self, op, at) for op in ops]
        extent = product(folds[0].along.sizes)
        self._accumulate(folds, extent, 0, extent, lanes)
        with self.across(lanes) as lane:
            for fold, arrays in zip(folds, to, strict=True):
                fold.put(lane, arrays, start)

    def _chunk(self, folds: Sequence[_Running], extent: Dim, c: Dim, length: Dim) -> None:
        self._accumulate(folds, extent, c, length, 1)
        with self.nest.uncounted():
            for fold in folds:
                fold.finish()

    def _accumulate(
        self, folds: Sequence[_Running], extent: Dim, c: Dim, length: Dim, until: int
    ) -> None:
        """A chunk, folded into accumulators, of which ``until`` are left in the end."""
        first = c * self.tree[0]
        for fold in folds:
            fold.open()
        with self.across(self.lanes) as lane:
            for fold in folds:
                fold.reset(lane)
        plain = all(len(f.op.states()) == 1 for f in folds)
        if row := self._row(folds):
            width = product(row)
            some = 1 if isinstance(width, int) else minimum(1, width)  # else it is divided by
            with self.nest.loop("serial", some, "some", counts=1):
                self._pieces(folds, row, extent, first, length)
        else:
            self._groups(folds, extent, first, length)
        with self.nest.uncounted():
            half = self.lanes
            while half > until:
                half //= 2
                if plain and isinstance(length, int) and length <= half:
                    continue  # the upper half are identities, and a number stays as it is
                with self.across(half) as lane:
                    for fold in folds:
                        fold.halve(lane, half)

    def _groups(self, folds: Sequence[_Running], extent: Dim, first: Dim, length: Dim) -> None:
        """Some elements, as many at once as there are accumulators."""
        with self.nest.loop("serial", floordiv(length, self.lanes), "group") as g:
            self._group(folds, extent, first + g * self.lanes, self.lanes)
        if (rest := mod(length, self.lanes)) != 0:
            self._group(folds, extent, recombine(first + length - rest), rest)

    def _row(self, folds: Sequence[_Running]) -> Index:
        """What is computed row by row before it is folded."""
        alone = self.beside and self.lanes > 1
        row = scattered(folds[0].along, _operands(folds)) if alone else ()
        return row if self.forms.take("pieces", row) else ()

    def _pieces(
        self, folds: Sequence[_Running], row: Index, extent: Dim, first: Dim, length: Dim
    ) -> None:
        """A chunk in pieces, each of which is computed row by row before it is folded."""
        filled = Pieces(
            self.pull, folds[0].along, row, _operands(folds), self.short or self.tree[0]
        )
        with filled.each(first, length, bool(self.short)) as (begin, count):
            for fold in folds:
                fold.filled, fold.first = filled.arrays, begin
            self._groups(folds, extent, begin, count)
        for fold in folds:
            fold.filled, fold.first = {}, 0

    def _group(self, folds: Sequence[_Running], extent: Dim, start: Dim, count: Dim) -> None:
        with self.across(count) as lane:
            k = self.nest.define("k", start + lane, extent - 1)
            for fold in folds:
                fold.step(k, start - fold.first + lane, lane)

    def across(self, count: Dim) -> AbstractContextManager[Dim]:
        """The first ``count`` lanes."""
        return self.nest.loop(
            "parallel" if self.beside else "serial", count, "lane", limit=self.lanes
        )

    def dot(self, op: Matmul, at: At) -> Scalar:
        """One element of a product: its sum over k, in order."""
        *batch, m, n = at.index
        dtype = op.dtype.compute
        total = self.nest.local("sum", dtype, 1)
        self.nest.store(total, 0, self.words.constant(0, dtype))
        with self.nest.loop("serial", op.x.shape[-1], "k") as k:
            x = self._factor(op.x, At((*batch, m, k), at.where))
            y = self._factor(op.y, At((*batch, k, n), at.where))
            before = self.nest.load(total, 0)
            self.nest.store(total, 0, self.words.multiply_add(x, y, before))
        out = self.words.cast(self.nest.load(total, 0), op.dtype)
        self.nest.remember(op, at, (out,))
        return out

    def _factor(self, x: Value, at: At) -> Scalar:
        return self.words.wide(self.pull.element(x, at))


def _operands(folds: Sequence[_Running]) -> list[Value]:
    """What is folded, each once."""
    return list(dict.fromkeys(x for fold in folds for x in fold.op.operands))


class _Running:
    """One reduction while it runs: its accumulators and its total."""

    def __init__(self, fold: Fold, op: Reduction, at: At) -> None:
        self.fold, self.op = fold, op
        self.along = Along(op.operands[0].shape, op.axes, at)
        self.nest, self.words = fold.nest, fold.words
        self.filled: dict[Value, Local] = {}
        self.first: Dim = 0
        self.lanes: list[Local] = []
        self.totals: list[Local] = []

    def start(self) -> None:
        """A total of all chunks."""
        self.totals = [self.nest.local("total", t, 1) for t in self.op.states()]
        self._store(self.totals, 0, self.op.identity(self.words))

    def _store(self, memory: Sequence[Local | Buffer], offset: Dim, state: State) -> None:
        for local, x in zip(memory, state, strict=True):
            self.nest.store(local, offset, x)

    def _load(self, memory: Sequence[Local | Buffer], offset: Dim) -> State:
        return tuple(self.nest.load(local, offset) for local in memory)

    def open(self) -> None:
        """Accumulators for a chunk."""
        self.lanes = [self.nest.local("acc", t, self.fold.lanes) for t in self.op.states()]

    def reset(self, lane: Dim) -> None:
        """Start a chunk."""
        self._store(self.lanes, lane, self.op.identity(self.words))

    def step(self, k: Dim, spot: Dim, lane: Dim) -> None:
        """Take in element k, which is at a spot of its chunk."""
        at = self.along.place(split(k, self.along.sizes))
        elements = [self._element(x, spot, at) for x in self.op.operands]
        for x, element in zip(self.op.operands, elements, strict=True):
            if (room := self.fold.keep.get(x)) is not None:
                self.nest.store(room, flatten(at.index, x.shape), element, at.where)
        state = self.op.lift(self.words, self.nest.size(k), *map(self._wide, elements))
        before = self._load(self.lanes, lane)
        self._store(self.lanes, lane, self.op.combine(self.words, before, state))

    def _element(self, x: Value, spot: Dim, at: At) -> Scalar:
        if (filled := self.filled.get(x)) is not None:
            return self.nest.load(filled, spot, at.where)
        return self.fold.pull.element(x, at)

    def _wide(self, x: Scalar) -> Scalar:
        return x if x.dtype in self.op.states() else self.words.wide(x)

    def halve(self, lane: Dim, half: int) -> None:
        """Fold the upper half of the accumulators into the lower."""
        left, right = self._load(self.lanes, lane), self._load(self.lanes, lane + half)
        self._store(self.lanes, lane, self.op.combine(self.words, left, right))

    def put(self, lane: Dim, arrays: Sequence[Local], start: Dim) -> None:
        """What an accumulator came to, into arrays."""
        self._store(arrays, start + lane, self._load(self.lanes, lane))

    def finish(self) -> None:
        """Fold a chunk into the total."""
        chunk, total = self._load(self.lanes, 0), self._load(self.totals, 0)
        self._store(self.totals, 0, self.op.combine(self.words, total, chunk))

    def result(self) -> State:
        """The results of the reduction."""
        state = self.op.project(self.words, self._load(self.totals, 0))
        pairs = zip(state, self.op.result_types, strict=True)
        return tuple(self.words.cast(x, t.dtype) for x, t in pairs)
