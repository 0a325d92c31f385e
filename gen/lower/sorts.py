"""Kernels of the ordering family: rows are written, then sorted where they are; or searched.

Sorting reads its operand element by element, so what is computed for it alone can be computed
here; the result is written over in place, between the results and scratch memory of their size.
Values that nobody asked for are sorted in scratch memory. A row that is searched lies in memory.
"""

from __future__ import annotations

from collections.abc import Mapping

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.builder import At
from dlvm.gen.loops.statements import Buffer, Scalar
from dlvm.gen.loops.statements import Sort as SortRow
from dlvm.ir import Param, TensorType, Value
from dlvm.ir.sizes.positions import Index, flatten
from dlvm.ops import SearchSorted, Sort

from .elements import Pull


class Row:
    """A sort: where the values and the places of each row go, and as much scratch memory."""

    def __init__(self, pull: Pull, op: Sort, targets: Mapping[Value, Buffer]) -> None:
        self.pull, self.nest, self.op = pull, pull.nest, op
        values, order = (targets.get(r) for r in op.results)
        self.values = values or self._room(op.x.type)
        self.order = order
        self.spare = tuple(self._room(r.type) for r in op.results[: 1 if order is None else 2])

    def _room(self, t: TensorType) -> Buffer:
        return self.nest.room("spare", t.dtype, t.size)

    def sort(self, line: Index) -> None:
        """Write a row and the places in it, then sort both."""
        op, shape = self.op, self.op.x.shape
        with self.nest.loop("parallel", shape[-1]) as i:
            index = (*line, i)
            at = flatten(index, shape)
            self.nest.store(self.values, at, self.pull.element(op.x, At(index)))
            if self.order is not None:
                self.nest.store(self.order, at, self.nest.size(i))
        start, count = flatten((*line, 0), shape), shape[-1]
        self.nest.put(SortRow(self.values, self.order, self.spare, start, count, op.descending))


def search_row(pull: Pull, op: SearchSorted, at: At) -> Scalar:
    """How many elements of its row come before an element."""
    if not isinstance(op.a, Param):
        raise CompilerError("what is searched must lie in memory")
    key, shape = pull.element(op.v, at), op.a.shape
    start = flatten((*at.index[: len(shape) - 1], 0), shape)
    return pull.nest.search(pull.buffers[op.a], start, shape[-1], key, op.right, at.where)
