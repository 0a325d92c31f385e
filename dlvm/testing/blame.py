"""Finds the operation whose derivative is wrong: each one is checked alone, at its own operands.

The program runs once by the references, and the operands of every operation are kept. Each
operation with a derivative rule of its own (control flow has none) is then checked as a program by
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from dlvm.base.errors import DlvmError, Origin
from dlvm.ir import Array, Module, Op
from dlvm.ops.families import Control, Creation, Effect, Movement
from dlvm.ops.flow.custom import CustomJvp, CustomVjp
from dlvm.trust.alone import alone, operands_of, reached

from .findings import Blame

IsWrong = Callable[[Module, Sequence[Array], tuple[int, ...], int], bool]
CHECKED_OPERATIONS = 200
"""Number of operations that are checked."""


def guilty(
    module: Module,
    arrays: Sequence[Array],
    order: int,
    is_wrong: IsWrong,
    of_values: bool,
    stated: bool = False,
) -> Blame | None:
    """The first operation whose derivative, of this order or below, is wrong by itself.

    With ``of_values``, the wrong number is the value that the derivative rule returns, not the
    slope. With ``stated``, only derivatives that the program states are checked.
    """
    try:
        every = operands_of(module, module.main.name, arrays)
        seen = ((op, xs) for op, xs in every.items() if op.ruled or not stated)
        for op, operands in islice(seen, CHECKED_OPERATIONS):
            wrt = () if is_surrogate(op) else varied(op)
            single = alone(op, operands, module) if wrt else None
            if single is not None and is_wrong(single, operands, wrt, order):
                said = op.called.name if op.called else op.name
                return Blame(said, op.origin, rule_line(op, module, of_values))
    except DlvmError:  # the error that is being explained matters more
        return None
    return None


def rule_line(op: Op, module: Module, of_values: bool) -> Origin | None:
    """The first line of a user's rule for an operation."""
    match op:
        case CustomVjp():
            rule = op.forward if of_values else op.backward
        case CustomJvp():
            rule = op.rule
        case _:
            return None
    written = (inner.origin for inner in module.function(rule.name).ops)
    return next((at for at in written if at is not None), None)


def is_surrogate(op: Op) -> bool:
    """Whether the derivative of an operation is meant to differ from its slope."""
    return isinstance(op, CustomVjp | CustomJvp) and op.surrogate


def surrogates(module: Module) -> tuple[Op, ...]:
    """The operations that a call may run whose derivatives are meant to differ from their slopes.

    Those that only other functions of the module run are none of it: each operation that is
    checked alone comes with the whole module.
    """
    return tuple(op for op in reached(module, module.main) if is_surrogate(op))


def varied(op: Op) -> tuple[int, ...]:
    """The operands that have a derivative rule; values that a user's rule captures have none."""
    if isinstance(op, Creation | Effect | Movement) or op.nondifferentiable:
        return ()
    if isinstance(op, Control) and op.ruled is None:
        return ()
    if not any(t.dtype.is_float for t in op.result_types):
        return ()
    operands = op.operands if op.ruled is None else op.ruled
    return tuple(i for i, v in enumerate(operands) if v.dtype.is_float)
