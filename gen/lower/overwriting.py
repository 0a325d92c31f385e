"""Loops that write into a buffer that holds something already: windows, and elements at indices."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.statements import Buffer
from dlvm.ir.sizes.positions import flatten
from dlvm.ops import Exchange, Scatter, Update
from dlvm.ops.arrays.sections import in_whole

from .elements import Pull


def write_windows(pull: Pull, ops: Sequence[Update], buffer: Buffer) -> None:
    """Window after window, element by element in any order."""
    nest = pull.nest
    for op in ops:
        with nest.loops(op.y.shape, range(op.y.type.rank), "parallel") as index:
            element = pull.element(op.y, At(index))
            nest.store(buffer, flatten(in_whole(op, index), op.shape), element)
        pull.kept[op] = buffer


def write_at_indices(pull: Pull, op: Scatter, buffer: Buffer, beside: Buffer | None) -> None:
    """In the order of the indices; what stands before and behind the indexed axis is independent.

    What an exchange found there goes into a buffer ``beside``, if somebody wants it.
    """
    nest, shape, axis = pull.nest, op.updates.shape, op.axis
    after = axis + op.indices.type.rank - op.batch
    with (
        nest.loops(shape, range(axis), "parallel") as outer,
        nest.loops(shape, range(axis, after), "serial") as along,
        nest.loops(shape, range(after, len(shape)), "parallel") as inner,
    ):
        if isinstance(op, Exchange) and op.reverse:
            along = tuple(n - 1 - i for n, i in zip(shape[axis:], along, strict=False))
        index = (*outer, *along, *inner)
        raw = pull.element(op.indices, At((*index[: op.batch], *index[axis:after])))
        spot, inside = pull.resolve(op, raw, ())
        at = flatten((*index[:axis], spot, *index[after:]), op.x.shape)
        x = pull.element(op.updates, At(index))
        before = nest.load(buffer, at, inside)
        if beside is not None:
            nest.store(beside, flatten(index, shape), before)
        nest.store(buffer, at, op.combine(pull.words, before, x), inside)
