"""Slices of adjacent elements, which are read where they lie."""

from __future__ import annotations

from dlvm.ir import Dim, Function, Op, Value
from dlvm.ops import Kernel, Slice
from dlvm.ops.arrays.sections import start_of_adjacent


def dense_sections(fn: Function) -> dict[Op, Dim]:
    """Slices of adjacent elements that are views of what they are taken from, and their starts.

    Where a value is used in other ways, too, they are copied: it may be updated in place.
    """
    starts = {op: at for op in fn.ops if (at := _start_of(op)) is not None}
    others: set[Value] = set(fn.results)
    others.update(v for op in fn.ops if starts and op not in starts for v in op.operands)
    return {op: at for op, at in starts.items() if op.operands[0] not in others}


def _start_of(op: Op) -> Dim | None:
    """Where a kernel that only takes a slice of adjacent elements has it in its operand."""
    match op:
        case Kernel(body=body) if body.results == body.ops and isinstance(body.ops[0], Slice):
            return start_of_adjacent(body.ops[0])
        case _:
            return None
