"""A function at a point: its results, what is kept there, and a linear map from there.

``ahead`` computes the results and the residuals, once. ``map`` takes residuals and cotangents of
results to cotangents of parameters, or, being the transpose of that, residuals and tangents of
parameters to tangents of results. What of it does not depend on those is computed ahead, but for
moves and plain arithmetic. A tape, which is read only once, becomes a stack if its room is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import TAPE, Builder, Function, Module, Op, Param, TensorType, Value, zeros
from dlvm.ir.core import Entry
from dlvm.ir.rewrite import Env, has, inline, mapped, place
from dlvm.ops import CustomVjp

from .activity import Flags
from .control import witness_of
from .custom import demand_linear, forward_demands
from .expand import Expansion
from .forward import transposed
from .live import apart, free, live
from .pairs import Pair, pair, residuals
from .stacking import CannotStack, Stacking, most, without_handing_on


@dataclass(frozen=True, eq=False, slots=True)
class Point:
    """Two functions, and those of the module that they may call.

    ``map`` takes residuals, what it is applied to, then arrays without elements that tell sizes,
    of the types ``witness``.
    """

    ahead: Function
    map: Function
    witness: tuple[TensorType, ...]
    made: tuple[Entry, ...]


def point(
    module: Module, name: str, wrt: Flags, seeded: Flags, forward: bool, room: int | None = None
) -> Point | None:
    """A function of a module with its map by the parameters and from the results flagged.

    With ``room`` tapes become stacks of that many slots, and the last result of ``ahead`` says how
    many were wanted. None where a tape is left that would be read more than once.
    """
    engine = Expansion(module)
    fn = engine.function(name)
    engine.often = True
    split = pair(engine, fn, wrt, seeded, lent=())
    if split.taped and room is None:
        return None
    label = engine.reserve(f"{name}_{'along' if forward else 'back'}").name
    try:
        there = _there(engine, split, label, room, forward)
        if forward:
            moving = [p for p, f in zip(fn.params, wrt, strict=True) if f]
            there = _along(engine, there, moving, room)
    except CannotStack:
        return None
    known, rest = apart(there.linear.ops, there.linear.params)
    late = {r for op in rest for r in op.results}
    if any(v in late for v in there.filled):
        return None
    each = dict.fromkeys((*there.ops, *known))  # the way back computes constants again
    with Builder(tuple(each)) as builder:
        wanted = () if room is None else (most(there.filled),)
    ops, linear = tuple(builder.ops), there.linear
    kept, again = residuals(split.params, ops, (), free(rest, linear.results, linear.params))
    if any(v.dtype is TAPE for v in kept):  # that of a function which is called
        return None
    results = (*there.results, *kept, *wanted)
    first = engine.reserve(f"{name}_ahead").name
    ahead = Function(first, split.params, live(ops, results), results)
    applied, witness = _map(fn, linear, kept, (*again, *rest))
    return Point(ahead, applied, witness, engine.entries())


@dataclass(frozen=True, slots=True)
class There:
    """What is computed at a point: the function, and a linear one that reads what that made."""

    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    linear: Function
    filled: tuple[Value, ...] = ()
    """Pointers into stacks, after what was pushed."""


def _there(
    engine: Expansion, split: Pair, label: str, room: int | None, transposed_later: bool
) -> There:
    """The function and its way back, whose own tapes stay until it has been transposed."""
    seeds = tuple(split.seeds.values())
    if room is None:
        with Builder() as builder:
            ends = split.write_back(split.residuals)
        linear = Function(label, seeds, tuple(builder.ops), tuple(ends))
        return There(split.ops, split.results, linear)
    kept = [Param(r.type, "kept") for r in split.residuals]
    with Builder() as builder:
        ends = split.write_back(kept)
    tape = (split.tape_back,) if split.taped else ()
    back = Function(label, (*kept, *seeds, *tape), tuple(builder.ops), tuple(ends))
    codes = [without_handing_on(engine, code) for code in (split.forward(label), back)]
    return _stacked(split, codes, room, not transposed_later)


def _stacked(split: Pair, codes: Sequence[Function], room: int, whole: bool) -> There:
    ahead, back = codes
    stacking, env = Stacking(room, codes), Env()
    with Builder() as builder:
        if split.taped:
            stacking.tapes[ahead.params[-1]] = stacking.empty()
        stacking.write(ahead.ops, env, outermost=True)
    found = mapped(ahead.results, env)
    if split.taped:
        stacking.tapes[back.params[-1]] = stacking.tapes[ahead.results[-1]]
        found = found[:-1]
    results, kept = split.unpacked(found)
    env.update(zip(back.params, kept, strict=False))
    seeds = back.params[len(kept) : len(kept) + len(split.seeds)]
    with Builder() as undo:
        stacking.write(back.ops, env, outermost=whole)
    ends = mapped((r for r in back.results if r.type.dtype != TAPE), env)
    linear = Function(back.name, seeds, tuple(undo.ops), tuple(ends))
    return There(tuple(builder.ops), tuple(results), linear, tuple(stacking.filled))


def _along(engine: Expansion, there: There, moving: Sequence[Param], room: int | None) -> There:
    """The same with the transpose of its linear function."""
    linear, filled = _transpose(engine, there.linear, moving), there.filled
    if room is not None:
        linear = without_handing_on(engine, linear)
        stacking, env = Stacking(room, (linear,)), Env()
        with Builder() as builder:
            stacking.write(linear.ops, env, outermost=True)
        ends = tuple(mapped(linear.results, env))
        linear = Function(linear.name, linear.params, tuple(builder.ops), ends)
        filled = (*filled, *stacking.filled)
    return There(there.ops, there.results, linear, filled)


def _map(
    fn: Function, linear: Function, kept: Sequence[Value], ops: Sequence[Op]
) -> tuple[Function, tuple[TensorType, ...]]:
    inputs = [Param(r.type, f"kept_{i}") for i, r in enumerate(kept)]
    params = (*inputs, *linear.params)
    witness = witness_of(fn, params)
    env: Env = dict(zip(kept, inputs, strict=True))
    builder = Builder()
    for op in ops:
        place(builder, op, env)
    results = tuple(mapped(linear.results, env))
    whole = Function(linear.name, (*params, *witness), tuple(builder.ops), results)
    return whole, tuple(p.type for p in witness)


def _transpose(engine: Expansion, linear: Function, moving: Sequence[Param]) -> Function:
    tangents = [Param(p.type, f"d_{p.name}") for p in moving]
    if any(has(e, CustomVjp) for e in engine.entries() if isinstance(e, Function)):
        demands = forward_demands("the way back of a function")
        demand_linear(engine, linear, (True,) * len(linear.params), None, demands)
    ops, found = transposed(engine, linear, tangents)
    with Builder() as builder:
        still = [zeros(seed.type) for seed in linear.params]
        out = inline(Function(linear.name, linear.params, tuple(ops), tuple(found)), still)
    return Function(linear.name, tuple(tangents), tuple(builder.ops), out)
