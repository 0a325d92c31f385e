"""What the policy of a checkpoint saves, wherever it stands: in the body, its branches and loops.

Of a body come two: one that gives what is saved as further results, and one that takes it as
further parameters and computes the rest again. Both go through the regions: a scan stacks what is
saved of each step and reads it as slices, the branches of a ``cond`` share slots. In a loop of
unknown length nothing is saved, as what a tape keeps comes back in the opposite order.

In the second body ``Saved`` stands where a saved value was computed. As soon as it has been
differentiated, what was saved takes its place, and what would make it again is needed no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from dlvm.ir import Builder, Function, Op, Param, TensorType, Value, zeros
from dlvm.ir.rewrite import Env, everywhere, mapped, place, transform, types_of
from dlvm.ops import Call, Cond, Contraction, Custom, Named, Saved, Scan

from .control import shared_slots, written_out
from .cotangents import added
from .live import live
from .reverse import ADJOINTS, Cotangents, Engine, Sweep, Way


@dataclass(frozen=True, slots=True)
class Halves:
    """A body that gives what is saved after its results, and one that takes it after its own."""

    keeping: Function
    again: Function
    saved: tuple[Value, ...]
    given: tuple[Param, ...]


def is_saved(op: Op, policy: str) -> bool:
    """Whether a policy saves what an operation gives."""
    if policy == "products":
        return isinstance(op, Contraction)
    names = policy.removeprefix("names:").split(",")
    return isinstance(op, Named) and op.label in (name.strip() for name in names)


def halves(engine: Engine, body: Function, policy: str) -> Halves:
    """Both bodies of a checkpoint."""
    if policy == "nothing":
        return Halves(body, body, (), ())
    return _halves(written_out(engine, body, partial(_is_open, engine)), policy)


def _is_open(engine: Engine, op: Call) -> bool:
    """Whether what a call computes can be saved, once it is written out."""
    return not isinstance(op, Custom) and not engine.recursive(op.callee.name)


@dataclass(slots=True)
class _Writing:
    """Both bodies while they are written."""

    keeping: Builder
    again: Builder
    there: Env
    here: Env
    saved: list[Value]
    given: list[Param]

    def both(self, op: Op) -> tuple[Op, Op]:
        """Place an operation in both."""
        return place(self.keeping, op, self.there), place(self.again, op, self.here)

    def save(self, value: Value) -> Param:
        """Save a value of the first body: what it is in the second."""
        self.saved.append(value)
        self.given.append(Param(value.type, "saved"))
        return self.given[-1]


def _halves(fn: Function, policy: str) -> Halves:
    w = _Writing(Builder(), Builder(), {}, {}, [], [])
    for op in fn.ops:
        w.keeping.origin = w.again.origin = op.origin
        if is_saved(op, policy):
            kept, again = w.both(op)
            known = [w.save(r) for r in kept.results]
            with w.again:
                pairs = zip(again.results, known, strict=True)
                w.here.update(zip(op.results, [Saved(x, k, policy) for x, k in pairs], strict=True))
        elif isinstance(op, Scan):
            _scan(w, op, policy)
        elif isinstance(op, Cond):
            _cond(w, op, policy)
        else:
            w.both(op)
    results = mapped(fn.results, w.there)
    keeping = replace(fn, ops=tuple(w.keeping.ops), results=(*results, *w.saved))
    again = replace(
        fn,
        params=(*fn.params, *w.given),
        ops=tuple(w.again.ops),
        results=tuple(mapped(fn.results, w.here)),
    )
    return Halves(keeping, again, tuple(w.saved), tuple(w.given))


def _scan(w: _Writing, op: Scan, policy: str) -> None:
    """What is saved of each step is stacked, then read as slices."""
    inner = _halves(op.body, policy)
    if not inner.saved:
        w.both(op)
        return
    n, m, count = len(op.init), len(op.init) + len(op.xs), len(op.results)
    with w.keeping:
        found = op.rebuild(mapped(op.operands, w.there), body=inner.keeping).results
    w.there.update(zip(op.results, found[:count], strict=True))
    stacks = [w.save(r) for r in found[count:]]
    params = inner.again.params
    body = replace(inner.again, params=(*params[:m], *inner.given, *params[m : len(op.operands)]))
    given = mapped(op.operands, w.here)
    with w.again:
        again = Scan(
            tuple(given[:n]),
            (*given[n:m], *stacks),
            tuple(given[m:]),
            body,
            op.length,
            op.reverse,
            op.unroll,
        )
    w.here.update(zip(op.results, again.results, strict=True))


def _cond(w: _Writing, op: Cond, policy: str) -> None:
    """Each branch has its own in slots that both share."""
    sides = [_halves(fn, policy) for fn in (op.then, op.otherwise)]
    slots, places = shared_slots([types_of(side.saved) for side in sides])
    if not slots:
        w.both(op)
        return
    pairs = list(zip(sides, places, strict=True))
    then, otherwise = (_filled(side, own, slots, len(op.results)) for side, own in pairs)
    given = mapped(op.operands, w.there)
    with w.keeping:
        found = Cond(given[0], tuple(given[1:]), then, otherwise, op.otherwise_first).results
    w.there.update(zip(op.results, found, strict=False))
    known = [w.save(r) for r in found[len(op.results) :]]
    given = [*mapped(op.operands, w.here), *known]
    then, otherwise = (_reading(side, own, known) for side, own in pairs)
    with w.again:
        again = Cond(given[0], tuple(given[1:]), then, otherwise, op.otherwise_first)
    w.here.update(zip(op.results, again.results, strict=True))


def _filled(side: Halves, own: Sequence[int], slots: Sequence[TensorType], count: int) -> Function:
    held = dict(zip(own, side.saved, strict=True))
    with Builder(side.keeping.ops) as builder:
        kept = [held[k] if k in held else zeros(t) for k, t in enumerate(slots)]
    results = (*side.keeping.results[:count], *kept)
    return replace(side.keeping, ops=tuple(builder.ops), results=results)


def _reading(side: Halves, own: Sequence[int], known: Sequence[Param]) -> Function:
    held = dict(zip(own, side.given, strict=True))
    slots = (held.get(k) or Param(p.type, "unread") for k, p in enumerate(known))
    params = side.again.params[: len(side.again.params) - len(side.given)]
    return replace(side.again, params=(*params, *slots))


# -- once it is differentiated ---------------------------------------------------------------------


def _saved_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Way:
    """What was saved, and the derivative of what made it."""
    assert isinstance(op, Saved)
    kept = operands[1]

    def back(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        return (added(so_far[0], dy[0]), None)

    return Way((kept,), back)


ADJOINTS[Saved] = _saved_adjoint


def known(fn: Function) -> Function:
    """What was saved in the place of what would make it, at any depth."""

    def visit(op: Op, env: Env) -> Iterable[Value]:
        assert isinstance(op, Saved)
        return mapped((op.kept,), env)

    def without(body: Function) -> Function:
        same = transform(body, visit, on=Saved)
        return replace(same, ops=live(same.ops, same.results))

    return everywhere(fn, without)
