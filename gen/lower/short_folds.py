"""Folds of few elements, written out as scalars, so that vectors lie along other axes.

A fold over a short, known extent has no loop: each of its elements is a scalar, and the tree of
the fold is a tree of scalars. What is left are the loops over its results, along which the
planner puts the vectors: each column of three, or each element of a window of 2x2, is one vector
of neighbouring results, and is folded in registers. The tree is the one of ``folds``, without the
accumulators that no element reaches, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlvm.gen.loops.builder import LoopScalars
from dlvm.gen.loops.frames import Frame, frame_of
from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import Bind, Body, Buffer, Let, Load, Loop, Scalar
from dlvm.ir import Function
from dlvm.ir.sizes.dims import product, symbols
from dlvm.ir.sizes.positions import Index, split
from dlvm.ops import Reduction
from dlvm.ops.arrays import reduction

State = tuple[Scalar, ...]

ELEMENTS = 16
"""The most elements of a fold that is written out."""
OPERATIONS = 512
"""The most operations of all elements of a row together: more take long to compile."""
NEAR = 4
"""How far apart the elements of neighbouring results may lie: whole vectors hold them, out of which
they are picked. One by one they take ten times as long."""


def is_short(body: Function) -> bool:
    """Whether the folds of a body may be written out: they share a frame, whose rows are short."""
    frame = frame_of(body)
    extent = product(frame.sizes(frame.axes)) if frame is not None and frame.rows else 0
    folds = [op for op in body.ops if isinstance(op, Reduction)]
    return (
        isinstance(extent, int)
        and 0 < extent <= ELEMENTS
        and extent * len(body.ops) <= OPERATIONS
        and all(map(_keeps_states, folds))
    )


def _keeps_states(op: Reduction) -> bool:
    """Whether accumulators that no element reaches may be left out."""
    return op.identity_is_exact or len(op.states()) == 1 or isinstance(op, reduction.Fold)


def reads_near(body: Body) -> bool:
    """Whether neighbouring results of the innermost loops are made of elements that lie near."""
    leaves = list(_leaves(body))
    return bool(leaves) and all(map(_reads_near, leaves))


def _leaves(body: Body) -> Iterator[Loop]:
    """The loops that hold no other one."""
    for s in body:
        if isinstance(s, Loop):
            inside = list(_leaves(s.body))
            yield from inside or (s,)


def _reads_near(loop: Loop) -> bool:
    bound = {s.name for s in loop.body if isinstance(s, Bind)}  # by an index that was read
    reads = [s.scalar for s in loop.body if isinstance(s, Let) and isinstance(s.scalar, Load)]
    offsets = [x.offset for x in reads if isinstance(x.memory, Buffer)]
    steps = [step_of(d, loop.var) for d in offsets if bound.isdisjoint(symbols(d))]
    near = all(isinstance(step, int) and abs(step) <= NEAR for step in steps)
    return near and len(steps) == len(offsets)


def positions(frame: Frame) -> Iterator[Index]:
    """The indices along the axes of a short fold, in order."""
    sizes = frame.sizes(frame.axes)
    extent = product(sizes)
    return (split(k, sizes) for k in range(extent if isinstance(extent, int) else 0))


def written_out(words: LoopScalars, op: Reduction, elements: Iterable[State], lanes: int) -> State:
    """The results of a reduction of one chunk, in scalars, from the operands' at each position."""
    accumulators: list[State] = []
    for k, element in enumerate(elements):
        if k < lanes:
            accumulators.append(op.identity(words))
        lifted = op.lift(words, words.nest.size(k), *map(words.wide, element))
        accumulators[k % lanes] = op.combine(words, accumulators[k % lanes], lifted)
    with words.nest.uncounted():
        total = op.combine(words, op.identity(words), _folded(words, op, accumulators, lanes))
    pairs = zip(op.project(words, total), op.result_types, strict=True)
    return tuple(words.cast(x, t.dtype) for x, t in pairs)


def _folded(words: LoopScalars, op: Reduction, accumulators: list[State], lanes: int) -> State:
    """Accumulators, folded by halves, of which those behind the last one are identities."""
    half = lanes
    while half > 1:
        half //= 2
        lower, upper = accumulators[:half], accumulators[half:]
        pairs = zip(lower, upper, strict=False)
        accumulators = [op.combine(words, x, y) for x, y in pairs] + lower[len(upper) :]
    return accumulators[0]
