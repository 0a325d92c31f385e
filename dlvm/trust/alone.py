"""Each operation of a program by itself, which shows whether that operation alone is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import Array, Builder, Declaration, Function, Module, Op, Param, Value

from .rounding import Run

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


def operands_of(module: Module, name: str, arrays: Sequence[Array]) -> Mapping[Op, list[Array]]:
    """The operands of every operation that a call runs by the references, in its first execution.

    There are none if the call raises a user's error.
    """
    seen: dict[Op, list[Array]] = {}
    try:
        with np.errstate(all="ignore"):
            Run(module, seen=seen).enter(name, arrays)
    except UserError:
        return {}
    return seen


def reached(module: Module, fn: Function) -> Iterator[Op]:
    """Every operation that a call of the function may run, or that its derivatives come from."""
    pending, seen = [fn], {fn.name}
    while pending:
        for op in pending.pop().walk():
            yield op
            if op.called is not None and op.called.name not in seen:
                seen.add(op.called.name)
                pending.append(_written(module, op.called.name))


def _written(module: Module, name: str) -> Function:
    """The function of this name, or the one that a derivative of this name is derived from."""
    entry = module.entry(name)
    while isinstance(entry, Declaration):
        entry = module.entry(entry.of)
    return entry
