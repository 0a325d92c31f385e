"""Calls with custom derivatives: the users' rules in reverse mode, forward mode and batched.

Reverse mode calls ``forward`` and later ``backward``; from a rule for forward mode it takes the
transpose, which exists because the rule is linear in the tangents. Forward mode calls the rule;
from a ``backward`` function it takes the transpose. Linearity is checked before transposing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dlvm.base.errors import UserError
from dlvm.ir import Function, FunctionRef, Op, Param, TensorType, Value, zeros
from dlvm.ir.core import Builder
from dlvm.ir.rewrite import inline, types_of
from dlvm.ir.unify import unify
from dlvm.ops import Call, Custom, CustomJvp, CustomVjp, Sum

from .activity import Flags, flows
from .batch import BATCHED, Batch, Lanes
from .batch_control import fresh_size
from .control import call_adjoint, forward_call, split_callee
from .cotangents import added
from .forward import TANGENTS, Tangents, transposed
from .linearity import not_linear
from .reverse import ADJOINTS, Cotangents, Engine, Forwarded, Sweep, or_zeros
from .tangents import Moved


def floats(values: Sequence[Value]) -> list[int]:
    """The positions of the values through which derivatives flow."""
    return [i for i, v in enumerate(values) if flows(v.type)]


def _results_of(engine: Engine, ref: FunctionRef, operands: Sequence[Value]) -> list[TensorType]:
    fn = engine.without_donation(ref.name)
    sizes = unify(types_of(fn.params), types_of(operands))
    return [r.type.substitute(sizes) for r in fn.results]


def _check_captured(op: Custom, moving: Iterable[int]) -> None:
    """Refuses a derivative with respect to a captured value, which the user's rule would lose."""
    for i in moving:
        if i >= len(op.xs):
            value = op.operands[i]
            name = f"%{value.name}, " if isinstance(value, Param) else ""
            raise UserError(
                f"{op.callee} has a custom derivative and captures {name}{value.type} from "
                "outside; the rule gives no derivative with respect to a captured value",
                origin=op.origin,
                remedy="pass the value as an argument, or apply dlvm.stop_gradient to it",
            )


def demand_linear(
    engine: Engine, fn: Function, moving: Flags, wanted: Flags | None, said: tuple[str, str, str]
) -> None:
    """Refuses to transpose a function that is not linear; the error is reported at the culprit.

    ``said`` is the mode, the rule with what it should be linear in, and the remedy.
    """
    culprit = not_linear(engine, fn, moving, wanted)
    if culprit is not None:
        mode, rule, remedy = said
        raise UserError(
            f"{mode} takes the transpose of {rule}; its operation {culprit.name} is not linear",
            origin=culprit.origin,
            remedy=remedy,
        )


# -- reverse mode ----------------------------------------------------------------------------------


def custom_vjp_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """``y, kept = forward(x)`` and ``dx = backward(kept, dy)``."""
    assert isinstance(op, CustomVjp)
    active, _ = sweep.wanted(op)
    _check_captured(op, (i for i, f in enumerate(active) if f))
    engine, n, k = sweep.engine, len(op.xs), len(op.types)
    types = _results_of(engine, op.forward, operands)
    out = Call(tuple(operands), op.forward, tuple(types)).results
    captured = operands[n:]

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        seeds = [or_zeros(dy[i], op.types[i]) for i in floats(out[:k])]
        given = (*out[k:], *seeds, *captured)
        places = floats(op.xs)
        parts = Call(given, op.backward, tuple(operands[i].type for i in places)).results
        sums = list(so_far)
        for i, part in zip(places, parts, strict=True):
            sums[i] = added(so_far[i], part)
        return sums

    return Forwarded(out[:k], pullback)


def custom_jvp_adjoint(sweep: Sweep, op: Op, operands: Sequence[Value]) -> Forwarded:
    """The transpose of the rule, in which the tangents themselves are written as zeros."""
    assert isinstance(op, CustomJvp)
    active, seeded = sweep.wanted(op)
    _check_captured(op, (i for i, f in enumerate(active) if f))
    n, k, places = len(op.xs), len(op.types), floats(op.xs)
    unused = [zeros(operands[i].type) for i in places]
    given = (*operands[:n], *unused, *operands[n:])
    moving = (*(False,) * n, *(active[i] for i in places), *(False,) * len(op.captured))
    results = floats(op.results)
    if op.rule in sweep.engine.transposing:  # the rule applies the function to a tangent:
        return call_adjoint(sweep, op, operands)  # so the function itself must be linear
    seeds = (*(False,) * k, *(seeded[i] for i in results))
    sweep.engine.transposing.add(op.rule)
    rule = sweep.engine.function(op.rule.name)
    tangents = (*(False,) * n, *(True,) * len(places), *(False,) * len(op.captured))
    demand_linear(
        sweep.engine,
        rule,
        tangents,
        (*(False,) * k, *(True,) * len(results)),
        (
            "reverse mode",
            f"{op.rule}, which must be linear in the tangents",
            "write tangents that are linear in the tangents given",
        ),
    )
    split = split_callee(sweep, op.rule.name, moving, seeds)
    sweep.engine.transposing.discard(op.rule)
    forwarded = forward_call(sweep, split, given)

    def pullback(dy: Cotangents, so_far: Cotangents) -> Cotangents:
        came = [*(None,) * k, *(dy[i] for i in results)]
        parts = forwarded.pullback(came, (None,) * len(given))
        sums = list(so_far)
        for i, part in zip(places, parts[n:], strict=False):
            sums[i] = added(so_far[i], part)
        return sums

    return Forwarded(forwarded.results[:k], pullback)


# -- forward mode ----------------------------------------------------------------------------------


