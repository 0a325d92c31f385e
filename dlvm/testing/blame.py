"""Which operation a wrong derivative comes from: each is checked alone, where the program runs it.

A program is run once by the references, and what goes into every operation is kept. One that has a
rule of its own (control flow has none) becomes a program by itself, at these operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from dlvm.base.errors import DlvmError
from dlvm.ir import Array, Module, Op
from dlvm.ops import Call
from dlvm.ops.families import Control, Creation, Effect, Movement
from dlvm.ops.flow.custom import Custom
from dlvm.trust.alone import alone
from dlvm.trust.rounding import Run

from .findings import Blame

IsWrong = Callable[[Module, Sequence[Array], tuple[int, ...], int], bool]
MOST = 200
"""How many operations are looked at."""


def guilty(module: Module, arrays: Sequence[Array], order: int, is_wrong: IsWrong) -> Blame | None:
    """The first operation whose derivative, of this order or below, is wrong by itself."""
    machine = Run(module, seen={})
    try:
        with np.errstate(all="ignore"):
            machine.enter(module.main.name, arrays)
        for op, operands in islice((machine.seen or {}).items(), MOST):
            wrt = varied(op)
            single = alone(op, operands, module) if wrt else None
            if single is not None and is_wrong(single, operands, wrt, order):
                return Blame(op.callee.name if isinstance(op, Call) else op.name, op.origin)
    except DlvmError:  # the error that is being explained matters more
        return None
    return None


def varied(op: Op) -> tuple[int, ...]:
    """The operands that an operation has a rule for; what a rule of the user captures has none."""
    if isinstance(op, Creation | Effect | Movement) or op.nondifferentiable:
        return ()
    if isinstance(op, Control) and not isinstance(op, Custom):
        return ()
    if not any(t.dtype.is_float for t in op.result_types):
        return ()
    operands = op.xs if isinstance(op, Custom) else op.operands
    return tuple(i for i, v in enumerate(operands) if v.dtype.is_float)
