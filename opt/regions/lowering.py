"""Operations that state their own lowering, written out in the operations of that lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dlvm.base.errors import IRError
from dlvm.ir import Builder, Function, Op, Value
from dlvm.ir.core import as_tuple
from dlvm.ir.rewrite import Env, Visit, everywhere, renewed, transform
from dlvm.ops.elements.casting import converted
from dlvm.passes import function_pass

MAX_LEVELS = 100  # lowerings within lowerings


@function_pass
def lower(fn: Function) -> Function:
    """Replaces each operation whose class defines ``lowering`` by the values it returns.

    Derivatives and batched forms have been taken by then, by the operation's own rules. A
    lowering may use operations that have one themselves. Solves and determinants stay, as laws
    speak of them: ``open_solves`` replaces these.
    """
    return _lowered(fn, lambda op, env: None if op.lowered_late else _written(op, env))


@function_pass
def open_solves(fn: Function) -> Function:
    """Replaces solves and determinants by steps with the factors of their matrices."""
    return _lowered(fn, lambda op, env: _written(op, env) if op.lowered_late else None)


def _lowered(fn: Function, visit: Visit) -> Function:
    for _ in range(MAX_LEVELS):
        lowered = everywhere(fn, lambda body: transform(body, visit))
        if lowered is fn:
            return fn
        fn = lowered
    raise IRError(
        f"lowerings within lowerings did not end after {MAX_LEVELS} levels",
        remedy="define lowering() without the operation itself",
    )


def _written(op: Op, env: Env) -> Iterable[Value] | None:
    if type(op).lowering is Op.lowering:
        return None
    with Builder():  # the operation itself must not be appended to the function
        op = renewed(op, env)
    values = in_floats(op, lambda op: as_tuple(op.lowering()))
    found = tuple(v.type for v in values)
    if found != op.result_types:
        expected = ", ".join(map(str, op.result_types))
        raise IRError(
            f"lowering() of {op.name} must return {expected}, found {', '.join(map(str, found))}",
            remedy="let lowering() return values of the types that infer() returns",
        )
    return values


def in_floats(op: Op, written: Callable[[Op], tuple[Value, ...]]) -> tuple[Value, ...]:
    """What an operation is written as; halves are widened, and rounded once, not at each step."""
    if all(x.dtype == x.dtype.compute for x in op.operands):
        return written(op)
    operands = [converted(x, x.dtype.compute) for x in op.operands]
    with Builder():
        wider = op.rebuild(operands)
    pairs = zip(written(wider), op.result_types, strict=False)
    return tuple(converted(value, t.dtype) if value.dtype.is_float else value for value, t in pairs)