def forward_demands(rule: object) -> tuple[str, str, str]:
    """The words of ``demand_linear`` for forward mode through a rule for reverse mode."""
    return (
        "forward mode",
        f"{rule}, which must be linear in the cotangents",
        "use reverse mode (dlvm.grad, dlvm.vjp), or dlvm.custom_jvp",
    )


def _flagged(engine: Engine, op: Custom, dx: Tangents) -> None:
    useful = engine.activity.operands_useful(op, tuple(flows(t) for t in op.result_types))
    pairs = zip(dx, useful, strict=True)
    _check_captured(op, (i for i, (d, f) in enumerate(pairs) if f and d is not None))


def custom_jvp_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """``y, dy = rule(x, dx)``."""
    assert isinstance(op, CustomJvp)
    _flagged(engine, op, dx)
    n, k = len(op.xs), len(op.types)
    moving = [or_zeros(dx[i], xs[i].type) for i in floats(op.xs)]
    results = floats(op.results)
    types = (*op.types, *(op.types[i] for i in results))
    out = Call((*xs[:n], *moving, *xs[n:]), op.rule, types).results
    known = dict(zip(results, out[k:], strict=True))
    return out[:k], [known.get(i) for i in range(k)]


def custom_vjp_tangent(engine: Engine, op: Op, xs: Sequence[Value], dx: Tangents) -> Moved:
    """``dy`` as the transpose of ``dy' -> backward(kept, dy')``."""
    assert isinstance(op, CustomVjp)
    _flagged(engine, op, dx)
    n, k, places = len(op.xs), len(op.types), floats(op.xs)
    types = _results_of(engine, op.forward, xs)
    out = Call(tuple(xs), op.forward, tuple(types)).results
    results = floats(out[:k])
    seeds = {i: Param(out[i].type, "seed") for i in results}
    fn = engine.function(op.backward.name)
    given = (*out[k:], *seeds.values(), *xs[n:])
    with Builder() as formula:
        sizes = unify(types_of(fn.params), types_of(given))
        parts = inline(fn, given, sizes)
    known = [(p, dx[i]) for i, p in zip(places, parts, strict=True) if dx[i] is not None]
    linear = Function(
        f"transpose of {op.backward}",
        tuple(seeds.values()),
        tuple(formula.ops),
        tuple(p for p, _ in known),
    )
    demand_linear(engine, linear, (True,) * len(seeds), None, forward_demands(op.backward))
    ops, found = transposed(engine, linear, [d for _, d in known if d is not None])
    unused = {seed: zeros(seed.type) for seed in seeds.values()}
    out_of = inline(Function("tangent", tuple(unused), tuple(ops), tuple(found)), unused.values())
    by_result = dict(zip(results, out_of, strict=True))
    return out[:k], [by_result.get(i) for i in range(k)]


# -- batching --------------------------------------------------------------------------------------


@dataclass
class Named:
    """The names of the batched functions of a call, reserved first: they may call each other."""

    refs: dict[str, FunctionRef]
    written: bool = False


def batched(b: Batch, op: Op, xs: Sequence[Value], flags: Flags) -> Lanes:
    """The same call for all lanes; cotangents of operands that the lanes share are summed."""
    assert isinstance(op, Custom)
    engine, guard = b.engine, b.guard(op)
    old = {k: v for k, v in op.attributes.items() if isinstance(v, FunctionRef)}
    size = (
        b.size if isinstance(b.size, int) else fresh_size(engine.without_donation(op.callee.name))
    )
    key = ("custom", tuple(old.values()), flags, size, bool(guard))
    named = engine.once(
        key, lambda: Named({k: engine.reserve(f"{v.name}_batched") for k, v in old.items()})
    )
    if not named.written:
        named.written = True
        for role, fn in _for_lanes(Batch(engine, size), op, flags, bool(guard)).items():
            engine.fill(named.refs[role], fn)
    n, types = len(op.xs), tuple(b.type(t) for t in op.types)
    captured = (*xs[n:], *guard)
    new = op.rebuild(xs[:n], types=types, captured=captured, **named.refs)
    return new.results, (True,) * len(types)


def _for_lanes(b: Batch, op: Custom, flags: Flags, masked: bool) -> dict[str, Function]:
    n, places = len(op.xs), floats(op.xs)
    captured = flags[n:]

    def all_lanes(ref: FunctionRef, flags: Flags) -> Function:
        fn = b.engine.without_donation(ref.name)
        return b.spread_results(b.body(fn, flags, masked), (True,) * len(fn.results))

    found = {"callee": all_lanes(op.callee, flags)}
    if isinstance(op, CustomJvp):
        moving = tuple(flags[i] for i in places)
        found["rule"] = all_lanes(op.rule, (*flags[:n], *moving, *captured))
    if isinstance(op, CustomVjp):
        found["forward"] = all_lanes(op.forward, flags)
        count = len(b.engine.without_donation(op.backward.name).params) - len(captured)
        backward = all_lanes(op.backward, (*(True,) * count, *captured))
        found["backward"] = _summed(backward, [flags[i] for i in places])
    return found


def _summed(fn: Function, by_lane: Sequence[bool]) -> Function:
    """The function with the cotangents of values that all lanes share summed over the lanes."""
    with Builder(fn.ops) as builder:
        rows = zip(fn.results, by_lane, strict=True)
        out = tuple(r if lane else Sum(r, (0,)) for r, lane in rows)
    return Function(fn.name, fn.params, tuple(builder.ops), out)


ADJOINTS[CustomVjp] = custom_vjp_adjoint
ADJOINTS[CustomJvp] = custom_jvp_adjoint
TANGENTS[CustomVjp] = custom_vjp_tangent
TANGENTS[CustomJvp] = custom_jvp_tangent
BATCHED[Custom] = batched
