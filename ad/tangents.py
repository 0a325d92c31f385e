"""Tangents of control operations, computed in the same call, branch or loop as the primal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import Builder, Function, FunctionRef, Op, Param, TensorType, Value, zeros
from dlvm.ir.rewrite import types_of
from dlvm.ir.verify import unify
from dlvm.ops import Call, Checkpoint, Cond, Recompute, Scan, While

from .activity import Flags
from .forward import TANGENTS, TangentBody, Tangents, tangent_body
from .reverse import Engine

Moved = tuple[Sequence[Value], Tangents]


def flags_of(dx: Tangents) -> Flags:
    """Which entries have a tangent."""
    return tuple(d is not None for d in dx)


def present(dx: Tangents) -> tuple[Value, ...]:
    """The tangents that are not None."""
    return tuple(d for d in dx if d is not None)


def results_and_tangents(found: Sequence[Value], out: Tangents) -> Moved:
    """Splits values into results and their tangents, which are None wherever ``out`` is."""
    rest = iter(found[len(out) :])
    return found[: len(out)], [None if d is None else next(rest) for d in out]


def tangent_function(body: TangentBody, name: str = "body") -> Function:
    """A function from parameters and their tangents to results and their tangents."""
    params = (*body.params, *body.tangents.values())
    return Function(name, params, body.ops, (*body.results, *present(body.out)))


@dataclass(frozen=True, slots=True)
class CalleeTangent:
    """A callee with its tangents; ``out`` has the type of each result's tangent or None."""

    params: tuple[Param, ...]
    out: tuple[TensorType | None, ...]
    ref: FunctionRef


def call_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """``y, dy = f_tangent(x, dx)``, one function for each choice of inputs that vary."""
    assert isinstance(op, Call)
    moving = _callee_tangent(engine, op.callee.name, flags_of(dx))
    sizes = unify(types_of(moving.params), types_of(xs))
    types = (*op.types, *(t.substitute(sizes) for t in moving.out if t is not None))
    found = Call((*xs, *present(dx)), moving.ref, types).results
    rest = iter(found[len(op.types) :])
    return found[: len(op.types)], [None if t is None else next(rest) for t in moving.out]


def _callee_tangent(engine: Engine, name: str, flags: Flags) -> CalleeTangent:
    """The tangent function of a callee.

    For a recursive callee, a result that activity analysis says may vary gets a tangent in any
    case.
    """
    fn, key = engine.function(name), ("tangent", name, flags)

    def make() -> CalleeTangent:
        ref = engine.reserve(f"{name}_tangent")
        if not engine.recursive(name):
            body = tangent_body(engine, fn, flags)
            engine.fill(ref, tangent_function(body))
            return CalleeTangent(
                fn.params, tuple(None if d is None else d.type for d in body.out), ref
            )
        varied = engine.activity.varied(fn, flags)
        out = tuple(r.type if r in varied else None for r in fn.results)
        engine.assume(key, moving := CalleeTangent(fn.params, out, ref))
        body = tangent_body(engine, fn, flags)
        engine.fill(ref, _branch(body, [i for i, t in enumerate(out) if t is not None]))
        return moving

    return engine.once(key, make)


def cond_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """A result has a tangent if it varies in either branch; the other branch gives zeros."""
    assert isinstance(op, Cond)
    flags = flags_of(dx[1:])
    sides = [tangent_body(engine, fn, flags) for fn in (op.then, op.otherwise)]
    varying = [i for i in range(len(op.results)) if any(s.out[i] is not None for s in sides)]
    branches = [_branch(side, varying) for side in sides]
    given = (*xs[1:], *present(dx))
    found = Cond(xs[0], given, *branches, otherwise_first=op.otherwise_first).results
    n = len(op.results)
    out = dict(zip(varying, found[n:], strict=True))
    return found[:n], [out.get(i) for i in range(n)]


def _branch(side: TangentBody, varying: Sequence[int]) -> Function:
    with Builder(side.ops) as builder:
        out = [side.tangent_of(i) for i in varying]
    params = (*side.params, *side.tangents.values())
    return Function("branch", params, tuple(builder.ops), (*side.results, *out))


