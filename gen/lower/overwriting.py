"""Loops that write into a buffer that holds something already: windows, and elements at indices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.statements import Buffer
from dlvm.ir import Param
from dlvm.ir.dims import product
from dlvm.ir.positions import Index, flatten
from dlvm.ops import Exchange, Scatter, Update, reads_own_window
from dlvm.ops.arrays.sections import in_whole

from .elements import Pull

FEW = 16
"""Turns that are shared among threads; of fewer, each window is shared by itself."""


def write_windows(pull: Pull, ops: Sequence[Update], buffer: Buffer, shaped: bool) -> None:
    """Window after window; where all cover the first axes whole, for each place along these."""
    first = _covered(ops) if shaped and len(ops) > 1 else 0
    many = product(ops[0].shape[:first])
    first = 0 if isinstance(many, int) and many < FEW else first
    with pull.nest.loops(ops[0].shape, range(first), "parallel") as place:
        for op in ops:
            _write_window(pull, op, buffer, place)
            pull.kept[op] = buffer


def _write_window(pull: Pull, op: Update, buffer: Buffer, place: Index) -> None:
    """The part of a window at a place along its first axes, element by element in any order."""
    nest, shape = pull.nest, op.y.shape
    with nest.loops(shape, range(len(place), len(shape)), "parallel") as inner:
        index = (*place, *inner)
        nest.store(buffer, flatten(in_whole(op, index), op.shape), pull.element(op.y, At(index)))


def _covered(ops: Sequence[Update]) -> int:
    """The number of first axes that all windows cover whole, and read at their own place only."""
    if not reads_own_window(ops[0], lambda value: not isinstance(value, Param)):
        return 0
    whole = (
        all(op.starts[a] == 0 and op.steps[a] == 1 and op.y.shape[a] == n for op in ops)
        for a, n in enumerate(ops[0].shape)
    )
    return len([*takewhile(bool, whole)])


def write_at_indices(pull: Pull, op: Scatter, buffer: Buffer, beside: Buffer | None) -> None:
    """In the order of the indices; vectors only along what follows the indexed axis.

    What an exchange found there goes into a buffer ``beside``, if somebody wants it.
    """
    nest, shape, axis = pull.nest, op.updates.shape, op.axis
    after = axis + op.indices.type.rank - op.batch
    with (
        nest.loops(shape, range(after), "serial") as outer,
        nest.loops(shape, range(after, len(shape)), "parallel") as inner,
    ):
        if isinstance(op, Exchange) and op.reverse:
            outer = tuple(n - 1 - i for n, i in zip(shape, outer, strict=False))
        index = (*outer, *inner)
        raw = pull.element(op.indices, At((*index[: op.batch], *index[axis:after])))
        spot, inside = pull.resolve(op, raw, ())
        at = flatten((*index[:axis], spot, *index[after:]), op.x.shape)
        x = pull.element(op.updates, At(index))
        before = nest.load(buffer, at, inside)
        if beside is not None:
            nest.store(beside, flatten(index, shape), before)
        nest.store(buffer, at, op.combine(pull.words, before, x), inside)
