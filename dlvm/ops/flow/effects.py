"""Effects: they are roots, keep their order, and no pass drops or merges them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import AssertionFailed, NumberOutOfRange, ShapeError, UserError
from dlvm.ir import BOOL, Array, TensorType, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ir.taps import Line, record
from dlvm.ops.families import Effect


class Assert(Effect):
    """End the call with an error at the user's line unless the condition holds.

    With a ``remedy`` the error is that of a Python integer that is out of range.
    """

    name = "assert"
    can_raise: ClassVar[bool] = True
    nondifferentiable = "it has no result"
    condition: Value
    message: str
    remedy: str = ""

    def infer(self) -> tuple[TensorType, ...]:
        """No result, from a scalar bool."""
        if self.condition.type != TensorType(BOOL):
            raise ShapeError(f"assert: expected a scalar bool, found {self.condition.type}")
        return ()

    def reference(self, *operands: Array) -> Any:
        if not operands[0]:
            raise self.error()
        return ()

    def error(self) -> UserError:
        """The error of a call in which the condition does not hold."""
        if self.remedy:
            return NumberOutOfRange(self.message, origin=self.origin, remedy=self.remedy)
        return AssertionFailed(self.message, origin=self.origin)


class Outgoing(Effect):
    """What gives a value to the world outside, under a label.

    Of a value that ranks of a mesh share it gives the whole, or with ``ranks`` the pieces, along a
    new first axis.
    """

    x: Value
    label: str
    ranks: bool = False
    nondifferentiable = "it has no result"

    def infer(self) -> tuple[TensorType, ...]:
        """No result."""
        return ()


class Print(Outgoing):
    """Write a value under a label when the call gets there."""

    name = "print"

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Write it."""
        machine.write(Line(self.label, np.asarray(operands[0])))
        return ()


class Tap(Outgoing):
    """Give a value, under a name, to whoever listens when the call gets there."""

    name = "tap"

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Tell those who listen."""
        record(self.label, np.asarray(operands[0]))
        return ()
