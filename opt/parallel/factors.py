"""Factorisations of large matrices in blocks: small factorisations, and products of all threads.

One block of a GPU factorises a matrix, step by step. A matrix of more rows is taken in blocks: each
class says how. The program has a few operations for each step, and sums have another order.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import Builder, Function, Op, Value
from dlvm.ir.rewrite import Env, renewed, transform
from dlvm.ops import Factorisation
from dlvm.opt.regions.lowering import in_floats
from dlvm.passes import function_pass

SHORT = 48
"""Rows and right sides, at most, that one block of a GPU takes step by step."""
SIZE = 32
"""Rows of a block, or columns of a panel, at least."""
STEPS = 32
"""Blocks in a row, at most: for each of them some ten kernels are compiled."""


@function_pass
def block_factors(fn: Function) -> Function:
    """Take factorisations of more than a few rows, and solves of many right sides, in blocks."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Factorisation)
        stated = type(op).in_blocks is not Factorisation.in_blocks
        known = all(isinstance(n, int) for n in op.operands[0].type.shape[-2:])
        if not (stated and known and _is_long(op)):
            return None
        with Builder():  # the operation itself must not be appended to the function
            op = renewed(op, env)
        return in_floats(op, _in_blocks)

    return transform(fn, visit, on=Factorisation)


def _is_long(op: Factorisation) -> bool:
    sizes = (n for x in op.operands for n in x.type.shape[-2:])
    return not all(isinstance(n, int) and n <= SHORT for n in sizes)


def _in_blocks(op: Op) -> tuple[Value, ...]:
    assert isinstance(op, Factorisation)
    return op.in_blocks(max(SIZE, -(-int(op.operands[0].type.shape[-1]) // STEPS)))
