"""Windows of adjacent elements, which are read where they lie."""

from __future__ import annotations

from dlvm.ir import Dim, Function, Op, Value
from dlvm.ir.dims import product
from dlvm.ops import Kernel, Slice


def windows_of(fn: Function) -> dict[Op, Dim]:
    """Windows of adjacent elements that are views of what they are taken from, and their starts.

    Where a value is used in other ways, too, they are copied: it may be updated in place.
    """
    starts = {op: at for op in fn.ops if (at := dense_window(op)) is not None}
    others: set[Value] = set(fn.results)
    others.update(v for op in fn.ops if starts and op not in starts for v in op.operands)
    return {op: at for op, at in starts.items() if op.operands[0] not in others}


def dense_window(op: Op) -> Dim | None:
    """Where a kernel that only takes a window of adjacent elements has it in its operand."""
    if not isinstance(op, Kernel):
        return None
    match op.body.ops:
        case (Slice(x, starts, sizes, steps),) if op.body.results == op.body.ops:
            first = next((i for i, n in enumerate(sizes) if n != 1), x.type.rank)
            dense = sizes[first + 1 :] == x.shape[first + 1 :]
            if not dense or any(step != 1 for step in steps):
                return None
            strides = (product(x.shape[i + 1 :]) for i in range(x.type.rank))
            return sum((a * b for a, b in zip(starts, strides, strict=True)), 0)
        case _:
            return None
