"""Effects: they are roots, keep their order, and no pass drops or merges them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import AssertionFailed, ShapeError
from dlvm.ir import BOOL, Array, TensorType, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ir.taps import Line, record
from dlvm.ops.families import Effect


class Assert(Effect):
    """End the call with an error at the user's line unless the condition holds."""

    name = "assert"
    can_raise: ClassVar[bool] = True
    nondifferentiable = "it has no result"
    condition: Value
    message: str

    def infer(self) -> tuple[TensorType, ...]:
        """No result, from a scalar bool."""
        if self.condition.type != TensorType(BOOL):
            raise ShapeError(f"assert: expected a scalar bool, found {self.condition.type}")
        return ()

    def reference(self, *operands: Array) -> Any:
        if not operands[0]:
            raise AssertionFailed(self.message)
        return ()


class Outgoing(Effect):
    """What gives a value to the world outside, under a label."""

    nondifferentiable = "it has no result"

    def infer(self) -> tuple[TensorType, ...]:
        """No result."""
        return ()


class Print(Outgoing):
    """Write a value under a label when the call gets there."""

    name = "print"
    x: Value
    label: str

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Write it."""
        machine.write(Line(self.label, np.asarray(operands[0])))
        return ()


class Tap(Outgoing):
    """Give a value, under a name, to whoever listens when the call gets there."""

    name = "tap"
    x: Value
    label: str

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Tell those who listen."""
        record(self.label, np.asarray(operands[0]))
        return ()
