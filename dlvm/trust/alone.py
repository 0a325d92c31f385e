"""A program of a single operation, which shows whether that operation alone is wrong."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.base.errors import UserError
from dlvm.ir import Array, Builder, Function, Module, Op, Param, Value

NOTHING = Module(())


def alone(op: Op, operands: Sequence[Array], beside: Module = NOTHING) -> Module | None:
    """A module whose first function runs one operation, on parameters of the operands' shapes.

    The entries of ``beside`` follow, for calls. The results are those of the operation, without
    tapes. The answer is None if an operand is a tape, if there is no other result, or if the
    operation cannot be rebuilt because it states sizes as symbols.
    """
    params = tuple(
        Param(v.type.with_shape(a.shape), f"x{i}")
        for i, (v, a) in enumerate(zip(op.operands, operands, strict=True))
    )
    results = [i for i, t in enumerate(op.result_types) if t.dtype.kind != "t"]
    if any(p.dtype.kind == "t" for p in params) or not results:
        return None
    try:
        with (builder := Builder()):
            new = op.rebuild(params)
    except UserError:
        return None
    given: tuple[Value, ...] = tuple(new.results[i] for i in results)
    name = next(n for i in range(len(beside.entries) + 1) if (n := f"main{i or ''}") not in beside)
    return Module((Function(name, params, tuple(builder.ops), given), *beside.entries))
