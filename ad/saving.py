"""What the policy of a checkpoint saves, in the body, its branches and its loops.

A body is rewritten twice: one version returns the saved values as further results, the other takes
them as further parameters and computes the rest again. Both rewrites descend into regions: a scan
stacks what is saved in each step and reads it back as slices, and the branches of a ``cond`` share
slots. Nothing is saved inside a loop of unknown length, because a tape returns its values in the
opposite order.

In the second version a ``Saved`` operation pairs each recomputed value with the saved one. After
differentiation the saved value replaces the pair, and the recomputation becomes dead code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dlvm.ir import Builder, Function, Op, Param, TensorType, Value, zeros
from dlvm.ir.dataflow import Runs
from dlvm.ir.rewrite import Env, everywhere, mapped, place, transform, types_of
from dlvm.ops import Call, Contraction, Named, Saved, Structured

from .control import shared_slots, written_out
from .cotangents import added
from .live import live
from .reverse import ADJOINTS, Cotangents, Engine, Forwarded, Sweep


@dataclass(frozen=True, slots=True)
class Halves:
    """A body that also returns what is saved, and a body that takes it as further parameters."""

    keeping: Function
    again: Function
    saved: tuple[Value, ...]
    given: tuple[Param, ...]


def is_saved(op: Op, policy: str) -> bool:
    """Whether the policy saves the results of the operation."""
    if policy == "products":
        return isinstance(op, Contraction)
    names = policy.removeprefix("names:").split(",")
    return isinstance(op, Named) and op.label in (name.strip() for name in names)


def halves(engine: Engine, body: Function, policy: str) -> Halves:
    """Both versions of a checkpoint's body under a policy."""
    if policy == "nothing":
        return Halves(body, body, (), ())
    return _halves(written_out(engine, body, partial(_is_open, engine)), policy)


def _is_open(engine: Engine, op: Call) -> bool:
    """Whether a call can be inlined, so that the policy sees the operations of the callee."""
    return op.ruled is None and not engine.recursive(op.callee.name)


@dataclass(slots=True)
class _Writing:
    """Both versions of a body while they are written, with what each maps the old values to."""

    keeping: Builder
    again: Builder
    env_keeping: Env
    env_again: Env
    saved: list[Value]
    given: list[Param]

    def both(self, op: Op) -> tuple[Op, Op]:
        """Places an operation in both versions."""
        return place(self.keeping, op, self.env_keeping), place(self.again, op, self.env_again)

    def save(self, value: Value) -> Param:
        """Saves a value of the first version; returns its parameter in the second."""
        self.saved.append(value)
        self.given.append(Param(value.type, "saved"))
        return self.given[-1]


def _halves(fn: Function, policy: str) -> Halves:
    w = _Writing(Builder(), Builder(), {}, {}, [], [])
    for op in fn.ops:
        w.keeping.origin = w.again.origin = op.origin
        if is_saved(op, policy):
            kept, again = w.both(op)
            taken = [w.save(r) for r in kept.results]
            with w.again:
                pairs = zip(again.results, taken, strict=True)
                w.env_again.update(
                    zip(op.results, [Saved(x, k, policy) for x, k in pairs], strict=True)
                )
        elif isinstance(op, Structured) and op.dataflow.sliced:
            _counted(w, op, policy)
        elif isinstance(op, Structured) and op.dataflow.runs is Runs.CHOICE:
            _choice(w, op, policy)
        else:
            w.both(op)
    results = mapped(fn.results, w.env_keeping)
    keeping = replace(fn, ops=tuple(w.keeping.ops), results=(*results, *w.saved))
    again = replace(
        fn,
        params=(*fn.params, *w.given),
        ops=tuple(w.again.ops),
        results=tuple(mapped(fn.results, w.env_again)),
    )
    return Halves(keeping, again, tuple(w.saved), tuple(w.given))


def _counted(w: _Writing, op: Structured, policy: str) -> None:
    """Stacks what each step saves, and reads it back as slices."""
    inner = _halves(op.giving[0], policy)
    if not inner.saved:
        w.both(op)
        return
    m, count, (name,) = op.carries + op.slices, len(op.results), op.dataflow.bodies
    with w.keeping:
        found = op.rebuild(mapped(op.operands, w.env_keeping), **{name: inner.keeping}).results
    w.env_keeping.update(zip(op.results, found[:count], strict=True))
    stacks = [w.save(r) for r in found[count:]]
    params = inner.again.params
    body = replace(inner.again, params=(*params[:m], *inner.given, *params[m : len(op.operands)]))
    given = mapped(op.operands, w.env_again)
    with w.again:
        again = op.regrouped(given, {name: body}, sliced=stacks)
    w.env_again.update(zip(op.results, again.results, strict=True))


def _choice(w: _Writing, op: Structured, policy: str) -> None:
    """Each branch saves its values in slots that both branches share."""
    sides = [_halves(fn, policy) for fn in op.giving]
    slots, places = shared_slots([types_of(side.saved) for side in sides])
    if not slots:
        w.both(op)
        return
    pairs = list(zip(sides, places, strict=True))
    filled = (_filled(side, own, slots, len(op.results)) for side, own in pairs)
    bodies = dict(zip(op.dataflow.bodies, filled, strict=True))
    with w.keeping:
        found = op.rebuild(mapped(op.operands, w.env_keeping), **bodies).results
    w.env_keeping.update(zip(op.results, found, strict=False))
    taken = [w.save(r) for r in found[len(op.results) :]]
    reading = (_reading(side, own, taken) for side, own in pairs)
    bodies = dict(zip(op.dataflow.bodies, reading, strict=True))
    with w.again:
        again = op.regrouped(mapped(op.operands, w.env_again), bodies, taken)
    w.env_again.update(zip(op.results, again.results, strict=True))


def _filled(side: Halves, own: Sequence[int], slots: Sequence[TensorType], count: int) -> Function:
    held = dict(zip(own, side.saved, strict=True))
    with Builder(side.keeping.ops) as builder:
        kept = [held[k] if k in held else zeros(t) for k, t in enumerate(slots)]
    results = (*side.keeping.results[:count], *kept)
    return replace(side.keeping, ops=tuple(builder.ops), results=results)


def _reading(side: Halves, own: Sequence[int], taken: Sequence[Param]) -> Function:
    held = dict(zip(own, side.given, strict=True))
    slots = (held.get(k) or Param(p.type, "unread") for k, p in enumerate(taken))
    params = side.again.params[: len(side.again.params) - len(side.given)]
    return replace(side.again, params=(*params, *slots))


# -- once it is differentiated ---------------------------------------------------------------------


def _saved_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """The result is the saved value; the cotangent goes to the computation that it replaces."""
    assert isinstance(op, Saved)
    kept = operands[1]

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        return (added(so_far[0], dy[0]), None)

    return Forwarded((kept,), pullback)


ADJOINTS[Saved] = _saved_adjoint


def with_saved_values(fn: Function) -> Function:
    """The function, nested regions included, with each ``Saved`` replaced by its saved value."""

    def visit(op: Op, env: Env) -> Iterable[Value]:
        assert isinstance(op, Saved)
        return mapped((op.kept,), env)

    def without(body: Function) -> Function:
        same = transform(body, visit, on=Saved)
        return replace(same, ops=live(same.ops, same.results))

    return everywhere(fn, without)
