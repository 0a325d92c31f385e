"""Control: calls, branches, loops and recomputation, as operations that hold closed functions.

What a region captures is an explicit operand. Bodies run with the symbols of the function
around them. Derivatives and batching of these are registered by ad/, their lowering by gen/.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.base.errors import IRError, ShapeError
from dlvm.ir import BOOL, Array, Dim, Function, FunctionRef, TensorType, Value
from dlvm.ir.interpret import Interpreter
from dlvm.ir.rewrite import types_of
from dlvm.ops.families import Control, check_region

POLICIES = ("nothing", "everything", "products", "names:...")


class Call(Control):
    """The results of a function of the module on these operands."""

    name = "call"
    xs: tuple[Value, ...]
    callee: FunctionRef
    types: tuple[TensorType, ...]

    def infer(self) -> tuple[TensorType, ...]:
        """As written; the verifier holds them against the callee."""
        return self.types

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Enter the callee with symbols of its own."""
        return machine.enter(self.callee.name, operands)


class Cond(Control):
    """The results of ``then`` where the condition holds, else of ``otherwise``.

    Only the branch that is taken runs. Both take the same captured values. In a batched form
    whose lanes go both ways ``otherwise_first`` says which branch uses a tape first: what one
    way pushes, the way back pops in the opposite order.
    """

    name = "cond"
    condition: Value
    captured: tuple[Value, ...]
    then: Function
    otherwise: Function
    otherwise_first: bool = False

    def infer(self) -> tuple[TensorType, ...]:
        """A scalar bool, and branches of one signature."""
        if self.condition.type != TensorType(BOOL):
            raise ShapeError(f"cond: expected a scalar bool, found {self.condition.type}")
        params = types_of(self.captured)
        results = check_region(self, "then", self.then, params)
        return check_region(self, "otherwise", self.otherwise, params, results)

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Run one branch."""
        branch = self.then if operands[0] else self.otherwise
        return machine.call(branch, operands[1:])


class While(Control):
    """Repeat ``body`` on the carried values while ``condition`` holds of them.

    Both regions take the carried values, then the captured ones; ``condition`` gives a scalar
    bool and is pure, ``body`` gives new carried values. Zero trips are fine.
    """

    name = "while"
    init: tuple[Value, ...]
    captured: tuple[Value, ...]
    condition: Function
    body: Function

    def infer(self) -> tuple[TensorType, ...]:
        """The types of the carried values, which never change."""
        carried = types_of(self.init)
        params = (*carried, *types_of(self.captured))
        check_region(self, "condition", self.condition, params, (TensorType(BOOL),))
        if self.condition.has_effect:
            raise IRError("while: condition must be pure, found an effect in it")
        return check_region(self, "body", self.body, params, carried)

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The loop itself."""
        carried, captured = operands[: len(self.init)], operands[len(self.init) :]
        while machine.call(self.condition, (*carried, *captured))[0]:
            carried = machine.call(self.body, (*carried, *captured))
        return tuple(carried)


class Scan(Control):
    """``length`` steps over the leading axis of ``xs``, carrying values along.

    ``body`` takes the carried values, one slice of each of ``xs``, then the captured values;
    it gives new carried values, then one slice of each stacked result. With ``reverse`` the
    steps go from the last slice to the first; each stacked result keeps its place. ``unroll``
    says how many steps machine code takes in one trip; no bit depends on it.
    """

    name = "scan"
    init: tuple[Value, ...]
    xs: tuple[Value, ...]
    captured: tuple[Value, ...]
    body: Function
    length: Dim
    reverse: bool = False
    unroll: int = 1

    def infer(self) -> tuple[TensorType, ...]:
        """The carried types, then the stacked types."""
        if self.unroll < 1:
            raise IRError(f"scan: unroll={self.unroll}: a trip takes at least one step")
        for x in self.xs:
            if x.type.rank == 0 or x.shape[0] != self.length:
                raise ShapeError(f"scan: expected {self.length} slices, found {x.type}")
        carried = types_of(self.init)
        slices = tuple(x.type.with_shape(x.shape[1:]) for x in self.xs)
        results = check_region(
            self, "body", self.body, (*carried, *slices, *types_of(self.captured))
        )
        if results[: len(carried)] != carried:
            raise ShapeError(f"scan: the body must give the carried {carried}, found {results}")
        stacked = results[len(carried) :]
        return (*carried, *(t.with_shape((self.length, *t.shape)) for t in stacked))

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The loop itself; stacked results are filled slice by slice."""
        concrete = machine.concrete(self)
        assert isinstance(concrete, Scan)
        n, carries, inputs = int(concrete.length), len(self.init), len(self.xs)
        carried = tuple(operands[:carries])
        xs = operands[carries : carries + inputs]
        captured = operands[carries + inputs :]
        stacked = [np.zeros(machine.shape(t), t.dtype.numpy) for t in self.result_types[carries:]]
        for i in reversed(range(n)) if self.reverse else range(n):
            out = machine.call(self.body, (*carried, *(np.asarray(x[i]) for x in xs), *captured))
            carried = out[:carries]
            for whole, part in zip(stacked, out[carries:], strict=True):
                whole[i] = part
        return (*carried, *stacked)


class Checkpoint(Control):
    """The results of ``body``, whose inner values the derivative computes again, not keeps.

    But for those that ``policy`` saves: ``nothing``, ``everything``, ``products``, or ``names:``
    and the labels of ``named`` values, with commas between them.
    """

    name = "checkpoint"
    xs: tuple[Value, ...]
    body: Function
    policy: str = "nothing"

    def infer(self) -> tuple[TensorType, ...]:
        """The results of the body."""
        if self.policy not in POLICIES and not self.policy.startswith("names:"):
            raise IRError(f"checkpoint: no policy {self.policy!r}; there are {', '.join(POLICIES)}")
        return check_region(self, "body", self.body, types_of(self.xs))

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The body itself."""
        return machine.call(self.body, operands)


class Recompute(Control):
    """The results of ``body``, computed no sooner than the ``triggers`` are there.

    No pass shares, folds or hoists across it; it is opened after the last sharing, so that
    what was computed again for a derivative is not merged with its first computation.
    """

    name = "recompute"
    xs: tuple[Value, ...]
    triggers: tuple[Value, ...]
    body: Function

    def infer(self) -> tuple[TensorType, ...]:
        """The results of the body, which does not see the triggers."""
        return check_region(self, "body", self.body, types_of(self.xs))

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The body itself."""
        return machine.call(self.body, operands[: len(self.xs)])


class Kernel(Control):
    """A group of operations that becomes one loop nest; its meaning is inlining it.

    ``family`` says how it is lowered. ``tree`` is the order of its reductions: the reduced
    axes, taken together in row-major order, are cut into chunks of ``tree[0]``; within a chunk
    element k goes to accumulator k mod ``tree[1]``, accumulators are folded by halves, chunks
    from first to last. A ``fold``, whose region need not commute, goes from first to last.
    """

    name = "kernel"
    xs: tuple[Value, ...]
    body: Function
    family: str
    tree: tuple[int, int] = (4096, 32)

    def infer(self) -> tuple[TensorType, ...]:
        """The results of the body."""
        return check_region(self, "body", self.body, types_of(self.xs))

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """The body itself."""
        return machine.call(self.body, operands)