@dataclass(frozen=True, slots=True)
class Trip:
    """The body of a loop with its tangents, and the initial values of the carried tangents."""

    body: TangentBody
    start: tuple[Value, ...]
    carries: tuple[int, ...]

    def tangents(self, first: int, last: int) -> list[Param]:
        """The tangents of the parameters from position ``first`` up to ``last``."""
        return [d for i, d in self.body.tangents.items() if first <= i < last]


def _trip(engine: Engine, op: While | Scan, xs: Sequence[Value], dx: Tangents) -> Trip:
    flags = engine.activity.entering(op, flags_of(dx))
    body = tangent_body(engine, op.body, flags)
    carries = tuple(i for i in range(len(op.init)) if i in body.tangents)
    start = tuple(zeros(xs[i].type) if (d := dx[i]) is None else d for i in carries)
    return Trip(body, start, carries)


def scan_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """Tangents of carried values are carried; tangents of slices are slices."""
    assert isinstance(op, Scan)
    n, m, count = len(op.init), len(op.init) + len(op.xs), len(xs)
    trip = _trip(engine, op, xs, dx)
    body = trip.body
    params = (
        *(*body.params[:n], *trip.tangents(0, n)),
        *(*body.params[n:m], *trip.tangents(n, m)),
        *(*body.params[m:], *trip.tangents(m, count)),
    )
    with Builder(body.ops) as builder:
        carried = [body.tangent_of(i) for i in trip.carries]
    stacked = (*body.results[n:], *present(body.out[n:]))
    results = (*body.results[:n], *carried, *stacked)
    step = Function("body", params, tuple(builder.ops), results)
    slices, captured = (*xs[n:m], *present(dx[n:m])), (*xs[m:], *present(dx[m:]))
    start = (*xs[:n], *trip.start)
    found = Scan(start, slices, captured, step, op.length, op.reverse, op.unroll).results
    k = len(start)
    ys, dys = results_and_tangents(found[k:], body.out[n:])
    return (*found[:n], *ys), (*_carried(found[n:k], trip, n), *dys)


def _carried(found: Sequence[Value], trip: Trip, n: int) -> Tangents:
    known = dict(zip(trip.carries, found, strict=True))
    return [known.get(i) for i in range(n)]


def while_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """The loop carries the tangents as well; its condition ignores them."""
    assert isinstance(op, While)
    n, count = len(op.init), len(xs)
    trip = _trip(engine, op, xs, dx)
    body = trip.body
    params = (
        *(*body.params[:n], *trip.tangents(0, n)),
        *(*body.params[n:], *trip.tangents(n, count)),
    )
    with Builder(body.ops) as builder:
        carried = [body.tangent_of(i) for i in trip.carries]
    step = Function("body", params, tuple(builder.ops), (*body.results, *carried))
    old = op.condition
    head = (
        *(*old.params[:n], *_unread(trip.tangents(0, n))),
        *(*old.params[n:], *_unread(trip.tangents(n, count))),
    )
    condition = Function("condition", head, old.ops, old.results)
    start = (*xs[:n], *trip.start)
    found = While(start, (*xs[n:], *present(dx[n:])), condition, step).results
    return found[:n], _carried(found[n:], trip, n)


def _unread(params: Sequence[Param]) -> list[Param]:
    return [Param(p.type, p.name) for p in params]


def checkpoint_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """A checkpoint of the body that computes the tangents as well."""
    assert isinstance(op, Checkpoint)
    body = tangent_body(engine, op.body, flags_of(dx))
    found = Checkpoint((*xs, *present(dx)), tangent_function(body), op.policy).results
    return results_and_tangents(found, body.out)


def recompute_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """A recomputation of the body that computes the tangents as well, on the same triggers."""
    assert isinstance(op, Recompute)
    n = len(op.xs)
    body = tangent_body(engine, op.body, flags_of(dx[:n]))
    found = Recompute((*xs[:n], *present(dx[:n])), tuple(xs[n:]), tangent_function(body)).results
    return results_and_tangents(found, body.out)


TANGENTS[Call] = call_tangent
TANGENTS[Cond] = cond_tangent
TANGENTS[Scan] = scan_tangent
TANGENTS[While] = while_tangent
TANGENTS[Checkpoint] = checkpoint_tangent
TANGENTS[Recompute] = recompute_tangent
