"""Control: calls, branches, loops and recomputation, as operations that hold closed functions.

What a region captures is an explicit operand. Bodies run with the symbols of the function
around them. How values pass through the bodies each class states as its ``dataflow``, from which
its shape rule and its meaning follow. Derivatives and batching are registered by ad/, lowering by
gen/.
"""

from __future__ import annotations

from typing import Any, ClassVar

from dlvm.base.errors import IRError
from dlvm.ir import Array, Dim, Function, FunctionRef, TensorType, Value
from dlvm.ir.dataflow import Dataflow, Runs
from dlvm.ir.interpret import Interpreter
from dlvm.ops.families import Control

from .structured import Structured

POLICIES = ("nothing", "everything", "products", "names:...")


class Call(Control):
    """The results of a function of the module on these operands."""

    name = "call"
    enters: ClassVar[str] = "callee"
    xs: tuple[Value, ...]
    callee: FunctionRef
    types: tuple[TensorType, ...]

    def infer(self) -> tuple[TensorType, ...]:
        """The types as written; the verifier compares them with the callee's."""
        return self.types

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Enter the callee with symbols of its own."""
        return machine.enter(self.callee.name, operands)


class Cond(Structured):
    """The results of ``then`` where the condition holds, else of ``otherwise``.

    Only the branch that is taken runs. Both take the same captured values. In a batched form
    whose lanes go both ways ``otherwise_first`` says which branch uses a tape first: what one
    way pushes, the way back pops in the opposite order.
    """

    name = "cond"
    dataflow = Dataflow(
        bodies=("then", "otherwise"), runs=Runs.CHOICE, steers=("condition",), captured="captured"
    )
    condition: Value
    captured: tuple[Value, ...]
    then: Function
    otherwise: Function
    otherwise_first: bool = False


class While(Structured):
    """Repeat ``body`` on the carried values while ``condition`` holds of them.

    Both regions take the carried values, then the captured ones; ``condition`` gives a scalar
    bool and is pure, ``body`` gives new carried values. Zero trips are fine.
    """

    name = "while"
    dataflow = Dataflow(runs=Runs.WHILE, carried=("init",), captured="captured", test="condition")
    init: tuple[Value, ...]
    captured: tuple[Value, ...]
    condition: Function
    body: Function


class Scan(Structured):
    """``length`` steps over the leading axis of ``xs``, carrying values along.

    ``body`` takes the carried values, one slice of each of ``xs``, then the captured values;
    it gives new carried values, then one slice of each stacked result. With ``reverse`` the
    steps go from the last slice to the first; each stacked result keeps its place. ``unroll``
    says how many steps machine code takes in one trip; no bit depends on it.
    """

    name = "scan"
    dataflow = Dataflow(
        runs=Runs.COUNTED,
        carried=("init",),
        sliced=("xs",),
        captured="captured",
        length="length",
        backward="reverse",
    )
    init: tuple[Value, ...]
    xs: tuple[Value, ...]
    captured: tuple[Value, ...]
    body: Function
    length: Dim
    reverse: bool = False
    unroll: int = 1

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The carried types, then the stacked types."""
        if self.unroll < 1:
            raise IRError(f"scan: unroll={self.unroll}: a trip takes at least one step")
        return super().infer()


class Checkpoint(Structured):
    """The results of ``body``, whose inner values the derivative computes again.

    ``policy`` says which of them it keeps instead: ``nothing``, ``everything``, ``products``, or
    ``names:`` followed by the labels of ``named`` values, separated by commas.
    """

    name = "checkpoint"
    dataflow = Dataflow(again=True)
    xs: tuple[Value, ...]
    body: Function
    policy: str = "nothing"

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The results of the body."""
        if self.policy not in POLICIES and not self.policy.startswith("names:"):
            raise IRError(f"checkpoint: no policy {self.policy!r}; there are {', '.join(POLICIES)}")
        return super().infer()


class Recompute(Structured):
    """The results of ``body``, computed no sooner than the ``triggers`` are there.

    No pass shares, folds or hoists across it; it is opened after the last sharing, so that
    what was computed again for a derivative is not merged with its first computation.
    """

    name = "recompute"
    from_passes = True
    dataflow = Dataflow(steers=("triggers",), again=True)
    xs: tuple[Value, ...]
    triggers: tuple[Value, ...]
    body: Function
