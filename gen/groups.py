"""Short rows, folded sixteen at a time.

A row's accumulators are folded by halves, and the last halves lie in one vector: alone, a row
waits for every step of that, and computes what is made of its fold for itself. So of a group of
rows each first folds its accumulators into as many as there are rows in a group; what they come
to is turned, and the rest of the tree, and all that is made of it, is computed for all rows at
once, each in a lane of its own. The tree of a row is what it was, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from dlvm.ir import F32, F64, Dim, Function, Value
from dlvm.ir.dims import floordiv
from dlvm.ops import Reduction, reduction

from .fold import Team
from .frames import Frame
from .index import Index
from .loops import Local
from .nest import At
from .pull import Pull, Tile

ROWS = 16
"""Of a group, and accumulators of each that are turned."""


def groups_of(body: Function, frame: Frame, tree: tuple[int, int]) -> Dim:
    """How many whole groups of rows there are; 0 where rows are long, or not simple."""
    last = len(frame.shape) - 1
    if last < 1 or frame.axes != (last,):
        return 0
    length, rows = frame.shape[-1], frame.shape[-2]
    if not isinstance(length, int) or not 1 < length <= tree[0] or tree[1] < ROWS:
        return 0
    folds = [op for op in body.ops if isinstance(op, Reduction)]
    simple = all(
        len(op.results) == 1
        and not isinstance(op, reduction.Fold)
        and all(t in (F32, F64) for t in op.states())
        for op in folds
    )
    return floordiv(rows, ROWS) if simple else 0


@dataclass(slots=True)
class Group:
    """Rows of one group: the index before them, and the first of them."""

    pull: Pull
    frame: Frame
    outer: Index
    first: Dim

    def row(self, r: Dim) -> Index:
        """The index of a row."""
        return (*self.outer, self.first + r)

    def fold(self, ops: Sequence[Reduction]) -> None:
        """Reductions of one level; where they are wanted afterwards, they are there."""
        pull, nest = self.pull, self.pull.nest
        parts = [[nest.local("part", t, ROWS * ROWS) for t in op.states()] for op in ops]
        with nest.loop("serial", ROWS, "row") as r:
            pull.fold.team = Team()
            pull.fold.partial(ops, At(self.row(r)), ROWS, parts, ROWS * r)
            pull.fold.team = None
        for op, part in zip(ops, parts, strict=True):
            self._finish(op, [self._turned(local) for local in part])

    def _turned(self, part: Local) -> Local:
        nest = self.pull.nest
        turned = nest.local("turned", part.dtype, ROWS * ROWS)
        with nest.loop("serial", ROWS, "row") as r, nest.loop("vector", ROWS, "lane") as lane:
            nest.store(turned, ROWS * lane + r, nest.load(part, ROWS * r + lane))
        return turned

    def _finish(self, op: Reduction, turned: Sequence[Local]) -> None:
        """The upper part of the tree and the result, for all rows at once."""
        pull, nest, words = self.pull, self.pull.nest, self.pull.words
        (type_,) = op.result_types
        found = nest.local("folded", type_.dtype, ROWS)
        with self.lanes() as r:
            states = [tuple(nest.load(x, ROWS * i + r) for x in turned) for i in range(ROWS)]
            while (half := len(states) // 2) > 0:
                pairs = zip(states[:half], states[half:], strict=True)
                states = [op.combine(words, low, high) for low, high in pairs]
            whole = op.combine(words, op.identity(words), states[0])
            (x,) = op.project(words, whole)
            nest.store(found, r, words.cast(x, type_.dtype))
        pull.tiles[op] = Tile(found, -1, (self.first, self.first), 0)

    @contextmanager
    def lanes(self) -> Generator[Dim]:
        """Each row of the group in a lane."""
        with self.pull.nest.loop("vector", ROWS, "row", width=ROWS) as r:
            yield r


@contextmanager
def group(pull: Pull, frame: Frame, count: Dim) -> Generator[Group]:
    """So many groups, one after the other."""
    before: dict[Value, Tile] = dict(pull.tiles)
    with ExitStack() as stack:
        loops = [pull.nest.loop("parallel", d) for d in (*frame.shape[:-2], count)]
        *outer, index = (stack.enter_context(loop) for loop in loops)
        yield Group(pull, frame, tuple(outer), ROWS * index)
    pull.tiles = before
