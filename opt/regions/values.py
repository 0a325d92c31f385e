"""How values pass through the regions of control operations, in one vocabulary for all passes.

Parameter ``j`` of each region stands for operand ``j + offset``. The first ``carries``
parameters of a loop are fed again by the first results of its body. Result ``i`` of the
operation is result ``i`` of each *giving* region. What steers a branch or loop is always needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.ir import Builder, Function, Op, Param, Value
from dlvm.ir.rewrite import Env, mapped, place
from dlvm.ops import Checkpoint, Cond, Kernel, Recompute, Scan, While

Threading = Cond | While | Scan | Recompute | Checkpoint | Kernel


def offset(op: Threading) -> int:
    """How many operands stand before those that regions see."""
    return 1 if isinstance(op, Cond) else 0


def carries(op: Threading) -> int:
    """How many values a loop carries."""
    return len(op.init) if isinstance(op, While | Scan) else 0


def giving(op: Threading) -> tuple[Function, ...]:
    """The regions whose results are those of the operation."""
    return (op.then, op.otherwise) if isinstance(op, Cond) else (op.body,)


def steering(op: Threading) -> tuple[Value, ...]:
    """What is needed whenever the operation is: conditions and triggers."""
    match op:
        case Cond():
            return (op.condition,)
        case While():
            return op.condition.results
        case Recompute():
            return op.triggers
        case _:
            return ()


def capturing(
    op: Cond | While | Scan,
    operands: Sequence[Value],
    extra: Sequence[Value],
    **regions: Function,
) -> Op:
    """The operation on other operands, with more captured values and the regions for them."""
    match op:
        case Cond():
            captured = (*operands[1:], *extra)
            return Cond(
                operands[0], captured, regions["then"], regions["otherwise"], op.otherwise_first
            )
        case While():
            n = len(op.init)
            captured = (*operands[n:], *extra)
            return While(tuple(operands[:n]), captured, regions["condition"], regions["body"])
        case Scan():
            n, m = len(op.init), len(op.init) + len(op.xs)
            groups = tuple(operands[:n]), tuple(operands[n:m]), (*operands[m:], *extra)
            return Scan(*groups, regions["body"], op.length, op.reverse, op.unroll)


def widened(fn: Function, params: Sequence[Param], env: Env) -> Function:
    """A region with more parameters, in which ``env`` says what now stands for what."""
    builder = Builder()
    for op in fn.ops:
        place(builder, op, env)
    results = tuple(mapped(fn.results, env))
    return Function(fn.name, (*fn.params, *params), tuple(builder.ops), results)
