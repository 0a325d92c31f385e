"""Groups of operations that become one loop nest each, and which results overwrite operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from dlvm.base.errors import IRError
from dlvm.ir import F32, Dim, Function, Op, Param, TensorType, Value
from dlvm.ir.dataflow import Dataflow
from dlvm.ir.rewrite import resized
from dlvm.ops.arrays.overwriting import (
    Overwriting,
    overwriter,
    reads_in_place,
    updates_in_order,
)
from dlvm.ops.arrays.sections import Update
from dlvm.ops.families import Contraction, Factorisation, Ordering

from .structured import Structured

OWN = -1
"""In the place of an operand: the result has memory of its own."""
OVERWRITING = ("scatter", "product")
"""Families whose results may be written over an operand."""
TREE = (4096, 32)
"""How a kernel folds that says nothing else."""


class Kernel(Structured):
    """A group of operations that becomes one loop nest; its meaning is inlining it.

    ``family`` says how it is lowered. ``tree`` is the order of its reductions: the reduced
    axes, taken together in row-major order, are cut into chunks of ``tree[0]``; within a chunk
    element k goes to accumulator k mod ``tree[1]``, accumulators are folded by halves, chunks
    from first to last. A ``fold``, whose region need not commute, goes from first to last.

    ``over`` says for each result the operand in whose memory it is written, or -1 where it has
    memory of its own, as all of them have if it is empty.
    """

    name = "kernel"
    from_passes = True
    dataflow = Dataflow()
    one_nest: ClassVar[bool] = True
    xs: tuple[Value, ...]
    body: Function
    family: str
    tree: tuple[int, int] = TREE
    over: tuple[int, ...] = ()

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The results of the body; those that are written over an operand can be."""
        if self.over:
            able = overwritten(self.body, self.family) or (OWN,) * len(self.body.results)
            pairs = zip(self.over, able, strict=False)
            if len(self.over) != len(able) or any(o not in (OWN, a) for o, a in pairs):
                raise IRError(f"kernel: over={self.over}: this body allows {able}, or -1 for each")
        return super().infer()

    def with_sizes(self, change: Callable[[Dim], Dim]) -> Kernel:
        """The kernel with other sizes everywhere, on operands of which only the types are known."""
        body = resized(self.body, change)
        operands = tuple(Param(p.type, p.name) for p in body.params)
        return Kernel(operands, body, self.family, self.tree, self.over)

    def target_of(self, result: int) -> Param | None:
        """The parameter that a result is written over, if it is."""
        at = self.over[result] if self.over else OWN
        return None if at == OWN else self.body.params[at]


def kernel_of(
    xs: tuple[Value, ...], body: Function, family: str, tree: tuple[int, int] = TREE
) -> Kernel:
    """A kernel whose results are written over operands where they can be."""
    return Kernel(xs, body, family, tree, overwritten(body, family))


def family_of(op: Op) -> str:
    """The family of a kernel that holds one operation."""
    match op:
        case _ if isinstance(op, Overwriting):
            return "scatter"
        case Ordering():
            return "ordering"
        case Factorisation():
            return "factorisation"
        case Contraction() if op.dtype is F32:
            return "product"
        case _:
            return "loops"


def overwritten(body: Function, family: str) -> tuple[int, ...]:
    """For each result the operand that it can be written over; nothing where none can."""
    if family not in OVERWRITING:
        return ()
    found = [_target(body, family, result) for result in body.results]
    at = tuple(OWN if t is None else body.params.index(t) for t in found)
    return at if any(t is not None for t in found) else ()


def _target(body: Function, family: str, result: Value) -> Param | None:
    """The parameter that a result can be written over: read nowhere else, or only in place."""
    op = overwriter(result)
    if op is None:
        return None
    first = windows(body, family, op)[0] if isinstance(op, Update) else op
    x = first.x
    if not isinstance(x, Param):
        return None
    reads = sum(o.operands.count(x) for o in body.ops)
    if reads > 1 and len(body.results) == 1 and isinstance(first, Update):
        return x if reads_in_place(first, lambda value: not isinstance(value, Param)) else None
    return x if reads == 1 else None


def windows(body: Function, family: str, op: Update) -> tuple[Update, ...]:
    """The windows that a kernel writes into one memory, one after the other, ``op`` last."""
    several = family == "scatter" and len(body.results) == 1
    return updates_in_order(op) if several else (op,)
