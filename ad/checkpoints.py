"""Adjoints of checkpoints and of recomputations.

A checkpoint keeps its inputs and what its policy saves. Its adjoint is a ``Recompute`` operation
that runs the body forward and backward again, with the saved values in place of what would
recompute them. A recomputation is differentiated as a call of its body is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm.ir import Function, Op, Value
from dlvm.ir.rewrite import Env, inline
from dlvm.ops import Checkpoint, Recompute

from .activity import Flags
from .control import picked, placed, seed_values
from .cotangents import mask_of
from .pairs import pair
from .reverse import ADJOINTS, Cotangents, Forwarded, Sweep, forward_and_adjoint
from .saving import halves, with_saved_values


def checkpoint_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """Keeps the inputs and the saved values; ``Recompute`` reruns the body when dy is known."""
    assert isinstance(op, Checkpoint)
    active, seeded = sweep.wanted(op)
    if op.policy == "everything":
        return _forward_and_pullback(sweep, op.body, active, seeded, operands)
    engine = sweep.engine
    parts = engine.once(("halves", op.body, op.policy), lambda: halves(engine, op.body, op.policy))
    forward = Checkpoint(tuple(operands), parts.keeping, op.policy).results
    results, kept = forward[: len(op.results)], forward[len(op.results) :]

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        came = tuple(f and d is not None for f, d in zip(seeded, dy, strict=True))
        wrt = (*active, *(False,) * len(kept))
        seeds = {i: d for i, d in enumerate(dy) if came[i] and d is not None}
        masks = {i: m for i, d in seeds.items() if (m := mask_of(d)) is not None}
        body = with_saved_values(forward_and_adjoint(engine, parts.again, wrt, came, masks))
        given = (*seeds.values(), *(condition for condition, _ in masks.values()))
        read, body = _only_read((*operands, *kept, *given), body)
        out = Recompute(read, tuple(seeds.values()), body).results
        return placed(out, picked(active), so_far)

    return Forwarded(results, pullback)


def _only_read(xs: Sequence[Value], body: Function) -> tuple[tuple[Value, ...], Function]:
    """The arguments and the body without parameters that the body does not read.

    A value that is not read does not count as a residual.
    """
    read = {v for op in body.ops for v in op.operands} | set(body.results)
    pairs = [(x, p) for x, p in zip(xs, body.params, strict=True) if p in read]
    return tuple(x for x, _ in pairs), replace(body, params=tuple(p for _, p in pairs))


def recompute_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """The second derivative through a checkpoint: residuals are kept, the pullback is inline."""
    assert isinstance(op, Recompute)
    active, seeded = sweep.wanted(op)
    n = len(op.xs)
    return _forward_and_pullback(sweep, op.body, active[:n], seeded, operands[:n], operands[n:])


def _forward_and_pullback(
    sweep: Sweep,
    body: Function,
    active: Flags,
    seeded: Flags,
    xs: Sequence[Value],
    triggers: Sequence[Value] | None = None,
) -> Forwarded:
    """The forward pass with residuals, recomputed if there are triggers; pullback inline."""
    reread, returned = range(len(xs)), range(len(body.results))
    split = pair(sweep.engine, body, active, seeded, reread=reread, returned=returned)
    given, forward = (*xs, *sweep.tape_operand(split.taped)), split.forward("body")
    found = (
        inline(forward, given)
        if triggers is None
        else Recompute(given, tuple(triggers), forward).results
    )
    results, kept = split.unpacked(sweep.without_tape(found, split.taped))

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        env: Env = dict(zip(split.params, xs, strict=True))
        env.update(zip(split.seeds.values(), seed_values(split, dy), strict=True))
        env[split.tape_back] = sweep.tape
        out = sweep.without_tape(split.write_pullback(kept, env), split.taped)
        return placed(out, picked(active), so_far)

    return Forwarded(results, pullback)


ADJOINTS[Checkpoint] = checkpoint_adjoint
ADJOINTS[Recompute] = recompute_adjoint
