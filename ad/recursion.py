"""Adjoints of recursive functions: every activation keeps its residuals on the tape.

The forward function returns the results and pushes its residuals, after everything that the calls
inside it have pushed; the backward function pops its residuals before it goes back through those
calls. So only the tape passes between the two functions, and their types are known before they are
written. Which parameters the backward function reads again is found by writing it until it agrees
with what its own recursive calls pass. Sums of cotangents are passed down and updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dlvm.ir import TAPE, Builder, Function, FunctionRef, Op, Param, TensorType, Value, zeros
from dlvm.ir.rewrite import types_of
from dlvm.ir.unify import unify
from dlvm.ops import Call, Pop, Push

from .activity import Flags, is_tape
from .control import call_adjoint, picked, witness_of
from .cotangents import added
from .pairs import Pair, pair
from .reverse import ADJOINTS, Cotangents, Engine, Forwarded, Sweep, or_zeros

TAPE_TYPE = TensorType(TAPE)


@dataclass(frozen=True, slots=True)
class Recursive:
    """The forward and backward functions of a recursive callee, and positions of its parameters."""

    params: tuple[TensorType, ...]
    forward: FunctionRef
    backward: FunctionRef
    active: tuple[int, ...]
    seeds: tuple[int, ...]
    reread: tuple[int, ...] = ()
    witness: tuple[TensorType, ...] = ()

    @property
    def sums(self) -> tuple[int, ...]:
        """The positions of the parameters for which the backward function takes the sum so far."""
        return tuple(i for i in self.active if not is_tape(self.params[i]))


def recursive_split(engine: Engine, name: str, wrt: Flags, seeded: Flags) -> Recursive:
    """The forward and backward functions, rewritten until their own calls match them."""
    fn, key = engine.function(name), ("recursive", name, wrt, seeded, engine.pullbacks_reused)

    def make() -> Recursive:
        refs = engine.reserve(f"{name}_forward"), engine.reserve(f"{name}_backward")
        assumed = Recursive(types_of(fn.params), *refs, picked(wrt), picked(seeded))
        every = range(len(fn.params))
        mark = engine.mark()
        while True:
            engine.assume(key, assumed)
            parts = pair(engine, fn, wrt, seeded, reread=every, summed=every)
            backward, made = _backward(fn, parts, assumed)
            if made == assumed:
                break
            engine.reset(mark)
            assumed = made
        engine.fill(assumed.forward, _forward(fn, parts))
        engine.fill(assumed.backward, backward)
        return assumed

    return engine.once(key, make)


def _forward(fn: Function, parts: Pair) -> Function:
    """The function from parameters and tape to results and tape."""
    with Builder(parts.ops) as builder:
        after = parts.tape_after
        if parts.residuals:
            after = Push(after, parts.residuals)
    return Function(
        fn.name, (*parts.params, parts.tape), tuple(builder.ops), (*parts.results, after)
    )


def _backward(fn: Function, parts: Pair, assumed: Recursive) -> tuple[Function, Recursive]:
    """The function from reread parameters, seeds, sums so far and tape to new sums and tape."""
    tape = Param(TAPE_TYPE, "tape")
    with Builder() as builder:
        rest, kept = _popped(tape, parts.residuals)
        out = parts.write_pullback(kept, {parts.tape_back: rest})
    if not parts.taped:
        out.append(rest)
    for total in parts.sums.values():
        total.donated = True
    params = (*parts.reread_params, *parts.seeds.values(), *parts.sums.values())
    witness = witness_of(fn, params)
    every = (*params, *witness, tape)
    made = replace(assumed, reread=parts.reread, witness=types_of(witness))
    return Function(fn.name, every, tuple(builder.ops), tuple(out)), made


def _popped(tape: Value, residuals: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    if not residuals:
        return tape, ()
    rest, *kept = Pop(tape, (TAPE_TYPE, *types_of(residuals))).results
    return rest, kept


def recursive_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """``y, tape = f_forward(x, tape)`` and ``sum, tape = f_backward(x, dy, sum, tape)``."""
    assert isinstance(op, Call)
    name = op.callee.name
    if not sweep.engine.recursive(name):
        return call_adjoint(sweep, op, operands)
    parts = recursive_split(sweep.engine, name, *sweep.wanted(op))
    sizes = unify(parts.params, types_of(operands))
    types = (*op.types, TAPE_TYPE)
    forward = Call((*operands, *sweep.tape_operand(True)), parts.forward, types).results
    results = sweep.without_tape(forward, True)

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        given = (
            *(operands[i] for i in parts.reread),
            *(or_zeros(dy[i], op.types[i]) for i in parts.seeds),
            *(or_zeros(so_far[i], operands[i].type) for i in parts.sums),
            *(zeros(t.substitute(sizes)) for t in parts.witness),
            *sweep.tape_operand(True),
        )
        types = (*(operands[i].type for i in parts.active), TAPE_TYPE)
        out = sweep.without_tape(Call(given, parts.backward, types).results, True)
        totals = list(so_far)
        for i, total in zip(parts.active, out, strict=True):
            totals[i] = total if i in parts.sums else added(so_far[i], total)
        return totals

    return Forwarded(results, pullback)


ADJOINTS[Call] = recursive_adjoint
