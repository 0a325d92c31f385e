"""Adjoints of functions that call themselves: every activation keeps its residuals on the tape.

The way forward gives the results and pushes what the way back needs, after all that the
activations inside have pushed; the way back pops it before it goes back through them. So the two
functions have nothing between them but the tape, and their types are known before they are
written. Which parameters the way back reads again is found by writing it until it agrees with
what its own calls pass. Sums of cotangents are handed down and written in place.
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
from .reverse import ADJOINTS, Cotangents, Engine, Sweep, Way, or_zeros

TAPE_TYPE = TensorType(TAPE)


@dataclass(frozen=True, slots=True)
class Recursive:
    """The two functions of a callee that calls itself; positions are those of its parameters."""

    params: tuple[TensorType, ...]
    forward: FunctionRef
    backward: FunctionRef
    active: tuple[int, ...]
    seeds: tuple[int, ...]
    lent: tuple[int, ...] = ()
    witness: tuple[TensorType, ...] = ()

    @property
    def sums(self) -> tuple[int, ...]:
        """For which of them the sum so far comes in."""
        return tuple(i for i in self.active if not is_tape(self.params[i]))


def recursive_split(engine: Engine, name: str, wrt: Flags, seeded: Flags) -> Recursive:
    """The two functions, written until their own calls agree with them."""
    fn, key = engine.function(name), ("recursive", name, wrt, seeded, engine.often)

    def make() -> Recursive:
        refs = engine.reserve(f"{name}_forward"), engine.reserve(f"{name}_backward")
        assumed = Recursive(types_of(fn.params), *refs, picked(wrt), picked(seeded))
        every = range(len(fn.params))
        mark = engine.mark()
        while True:
            engine.assume(key, assumed)
            parts = pair(engine, fn, wrt, seeded, lent=every, summed=every)
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
    """Parameters and tape to results and tape."""
    with Builder(parts.ops) as builder:
        after = parts.tape_after
        if parts.residuals:
            after = Push(after, parts.residuals)
    return Function(
        fn.name, (*parts.params, parts.tape), tuple(builder.ops), (*parts.results, after)
    )


def _backward(fn: Function, parts: Pair, assumed: Recursive) -> tuple[Function, Recursive]:
    """What is read again, seeds, sums so far and tape to the new sums and tape."""
    tape = Param(TAPE_TYPE, "tape")
    with Builder() as builder:
        rest, kept = _popped(tape, parts.residuals)
        out = parts.write_back(kept, {parts.tape_back: rest})
    if not parts.taped:
        out.append(rest)
    for total in parts.sums.values():
        total.donated = True
    params = (*parts.lent_params, *parts.seeds.values(), *parts.sums.values())
    witness = witness_of(fn, params)
    every = (*params, *witness, tape)
    made = replace(assumed, lent=parts.lent, witness=types_of(witness))
    return Function(fn.name, every, tuple(builder.ops), tuple(out)), made


def _popped(tape: Value, residuals: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
    if not residuals:
        return tape, ()
    rest, *kept = Pop(tape, (TAPE_TYPE, *types_of(residuals))).results
    return rest, kept


def recursive_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """``y, tape = f_forward(x, tape)`` and ``sum, tape = f_backward(x, dy, sum, tape)``."""
    assert isinstance(op, Call)
    name = op.callee.name
    if not sweep.engine.recursive(name):
        return call_adjoint(sweep, op, operands)
    parts = recursive_split(sweep.engine, name, *sweep.wanted(op))
    sizes = unify(parts.params, types_of(operands))
    types = (*op.types, TAPE_TYPE)
    forward = Call((*operands, *sweep.threaded(True)), parts.forward, types).results
    results = sweep.untied(forward, True)

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        given = (
            *(operands[i] for i in parts.lent),
            *(or_zeros(dy[i], op.types[i]) for i in parts.seeds),
            *(or_zeros(so_far[i], operands[i].type) for i in parts.sums),
            *(zeros(t.substitute(sizes)) for t in parts.witness),
            *sweep.threaded(True),
        )
        types = (*(operands[i].type for i in parts.active), TAPE_TYPE)
        out = sweep.untied(Call(given, parts.backward, types).results, True)
        totals = list(so_far)
        for i, total in zip(parts.active, out, strict=True):
            totals[i] = total if i in parts.sums else added(so_far[i], total)
        return totals

    return Way(results, back)


ADJOINTS[Call] = recursive_adjoint
