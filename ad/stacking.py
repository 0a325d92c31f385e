"""Tapes as stacks of fixed capacity: values that a function can return and that are read often.

A tape becomes, for each list of types that is pushed on it, a pointer and a stack of ``capacity``
slots for each type. A push beyond the capacity is dropped but counted, so the caller sees that the
program must be rerun with a larger capacity. Loops that only pop carry the pointers and capture the
stacks. A tape that begins and ends inside a region stays a tape; calls that take a tape are
inlined.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm.ir import I64, TAPE, Builder, Function, Op, Param, TensorType, Value, splat, zeros
from dlvm.ir.rewrite import Env, has, mapped, types_of
from dlvm.ops import (
    Call,
    EmptyTape,
    Equal,
    Gather,
    Maximum,
    Pop,
    Push,
    ScatterSet,
    Select,
    Structured,
)

from .activity import carried_count, region_arguments
from .control import written_out
from .reverse import Engine

Types = tuple[TensorType, ...]
Stack = tuple[Value, ...]
"""A pointer for each list of types, then a stack for each type of each list."""
POINTER = TensorType(I64)


class CannotStack(Exception):
    """A tape is used where a stack cannot be: in a recursive function or a recomputation."""


def taped(op: Op) -> bool:
    """Whether a tape is an operand or a result of the operation."""
    return any(t.dtype == TAPE for t in (*types_of(op.operands), *op.result_types))


def without_handing_on(engine: Engine, fn: Function) -> Function:
    """The function with its calls that take or return a tape inlined, nested regions included."""

    def wanted(op: Call) -> bool:
        if taped(op) and (op.ruled is not None or engine.recursive(op.callee.name)):
            raise CannotStack
        return taped(op)

    return written_out(engine, fn, wanted)


class Stacking:
    """Rewrites code so that its tapes become stacks; knows the stacks of each tape."""

    def __init__(self, capacity: int, code: Iterable[Function]) -> None:
        pushed = (types_of(op.xs) for fn in code for op in fn.walk() if isinstance(op, Push))
        self.lists: tuple[Types, ...] = tuple(dict.fromkeys(pushed))
        self.capacity = capacity
        self.tapes: dict[Value, Stack] = {}
        self.filled: list[Value] = []

    # -- what a tape is -------------------------------------------------------------------------

    def types(self) -> tuple[Types, Types]:
        """The types of the pointers, and the types of the stacks."""
        stacks = (t.with_shape((self.capacity, *t.shape)) for types in self.lists for t in types)
        return (POINTER,) * len(self.lists), tuple(stacks)

    def empty(self) -> Stack:
        """The stack of an empty tape, written here."""
        pointers, stacks = self.types()
        return (*(splat(0, t) for t in pointers), *(zeros(t) for t in stacks))

    def params(self) -> tuple[Param, ...]:
        """Parameters for a tape: its pointers, then its stacks."""
        pointers, stacks = self.types()
        return (*(Param(t, "top") for t in pointers), *(Param(t, "stack") for t in stacks))

    def _places(self, types: Types) -> tuple[int, range]:
        i = self.lists.index(types)
        start = len(self.lists) + sum(map(len, self.lists[:i]))
        return i, range(start, start + len(types))

    # -- code -----------------------------------------------------------------------------------

    def write(self, ops: Sequence[Op], env: Env, outermost: bool = False) -> None:
        """Writes operations here; a tape that begins in the outermost code becomes stacks."""
        for op in ops:
            if outermost and isinstance(op, EmptyTape):
                self.tapes[op] = self.empty()
            elif not any(v in self.tapes for v in op.operands):
                new = op.rebuild(mapped(op.operands, env))
                env.update(zip(op.results, new.results, strict=True))
            else:
                self._step(op, env)
            if outermost and op.results:
                self._fill(op)

    def _fill(self, op: Op) -> None:
        pushes = isinstance(op, Push) or any(has(r, Push) for r in op.regions.values())
        for r in op.results if pushes else ():
            self.filled += self.tapes.get(r, ())[: len(self.lists)]

    def _step(self, op: Op, env: Env) -> None:
        match op:
            case Push():
                self.tapes[op] = self._pushed(op, env)
            case Pop():
                self._popped(op, env)
            case Structured() if op.dataflow.captured:
                self._region(op, env)
            case _:
                raise CannotStack

    def _pushed(self, op: Push, env: Env) -> Stack:
        stack = list(self.tapes[op.tape])
        i, places = self._places(types_of(op.xs))
        for place, x in zip(places, mapped(op.xs, env), strict=True):
            stack[place] = ScatterSet(stack[place], stack[i], x, 0, mode="drop")
        stack[i] = stack[i] + 1
        return tuple(stack)

    def _popped(self, op: Pop, env: Env) -> None:
        """Reads the slots below the pointers; gives zeros if the stack is empty."""
        stack = list(self.tapes[op.tape])
        types = op.types[1:]
        if types not in self.lists:
            found = list(map(zeros, types))
        else:
            i, places = self._places(types)
            below = stack[i] + -1
            stack[i] = Maximum(below, zeros(POINTER))
            slot = Select(Equal(stack[i], below), below, splat(self.capacity, POINTER))
            found = [Gather(stack[place], slot, 0, mode="drop") for place in places]
        self.tapes[op.results[0]] = tuple(stack)
        env.update(zip(op.results[1:], found, strict=True))

    def _region(self, op: Structured, env: Env) -> None:
        """Passes stacks into a region in a tape's place; stacks only read are captured."""
        first = op.offset
        tape = [i for i, v in enumerate(op.operands) if v in self.tapes]
        steady = len(tape) == 1 and not any(_grows(r, tape[0] - first) for r in op.regions.values())
        cut = len(self.lists) if steady else None

        operands: list[Sequence[Value] | Value] = [
            self.tapes[v][:cut] if i in tape else x
            for i, (v, x) in enumerate(zip(op.operands, mapped(op.operands, env), strict=True))
        ]
        last = [x for i in tape for x in self.tapes[op.operands[i]][cut:]] if steady else []
        own = [i - first for i in tape]
        regions = {name: self._inside(region, own, cut) for name, region in op.regions.items()}
        results = iter(op.regrouped(operands, regions, last).results)
        for r, inner in zip(op.results, op.giving[0].results, strict=True):
            if inner not in self.tapes:
                env[r] = next(results)
                continue
            top = [next(results) for _ in self.params()[:cut]]
            self.tapes[r] = (*top, *last)

    def _inside(self, region: Function, tape: Sequence[int], cut: int | None) -> Function:
        params: list[Param] = []
        last: list[Param] = []
        env: Env = {}
        for i, p in enumerate(region.params):
            if i not in tape:
                params.append(p)
                continue
            own = self.params()
            self.tapes[p] = own
            params += own[:cut]
            last += own[cut:] if cut is not None else ()
        with Builder() as builder:
            self.write(region.ops, env)
        results: list[Value] = []
        for r in region.results:
            results += self.tapes[r][:cut] if r in self.tapes else mapped((r,), env)
        return Function(region.name, (*params, *last), tuple(builder.ops), tuple(results))


def _grows(region: Function, i: int) -> bool:
    """Whether the region pushes on the tape that comes in as its parameter ``i``."""
    versions: set[Value] = {region.params[i]}
    for op in region.ops:
        places = [j for j, v in enumerate(op.operands) if v in versions]
        if not places:
            continue
        first = region_arguments(op).start or 0
        inside = (_grows(r, j - first) for r in op.regions.values() for j in places)
        if isinstance(op, Push) or any(inside):
            return True
        tapes = [op.results[j] for j in places] if carried_count(op) else op.results
        versions.update(r for r in tapes if r.type.dtype == TAPE)
    return False


def most(values: Sequence[Value]) -> Value:
    """The largest of the counts; 0 if there are none."""
    found = splat(0, POINTER)
    for v in values:
        found = Maximum(found, v)
    return found
