"""The tape: a stack on which a loop of unknown length keeps what its derivative needs.

A tape is a value, threaded through loops like any other, and each version of it is used once:
what a forward loop pushes, the backward loop pops in reverse. In the interpreter it is a linked
list; in machine code it is a stack of chunks that grows at run time, owned by the call.

The cotangents of a tape that nobody pops, however much is on it, are those of an empty one: under
what was pushed, a tape holds zeros without end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import TAPE, Array, TensorType, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ops.families import Control


class Push(Control):
    """The tape with the values on top of it."""

    name = "push"
    from_passes = True
    tape: Value
    xs: tuple[Value, ...]

    def infer(self) -> TensorType:
        """A tape."""
        return _is_tape(self, self.tape)

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """A cell with the values and the rest."""
        cell = np.empty((), object)
        cell[()] = (operands[0][()], tuple(np.array(x) for x in operands[1:]))
        return (cell,)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """The cotangent of a tape is a tape of the cotangents of its floats."""
        floats = [x.type for x in self.xs if x.dtype.is_float]
        rest, *found = Pop(dy[0], (self.type, *floats)).results
        parts = iter(found)
        return (rest, *(next(parts) if x.dtype.is_float else None for x in self.xs))


class Pop(Control):
    """The tape without its top, and the values that were there; of an empty tape, zeros."""

    name = "pop"
    from_passes = True
    tape: Value
    types: tuple[TensorType, ...]

    def infer(self) -> tuple[TensorType, ...]:
        """As written: the tape, then the types that were pushed."""
        _is_tape(self, self.tape)
        if not self.types or self.types[0].dtype != TAPE:
            raise DTypeError(f"pop: the first result is the tape, found {self.types}")
        return self.types

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Open the top cell, if there is one."""
        zeros = tuple(np.zeros(machine.shape(t), t.dtype.numpy) for t in self.types[1:])
        rest, values = operands[0][()] or ((), zeros)
        cell = np.empty((), object)
        cell[()] = rest
        return (cell, *values)

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        """Where a value was popped, its cotangent is pushed."""
        floats = tuple(d for d in dy[1:] if d.dtype.is_float)
        return (Push(dy[0], floats),)


def _is_tape(op: Push | Pop, tape: Value) -> TensorType:
    if tape.dtype != TAPE:
        raise DTypeError(f"{op.name}: expected a tape, found {tape.type}")
    return tape.type
