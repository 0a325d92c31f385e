"""Control operations that hold bodies: their rules and answers, from the dataflow they state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dlvm.base.errors import IRError, ShapeError
from dlvm.ir import BOOL, OPS, Array, Dim, Function, Op, TensorType, Value
from dlvm.ir.dataflow import Dataflow, Runs
from dlvm.ir.interpret import Interpreter
from dlvm.ir.rewrite import types_of
from dlvm.ops.families import Control, check_region

Types = tuple[TensorType, ...]


class Structured(Control):
    """Holds bodies, and states on the class how values pass through them: see ``Dataflow``.

    Parameter ``j`` of each body, and of the test, stands for operand ``j + offset``. The first
    ``carries`` results are those that a loop carries; result ``i`` of the operation comes from
    result ``i`` of every body in ``giving``.
    """

    dataflow: ClassVar[Dataflow]  # type: ignore[reportIncompatibleVariableOverride]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in cls.__dict__ and (problem := _unlike_fields(cls)):
            del OPS[cls.name]
            raise IRError(f"the dataflow of {cls.name}: {problem}")

    # -- what passes ask -------------------------------------------------------------------------

    @cached_property
    def offset(self) -> int:
        """How many operands stand before those that bodies see."""
        if not self.dataflow.steers:
            return 0
        first = next(s.name for s in self.layout if s.kind.startswith("operand"))
        return self._count(self.dataflow.steers) if first in self.dataflow.steers else 0

    @cached_property
    def seen(self) -> slice:
        """Which operands bodies see, one for each parameter."""
        first = self.offset
        hidden = self._count(self.dataflow.steers)
        return slice(first, first + len(self.operands) - hidden)

    @cached_property
    def carries(self) -> int:
        """How many values a loop carries."""
        return self._count(self.dataflow.carried)

    @cached_property
    def slices(self) -> int:
        """How many parameters behind the carried ones are slices."""
        return self._count(self.dataflow.sliced)

    @cached_property
    def giving(self) -> tuple[Function, ...]:
        """The regions whose results are those of the operation."""
        return tuple(getattr(self, name) for name in self.dataflow.bodies)

    @property
    def test(self) -> Function | None:
        """The region that says whether there is another trip."""
        return getattr(self, self.dataflow.test) if self.dataflow.test else None

    @property
    def steering(self) -> tuple[Value, ...]:
        """What is needed whenever the operation is: choices, triggers, the result of a test."""
        values = self.operands[: self.offset] or self.operands[self.seen.stop :]
        return values if self.test is None else (*values, *self.test.results)

    @property
    def trips(self) -> Dim:
        """The number of trips of a counted loop; 1 for others."""
        return getattr(self, self.dataflow.length) if self.dataflow.length else 1

    @property
    def backward(self) -> bool:
        """Whether a loop goes from the last slice to the first."""
        return bool(self.dataflow.backward) and getattr(self, self.dataflow.backward)

    def regrouped(
        self,
        operands: Sequence[Value | Sequence[Value] | None],
        regions: Mapping[str, Function],
        captured: Sequence[Value] = (),
        sliced: Sequence[Value] = (),
    ) -> Op:
        """The operation on other operands and with other regions, by name.

        Each operand is given as a value, several or none. More captured and sliced ones may follow.
        """
        rest = iter(operands)
        values: dict[str, Any] = {}
        for spec in self.layout:
            old = getattr(self, spec.name)
            if spec.kind == "operand":
                values[spec.name] = next(rest)
            elif spec.kind == "operands":
                given = (next(rest) for _ in old)
                values[spec.name] = tuple(v for group in given for v in _listed(group))
            else:
                values[spec.name] = regions.get(spec.name, old)
        if captured:
            values[self.dataflow.captured] += tuple(captured)
        if sliced:
            values[self.dataflow.sliced[-1]] += tuple(sliced)
        new = type(self)(**values)
        new.origin = self.origin
        return new

    def _count(self, fields: tuple[str, ...]) -> int:
        found = (getattr(self, name) for name in fields)
        return sum(1 if isinstance(v, Value) else len(v) for v in found)

    # -- the shape rule ----------------------------------------------------------------------------

    def infer(self) -> TensorType | Types:
        """The types of the carried results, then of the others; bodies fit the operands."""
        flow = self.dataflow
        if flow.runs is Runs.CHOICE and self.operands[0].type != TensorType(BOOL):
            raise ShapeError(f"{self.name}: expected a scalar bool, found {self.operands[0].type}")
        given = types_of(self.operands[self.seen])
        n, m = self.carries, self.carries + self.slices
        carried = given[:n]
        params = (*carried, *map(self._slice, given[n:m]), *given[m:])
        if self.test is not None:
            check_region(self, flow.test, self.test, params, (TensorType(BOOL),))
            if self.test.has_effect:
                raise IRError(f"{self.name}: {flow.test} must be pure, found an effect in it")
        results = carried if flow.runs is Runs.WHILE else None
        for name, body in zip(flow.bodies, self.giving, strict=True):
            results = check_region(self, name, body, params, results)
        assert results is not None
        if results[:n] != carried:
            said = f"{self.name}: the body must give the carried {carried}, found {results}"
            raise ShapeError(said)
        if flow.runs is not Runs.COUNTED:
            return results
        return (*carried, *(t.with_shape((self.trips, *t.shape)) for t in results[n:]))

    def _slice(self, t: TensorType) -> TensorType:
        if t.rank == 0 or t.shape[0] != self.trips:
            raise ShapeError(f"{self.name}: expected {self.trips} slices, found {t}")
        return t.with_shape(t.shape[1:])

    # -- the meaning -------------------------------------------------------------------------------

    def run(self, machine: Interpreter, *operands: Array) -> tuple[Any, ...]:
        """Run the bodies as often as the dataflow says."""
        seen = operands[self.seen]
        match self.dataflow.runs:
            case Runs.ONCE:
                return machine.call(self.giving[0], seen)
            case Runs.CHOICE:
                return machine.call(self.giving[0 if operands[0] else 1], seen)
            case Runs.WHILE:
                return self._while(machine, seen)
            case Runs.COUNTED:
                return self._counted(machine, seen)

    def _while(self, machine: Interpreter, seen: tuple[Array, ...]) -> tuple[Any, ...]:
        carried, captured = seen[: self.carries], seen[self.carries :]
        (body,), test = self.giving, self.test
        assert test is not None
        while machine.call(test, (*carried, *captured))[0]:
            carried = machine.call(body, (*carried, *captured))
        return carried

    def _counted(self, machine: Interpreter, seen: tuple[Array, ...]) -> tuple[Any, ...]:
        """Stacked results are filled slice by slice; each keeps its place, backward too."""
        n, m = self.carries, self.carries + self.slices
        (trips,) = machine.shape(TensorType(BOOL, (self.trips,)))
        carried, xs, captured = seen[:n], seen[n:m], seen[m:]
        stacked = [np.zeros(machine.shape(t), t.dtype.numpy) for t in self.result_types[n:]]
        for i in range(trips)[:: -1 if self.backward else 1]:
            slices = (np.asarray(x[i]) for x in xs)
            out = machine.call(self.giving[0], (*carried, *slices, *captured))
            carried = out[:n]
            for whole, part in zip(stacked, out[n:], strict=True):
                whole[i] = part
        return (*carried, *stacked)


def _listed(given: Value | Sequence[Value] | None) -> Sequence[Value]:
    return () if given is None else (given,) if isinstance(given, Value) else given


def _unlike_fields(cls: type[Structured]) -> str | None:
    """What the dataflow of a class says that its fields do not bear out, or None."""
    flow = cls.dataflow
    operands = [s.name for s in cls.layout if s.kind in ("operand", "operands")]
    regions = [s.name for s in cls.layout if s.kind == "region"]
    if sorted(regions) != sorted((*flow.bodies, *filter(None, (flow.test,)))):
        return f"expected each region as a body or the test, found {regions}"
    seen = [name for name in operands if name not in flow.steers]
    whole = seen[len(flow.carried) + len(flow.sliced) :]
    if seen != [*flow.carried, *flow.sliced, *whole] or flow.captured not in ("", *whole[-1:]):
        return f"expected the operands carried, sliced, then captured ones, found {operands}"
    before, behind = ([*flow.steers, *seen], [*seen, *flow.steers])
    if operands != before and (operands != behind or flow.runs is Runs.CHOICE):
        return f"expected operands {flow.steers} before all others, found {operands}"
    return _contradiction(flow)


def _contradiction(flow: Dataflow) -> str | None:
    """What one part of a dataflow says that another contradicts, or None."""
    demanded = {
        "a body, and a second one for a choice": len(flow.bodies)
        == (2 if flow.runs is Runs.CHOICE else 1),
        "a test where it runs while one holds, and only there": bool(flow.test)
        == (flow.runs is Runs.WHILE),
        "a length where trips are counted, and only there": bool(flow.length)
        == (flow.runs is Runs.COUNTED),
        "slices only where trips are counted": not flow.sliced or bool(flow.length),
        "carried values only in loops": not flow.carried or flow.loops,
        "captured operands, where it is a loop or a choice": bool(flow.captured)
        or flow.runs is Runs.ONCE,
        "an operand that a choice goes by": bool(flow.steers) or flow.runs is not Runs.CHOICE,
    }
    return next((f"expected {rule}" for rule, holds in demanded.items() if not holds), None)
