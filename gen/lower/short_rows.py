"""Short rows, folded sixteen at a time, or twice as many.

A row's accumulators are folded by halves, and the last halves lie in one vector: alone, a row
waits for every step of that, and computes what is made of its fold for itself. So of a group of
rows each first folds its accumulators into sixteen, which lie in an array row by row. A vector
of the next step holds some of several rows, and each step makes half as many vectors, until one
holds a row in each lane, in which all that is made of the fold is computed. The tree of a row is
what it was, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.frames import Frame
from dlvm.gen.loops.statements import Local
from dlvm.ir import F32, F64, Dim, Function, Param, Value
from dlvm.ir.sizes.dims import at_least, floordiv
from dlvm.ir.sizes.positions import Index
from dlvm.ops import Constant, Elementwise, Reduction
from dlvm.ops.arrays import reduction

from .elements import Pull, Tile

LANES = 16
"""Accumulators of a row that are put together with those of others; rows of a group."""
DOUBLED_GROUPS_FROM = 1024
"""Rows from which on a group is twice as large: while one half waits, the other is computed."""
KEPT = range(8, 65)
"""Lengths of rows of which what was folded is read again after those of a whole group."""


def groups_of(body: Function, frame: Frame, tree: tuple[int, int], kept: bool, short: bool) -> Dim:
    """How many whole groups of rows there are; 0 where rows are long, or not simple.

    Those of open length are none if they are ``short``. Rows that are ``kept`` are written as they
    are folded, and once more at the end.
    """
    last = len(frame.shape) - 1
    if last < 1 or frame.axes != (last,):
        return 0
    length, rows = frame.shape[-1], frame.shape[-2]
    fits = 1 < length <= tree[0] if isinstance(length, int) else short
    if not fits or tree[1] < LANES:
        return 0
    if kept and not (isinstance(length, int) and length in KEPT):
        return 0
    folds = [op for op in body.ops if isinstance(op, Reduction)]
    simple = all(
        len(op.results) == 1
        and not isinstance(op, reduction.Fold)
        and all(t in (F32, F64) for t in op.states())
        for op in folds
    )
    count = floordiv(rows, group_size(frame)) if simple else 0
    return 0 if at_least(0, count) else count


def group_size(frame: Frame) -> int:
    """Rows of a group."""
    rows = frame.shape[-2]
    return 2 * LANES if isinstance(rows, int) and rows >= DOUBLED_GROUPS_FROM else LANES


@dataclass(slots=True)
class RowGroup:
    """Rows of one group: the index before them, and the first of them."""

    pull: Pull
    frame: Frame
    outer: Index
    first: Dim
    size: int

    def row(self, r: Dim) -> Index:
        """The index of a row."""
        return (*self.outer, self.first + r)

    def fold(self, ops: Sequence[Reduction]) -> None:
        """Reductions of one level; where they are wanted afterwards, they are there."""
        pull, nest = self.pull, self.pull.nest
        parts = [[nest.local("part", t, self.size * LANES) for t in op.states()] for op in ops]
        with nest.loop("serial", self.size, "row") as r:
            pull.fold.beside = True
            pull.fold.partial(ops, At(self.row(r)), LANES, parts, LANES * r)
            pull.fold.beside = False
        for op, part in zip(ops, parts, strict=True):
            self._finish(op, part)

    def _finish(self, op: Reduction, parts: Sequence[Local]) -> None:
        """The upper part of the tree and the result, for all rows at once."""
        pull, nest, words = self.pull, self.pull.nest, self.pull.words
        half = LANES
        while half > 1:
            half //= 2
            parts = self._halved(op, parts, half)
        (type_,) = op.result_types
        found = nest.local("folded", type_.dtype, self.size)
        with self.lanes() as r:
            state = tuple(nest.load(x, r) for x in parts)
            (x,) = op.project(words, op.combine(words, op.identity(words), state))
            nest.store(found, r, words.cast(x, type_.dtype))
        pull.tiles[op] = Tile(found, (-1, -1), (self.first, self.first), 0)

    def share(self, body: Function) -> None:
        """What is made of folds once for each row and used along it, for all rows at once."""
        pull, nest = self.pull, self.pull.nest
        wanted = [v for v in self._ready(body) if v not in pull.tiles and _is_spread(v, body)]
        found = [nest.local("shared", v.type.dtype, self.size) for v in wanted]
        with self.lanes() as r:
            for v, local in zip(wanted, found, strict=True):
                nest.store(local, r, pull.element(v, At(self.row(r))))
        for v, local in zip(wanted, found, strict=True):
            pull.tiles[v] = Tile(local, (-1, -1), (self.first, self.first), 0)

    def _ready(self, body: Function) -> list[Elementwise]:
        """Values of rows that depend on folds, all of which are done."""
        ready: dict[Value, Elementwise] = {}
        for op in body.ops:
            if isinstance(op, Elementwise) and op.results[0].shape == self.frame.shape[:-1]:
                needs = [x for x in op.operands if not isinstance(x, Param | Constant)]
                if needs and all(x in ready or x in self.pull.tiles for x in needs):
                    ready[op] = op
        return [op for op in ready.values() if op.type.dtype in (F32, F64)]

    def _halved(self, op: Reduction, parts: Sequence[Local], half: int) -> list[Local]:
        """The accumulators of each row, which lie row by row, folded into half as many."""
        nest, words, size = self.pull.nest, self.pull.words, self.size * half
        halves = [nest.local("half", t, size) for t in op.states()]
        with (
            nest.uncounted(),
            nest.loop("parallel", size, "part", limit=size, width=LANES) as i,
        ):
            low = i + half * floordiv(i, half)
            left, right = (tuple(nest.load(x, at) for x in parts) for at in (low, low + half))
            for local, x in zip(halves, op.combine(words, left, right), strict=True):
                nest.store(local, i, x)
        return halves

    @contextmanager
    def lanes(self) -> Generator[Dim]:
        """Each row of the group in a lane."""
        with self.pull.nest.loop("parallel", self.size, "row", width=self.size) as r:
            yield r


def _is_spread(value: Value, body: Function) -> bool:
    """Whether something that is larger is computed with a value."""
    users = (op for op in body.ops if value in op.operands)
    return any(op.results[0].shape != value.shape for op in users)


@contextmanager
def group(pull: Pull, frame: Frame, count: Dim) -> Generator[RowGroup]:
    """``count`` groups, one after the other."""
    before, kept = dict(pull.tiles), dict(pull.kept)
    with ExitStack() as stack:
        loops = [pull.nest.loop("parallel", d) for d in (*frame.shape[:-2], count)]
        *outer, index = (stack.enter_context(loop) for loop in loops)
        size = group_size(frame)
        yield RowGroup(pull, frame, tuple(outer), size * index, size)
    pull.tiles, pull.kept = before, kept
