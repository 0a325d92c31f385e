"""Reductions and small products, element by element, in the one documented order.

The tree of a fold is ``(chunk, lanes)``: the reduced axes, taken together in row-major order,
are cut into chunks; within a chunk element k goes to accumulator k mod lanes; accumulators are
folded by halves, and chunks from first to last. Accumulators start from the identity. That
exchanges elements, so a ``Fold``, whose region need not commute, has one lane. Which loops run
over the lanes is the schedule's business: vectors on a CPU, the lanes of a block on a GPU, or
one after the other where the loops around are parallel already.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.index import Index, ceildiv, flatten, piece, recombine, split
from dlvm.gen.loops.statements import Barrier, Buffer, Local, Scalar, Where
from dlvm.ir import Dim, DType, Value
from dlvm.ir.dims import floordiv, minimum, mod, product
from dlvm.ops import Matmul, Reduction
from dlvm.ops.arrays import reduction

from .staging import Along, Pieces, scattered

if TYPE_CHECKING:
    from .elements import Pull

State = tuple[Scalar, ...]


@dataclass(slots=True)
class Team:
    """The lanes that fold together: of a vector, or (``lane``) those of a block that is open."""

    lane: Dim | None = None
    depth: int = 0


class Fold:
    """Reductions for ``Pull``; ``team`` is there while lanes are free to share a fold.

    While ``apart``, threads are free as well: chunks are folded in any order, each into a place
    of its own, and their results then as always, from first to last. Where it is not 0 no row has
    more than ``short`` elements. Operands in ``keep`` are written on the way.
    """

    def __init__(self, pull: Pull, tree: tuple[int, int], block: int) -> None:
        self.pull, self.nest, self.words = pull, pull.nest, pull.words
        self.tree, self.lanes = tree, tree[1]
        self.block = block
        self.team: Team | None = None
        self.apart = False
        self.short = 0
        self.keep: dict[Value, Buffer] = {}

    def alone(self, op: Reduction, at: At) -> State:
        """One reduction where it is needed, by whoever needs it."""
        before = self.team, self.apart
        self.team, self.apart = None, False
        self.together([op], at)
        self.team, self.apart = before
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
        folds = [_Running(self, op, at) for op in ops]
        for fold in folds:
            fold.start()
        self._chunks(folds, product(folds[0].along.sizes))
        for fold, op in zip(folds, ops, strict=True):
            self.nest.remember(op, at, fold.result())

    def _chunks(self, folds: Sequence[_Running], extent: Dim) -> None:
        """All chunks: in any order, each into a place of its own, or one after the other."""
        size = self.tree[0]
        if self.short:
            self._chunk(folds, extent, 0, extent)
            return
        if not self.apart and self._few_vectors(extent):
            self._in_turn(folds, extent)
            return
        chunks = ceildiv(extent, size)
        if apart := self.apart and chunks != 1:
            for fold in folds:
                fold.keep(chunks)
        with self.nest.loop("parallel" if apart else "serial", chunks, "chunk") as c:
            self._chunk(folds, extent, c, piece(size, extent, c))
        if apart:
            with self.nest.loop("serial", chunks, "chunk") as c, self.nest.uncounted():
                for fold in folds:
                    fold.take_back(c)

    def _few_vectors(self, extent: Dim) -> bool:
        """Whether a row may be so short that it matters what is computed of its length."""
        return not isinstance(extent, int) and self.team is not None and self.team.lane is None

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
        """Reductions of one chunk, as far as so many accumulators, which are put into arrays."""
        folds = [_Running(self, op, at) for op in ops]
        extent = product(folds[0].along.sizes)
        self._accumulate(folds, extent, 0, extent, lanes)
        with self.across(lanes) as (lane, _):
            for fold, arrays in zip(folds, to, strict=True):
                fold.put(lane, arrays, start)

    def _chunk(self, folds: Sequence[_Running], extent: Dim, c: Dim, length: Dim) -> None:
        self._accumulate(folds, extent, c, length, 1)
        with self.nest.uncounted():
            self._meet()
            for fold in folds:
                fold.finish(c)
        self._meet()

    def _accumulate(
        self, folds: Sequence[_Running], extent: Dim, c: Dim, length: Dim, until: int
    ) -> None:
        """A chunk of a length in accumulators, of which so many are left in the end."""
        first = c * self.tree[0]
        for fold in folds:
            fold.open()
        with self.across(self.lanes, meet=False) as (lane, where):
            for fold in folds:
                fold.reset(lane, where)
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
                with self.across(half) as (lane, where):
                    for fold in folds:
                        fold.halve(lane, half, where)

    def _groups(self, folds: Sequence[_Running], extent: Dim, first: Dim, length: Dim) -> None:
        """So many elements, as many at once as there are accumulators."""
        with self.nest.loop("serial", floordiv(length, self.lanes), "group") as g:
            self._group(folds, extent, first + g * self.lanes, self.lanes)
        if (rest := mod(length, self.lanes)) != 0:
            self._group(folds, extent, recombine(first + length - rest), rest)

    def _row(self, folds: Sequence[_Running]) -> Index:
        """What is computed row by row before it is folded, by a team that is a vector."""
        alone = self.team is not None and self.team.lane is None and self.lanes > 1
        return scattered(folds[0].along, _operands(folds)) if alone else ()

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
        with self.across(count, meet=False) as (lane, where):
            k = self.nest.define("k", start + lane, extent - 1, where)
            for fold in folds:
                fold.step(k, start - fold.first + lane, lane, where)

    @contextmanager
    def across(self, count: Dim, *, meet: bool = True) -> Generator[tuple[Dim, Where]]:
        """The first ``count`` lanes: the index of one, and where it takes part."""
        if self.team is not None and self.team.lane is not None:
            if meet:
                self._meet()
            lane = self.team.lane
            yield lane, () if count == self.block else (count - 1 - lane,)
        else:
            kind = "serial" if self.team is None else "parallel"
            with self.nest.loop(kind, count, "lane", limit=self.lanes) as lane:
                yield lane, ()

    def _meet(self) -> None:
        if self.team is not None and self.team.lane is not None:
            self.nest.put(Barrier())

    def array(self, hint: str, dtype: DType) -> Local:
        """An accumulator for each lane."""
        if self.team is not None and self.team.lane is not None:
            return self.nest.local(hint, dtype, self.lanes, depth=self.team.depth)
        return self.nest.local(hint, dtype, self.lanes)

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
        self.chunks: list[Buffer] = []
        self.totals: list[Local] = []

    def start(self) -> None:
        """A total of all chunks."""
        self.totals = [self.nest.local("total", t, 1) for t in self.op.states()]
        self._store(self.totals, 0, self.op.identity(self.words))

    def _store(
        self, memory: Sequence[Local | Buffer], offset: Dim, state: State, where: Where = ()
    ) -> None:
        for local, x in zip(memory, state, strict=True):
            self.nest.store(local, offset, x, where)

    def _load(self, memory: Sequence[Local | Buffer], offset: Dim, where: Where = ()) -> State:
        return tuple(self.nest.load(local, offset, where) for local in memory)

    def keep(self, chunks: Dim) -> None:
        """Room for the result of each chunk."""
        self.chunks = [self.nest.room("chunks", t, chunks) for t in self.op.states()]

    def open(self) -> None:
        """Accumulators for a chunk."""
        self.lanes = [self.fold.array("acc", t) for t in self.op.states()]

    def reset(self, lane: Dim, where: Where) -> None:
        """Start a chunk."""
        self._store(self.lanes, lane, self.op.identity(self.words), where)

    def step(self, k: Dim, spot: Dim, lane: Dim, where: Where) -> None:
        """Take in element k, which is at a spot of its chunk."""
        at = self.along.place(split(k, self.along.sizes))
        at = At(at.index, (*at.where, *where))
        elements = [self._element(x, spot, at) for x in self.op.operands]
        for x, element in zip(self.op.operands, elements, strict=True):
            if (room := self.fold.keep.get(x)) is not None:
                self.nest.store(room, flatten(at.index, x.shape), element, at.where)
        state = self.op.lift(self.words, self.nest.size(k), *map(self._wide, elements))
        before = self._load(self.lanes, lane, where)
        self._store(self.lanes, lane, self.op.combine(self.words, before, state), where)

    def _element(self, x: Value, spot: Dim, at: At) -> Scalar:
        if (filled := self.filled.get(x)) is not None:
            return self.nest.load(filled, spot, at.where)
        return self.fold.pull.element(x, at)

    def _wide(self, x: Scalar) -> Scalar:
        return x if x.dtype in self.op.states() else self.words.wide(x)

    def halve(self, lane: Dim, half: int, where: Where) -> None:
        """Fold the upper half of the accumulators into the lower."""
        left, right = (
            self._load(self.lanes, lane, where),
            self._load(self.lanes, lane + half, where),
        )
        self._store(self.lanes, lane, self.op.combine(self.words, left, right), where)

    def put(self, lane: Dim, arrays: Sequence[Local], start: Dim) -> None:
        """What an accumulator came to, into arrays."""
        self._store(arrays, start + lane, self._load(self.lanes, lane))

    def finish(self, c: Dim) -> None:
        """Fold a chunk into the total, or keep it until all are there."""
        chunk = self._load(self.lanes, 0)
        if self.chunks:
            self._store(self.chunks, c, chunk)
        else:
            self._add(chunk)

    def take_back(self, c: Dim) -> None:
        """Fold a chunk that was kept into the total."""
        self._add(self._load(self.chunks, c))

    def _add(self, chunk: State) -> None:
        total = self._load(self.totals, 0)
        self._store(self.totals, 0, self.op.combine(self.words, total, chunk))

    def result(self) -> State:
        """The results of the reduction."""
        state = self.op.project(self.words, self._load(self.totals, 0))
        pairs = zip(state, self.op.result_types, strict=True)
        return tuple(self.words.cast(x, t.dtype) for x, t in pairs)
