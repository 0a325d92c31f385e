"""Operations that state their own lowering, written out in the operations of that lowering."""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.base.errors import IRError
from dlvm.ir import Builder, Function, Op, Value
from dlvm.ir.core import as_tuple
from dlvm.ir.rewrite import Env, Visit, everywhere, renewed, transform
from dlvm.ops import Determinant, LogDeterminant, Solve
from dlvm.passes import function_pass

MAX_LEVELS = 100  # lowerings within lowerings
BY_FACTORS = Solve | Determinant | LogDeterminant
"""What is computed by the factors of a matrix, of which ``choose_factors`` knows better ones."""


@function_pass
def lower(fn: Function) -> Function:
    """Replaces each operation whose class defines ``lowering`` by the values it returns.

    Derivatives and batched forms have been taken by then, by the operation's own rules. A
    lowering may use operations that have one themselves. Solves and determinants stay, as laws
    speak of them: ``open_solves`` replaces these.
    """
    return _lowered(fn, lambda op, env: None if isinstance(op, BY_FACTORS) else _written(op, env))


@function_pass
def open_solves(fn: Function) -> Function:
    """Replaces solves and determinants by steps with the factors of their matrices."""
    return _lowered(fn, lambda op, env: _written(op, env) if isinstance(op, BY_FACTORS) else None)


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
    values = as_tuple(op.lowering())
    found = tuple(v.type for v in values)
    if found != op.result_types:
        expected = ", ".join(map(str, op.result_types))
        raise IRError(
            f"lowering() of {op.name} must return {expected}, found {', '.join(map(str, found))}",
            remedy="let lowering() return values of the types that infer() returns",
        )
    return values
