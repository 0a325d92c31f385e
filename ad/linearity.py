"""Checks that code is linear in some of its inputs, before the code is transposed.

A value that depends on these inputs *moves*. An operation is linear in its moving operands if the
cotangents that its adjoint gives for them read neither moving operands nor results. A moving value
may not choose a branch or end a loop. Regions and callees are checked recursively, and loops until
the set of carried values that move reaches a fixed point, so a product of a carried value with
itself is found however many trips the loop makes. Tapes are tracked: a popped value moves if every
value pushed in that position, with those types, on one of the tapes moved.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from dlvm.ir import Builder, Function, Op, Param, TensorType, Value
from dlvm.ir.rewrite import types_of
from dlvm.ops import Custom, CustomJvp, CustomVjp, EmptyTape, Pop, Push, Structured

from .activity import Dependence, Flags, flows
from .live import free_values, live
from .reverse import Engine, leaf_adjoint

Tapes = frozenset[Op]
"""The tapes that a value may be, each named by the ``EmptyTape`` that began it."""
Pushed = tuple[Op, tuple[TensorType, ...]]
State = tuple[bool, Tapes]
STILL: State = (False, frozenset())


def not_linear(
    engine: Engine, fn: Function, moving: Flags, wanted: Flags | None = None
) -> Op | None:
    """The operation that makes the wanted results nonlinear in the moving parameters, or None.

    A result that should not depend on these parameters at all is a question for ``Dependence``.
    """
    check = LinearityCheck(engine)
    flags = wanted or (True,) * len(fn.results)
    ends = [r for r, f in zip(fn.results, flags, strict=True) if f]
    asked = Function(fn.name, fn.params, live(fn.ops, ends), tuple(ends))
    check.settled(asked, [(f, frozenset[Op]()) for f in moving])
    return check.culprit


@dataclass(slots=True)
class LinearityCheck:
    """The state of a check: the first culprit, and which pushed values moved."""

    engine: Engine
    culprit: Op | None = None
    moved: dict[Pushed, list[set[bool]]] = field(default_factory=dict[Pushed, list[set[bool]]])
    calls: dict[tuple[str, tuple[State, ...]], tuple[State, ...]] = field(
        default_factory=dict[tuple[str, tuple[State, ...]], tuple[State, ...]]
    )

    def settled(self, fn: Function, params: Sequence[State]) -> tuple[State, ...]:
        """The states of the results, iterated until the states on tapes reach a fixed point."""
        while True:
            before = {k: [set(s) for s in v] for k, v in self.moved.items()}
            self.culprit = None
            self.calls.clear()
            found = self.through(fn, params)
            if self.moved == before:
                return found

    def through(self, fn: Function, params: Sequence[State]) -> tuple[State, ...]:
        """The states of the results of a body, given the states of its parameters."""
        states: dict[Value, State] = dict(zip(fn.params, params, strict=True))
        for op in fn.ops:
            operands = [states.get(v, STILL) for v in op.operands]
            found = self.results(op, operands)
            states.update(zip(op.results, found, strict=True))
        return tuple(states.get(r, STILL) for r in fn.results)

    def results(self, op: Op, operands: Sequence[State]) -> Sequence[State]:
        """The states of the results of an operation."""
        if isinstance(op, EmptyTape):
            return [(False, frozenset((op,)))]
        if not any(moves or tapes for moves, tapes in operands):
            return [STILL] * len(op.results)
        if isinstance(op, Push):
            return [self._push(op, operands)]
        if isinstance(op, Pop):
            return self._pop(op, operands[0])
        if isinstance(op, Custom):
            return self._custom(op, operands)
        if op.called is not None:
            return self._call(op.called.name, operands)
        if isinstance(op, Structured):
            return self._regions(op, operands)
        return self._leaf(op, [moves for moves, _ in operands])

    def _blame(self, op: Op) -> None:
        self.culprit = self.culprit or op

    # -- operations ------------------------------------------------------------------------------

    def _leaf(self, op: Op, moves: Sequence[bool]) -> Sequence[State]:
        if not self._is_linear(op, moves):
            self._blame(op)
        return [(True, frozenset[Op]())] * len(op.results)

    def _is_linear(self, op: Op, moves: Sequence[bool]) -> bool:
        """Whether no cotangent of a moving operand reads a moving operand or a result."""
        if op.nondifferentiable:
            return not op.results
        with Builder() as formula:
            seeds = [Param(r.type, "seed") for r in op.results]
            parts = leaf_adjoint(op, seeds)
        wanted = [p for p, m in zip(parts, moves, strict=True) if m]
        if None in wanted:
            return False
        ends = [p for p in wanted if p is not None]
        read = free_values(live(formula.ops, ends), ends, ())
        moving = {*(v for v, m in zip(op.operands, moves, strict=True) if m), *op.results}
        return moving.isdisjoint(read)

    def _regions(self, op: Structured, operands: Sequence[State]) -> Sequence[State]:
        entering = list(operands[op.seen])
        if any(moves for moves, _ in operands[: op.offset]):
            self._blame(op)
        if op.dataflow.loops:
            entering = self._entering(op, entering)
        if op.test is not None and self.through(op.test, entering)[0][0]:
            self._blame(op)
        found = [self.through(body, entering) for body in op.giving]
        joined = [_joined(row) for row in zip(*found, strict=True)]
        n = op.carries
        return [*entering[:n], *joined[n:]]

    def _entering(self, op: Structured, entering: list[State]) -> list[State]:
        n, (body,) = op.carries, op.giving
        while True:
            out = self.through(body, entering)
            pairs = zip(entering[:n], out[:n], strict=True)
            grown = [*(_joined(pair) for pair in pairs), *entering[n:]]
            if grown == entering:
                return grown
            entering = grown

    def _call(self, name: str, operands: Sequence[State]) -> Sequence[State]:
        """The states of a callee's results; recursive calls start from results at rest."""
        key = (name, tuple(operands))
        fn = self.engine.function(name)
        if key in self.calls:
            return self.calls[key]
        self.calls[key] = (STILL,) * len(fn.results)
        while (found := self.through(fn, operands)) != self.calls[key]:
            self.calls[key] = found
        return found

    def _custom(self, op: Custom, operands: Sequence[State]) -> Sequence[State]:
        """A call with a custom derivative is linear if that derivative is constant."""
        moves = tuple(moves for moves, _ in operands)
        if isinstance(op, CustomJvp) and op.rule in self.engine.transposing:
            return self._call(op.callee.name, operands)
        if any(self._slope_moves(op, moves)):
            self._blame(op)
        return [(True, frozenset[Op]())] * len(op.results)

    def _slope_moves(self, op: Custom, moves: Flags) -> Sequence[bool]:
        engine, n, count = self.engine, len(op.xs), len(op.results)
        dependence = engine.once("dependence", lambda: Dependence(engine.function))
        along = tuple(m for m, x in zip(moves, op.xs, strict=False) if flows(x.type))
        if isinstance(op, CustomJvp):
            fn = engine.function(op.rule.name)
            primals, captured = moves[:n], moves[n:]
            none = (False,) * n, (False,) * len(captured)
            still = tuple(not m for m in along)
            zero = dependence.varied(fn, (*none[0], *still, *none[1]))
            zero = zero - dependence.varied(fn, (*none[0], *along, *none[1]))
            flags = (*primals, *(False for _ in along), *captured)
            return _reached(dependence, fn, flags, zero)[count:]
        assert isinstance(op, CustomVjp)
        forward, backward = (engine.function(ref.name) for ref in (op.forward, op.backward))
        kept = _reached(dependence, forward, moves, set())[count:]
        seeds = (False for t in op.types if flows(t))
        found = _reached(dependence, backward, (*kept, *seeds, *moves[n:]), set())
        return [f and m for f, m in zip(found, along, strict=True)]

    # -- tapes -----------------------------------------------------------------------------------

    def _push(self, op: Push, operands: Sequence[State]) -> State:
        types = types_of(op.xs)
        for tape in operands[0][1]:
            seen = self.moved.setdefault((tape, types), [set[bool]() for _ in types])
            for place, (moves, _) in zip(seen, operands[1:], strict=True):
                place.add(moves)
        return operands[0]

    def _pop(self, op: Pop, tape: State) -> Sequence[State]:
        types = op.types[1:]
        seen = [self.moved[tape, types] for tape in tape[1] if (tape, types) in self.moved]
        columns = zip(*seen, strict=True) if seen else ((),) * len(types)
        return [tape, *((any(s == {True} for s in c), frozenset[Op]()) for c in columns)]


def _joined(states: Sequence[State]) -> State:
    return any(m for m, _ in states), frozenset[Op]().union(*(t for _, t in states))


def _reached(dependence: Dependence, fn: Function, params: Flags, zero: Collection[Value]) -> Flags:
    """Which results depend on the flagged parameters, ignoring paths through values in ``zero``."""
    found: set[Value] = {p for p, f in zip(fn.params, params, strict=True) if f}
    for op in fn.ops:
        flags = dependence.results_varied(op, tuple(v in found for v in op.operands))
        pairs = zip(op.results, flags, strict=True)
        found.update(r for r, f in pairs if f and r not in zero)
    return tuple(r in found for r in fn.results)
