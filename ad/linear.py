"""Linearisation: a function at a point as its results, its residuals and a linear map.

``ahead`` computes the results and the residuals once. ``map`` takes residuals and cotangents of the
results to cotangents of the parameters; or, transposed, residuals and tangents of the parameters to
tangents of the results. Whatever part of the map does not depend on the cotangents or tangents is
computed in ``ahead``, except for cheap operations. A tape, which can be read only once, becomes a
stack if its capacity is given.
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
from .live import free_values, live, partition
from .pairs import Pair, pair, residuals
from .stacking import CannotStack, Stacking, most, without_handing_on


@dataclass(frozen=True, eq=False, slots=True)
class Point:
    """The functions ``ahead`` and ``map``, and the functions of the module that they may call.

    The parameters of ``map`` are the residuals, then what the map is applied to, then arrays
    without elements, of the types ``witness``, whose shapes tell sizes.
    """

    ahead: Function
    map: Function
    witness: tuple[TensorType, ...]
    made: tuple[Entry, ...]


def point(
    module: Module, name: str, wrt: Flags, seeded: Flags, forward: bool, capacity: int | None = None
) -> Point | None:
    """Linearises a function with respect to the parameters and from the results flagged.

    If ``capacity`` is given, tapes become stacks with that number of slots, and the last result of
    ``ahead`` is the number of slots that were needed. The answer is None if a tape remains that
    would have to be read more than once.
    """
    engine = Expansion(module)
    fn = engine.function(name)
    engine.pullbacks_reused = True
    split = pair(engine, fn, wrt, seeded, reread=())
    if split.taped and capacity is None:
        return None
    label = engine.reserve(f"{name}_{'along' if forward else 'back'}").name
    try:
        linearised = _linearise(engine, split, label, capacity, forward)
        if forward:
            moving = [p for p, f in zip(fn.params, wrt, strict=True) if f]
            linearised = _transposed_map(engine, linearised, moving, capacity)
    except CannotStack:
        return None
    known, rest = partition(linearised.linear.ops, linearised.linear.params)
    late = {r for op in rest for r in op.results}
    if any(v in late for v in linearised.filled):
        return None
    each = dict.fromkeys((*linearised.ops, *known))  # both passes define the constants
    with Builder(tuple(each)) as builder:
        wanted = () if capacity is None else (most(linearised.filled),)
    ops, linear = tuple(builder.ops), linearised.linear
    kept, again = residuals(split.params, ops, (), free_values(rest, linear.results, linear.params))
    if any(v.dtype is TAPE for v in kept):  # the tape of a recursive callee
        return None
    results = (*linearised.results, *kept, *wanted)
    first = engine.reserve(f"{name}_ahead").name
    ahead = Function(first, split.params, live(ops, results), results)
    applied, witness = _map(fn, linear, kept, (*again, *rest))
    return Point(ahead, applied, witness, engine.entries())


@dataclass(frozen=True, slots=True)
class Linearised:
    """The operations that run at the point, and the linear function that reads their values."""

    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    linear: Function
    filled: tuple[Value, ...] = ()
    """The stack pointers after each push: how far the stacks were filled."""


def _linearise(
    engine: Expansion, split: Pair, label: str, capacity: int | None, transposed_later: bool
) -> Linearised:
    """The forward pass and the pullback; tapes inside the pullback stay until it was transposed."""
    seeds = tuple(split.seeds.values())
    if capacity is None:
        with Builder() as builder:
            ends = split.write_pullback(split.residuals)
        linear = Function(label, seeds, tuple(builder.ops), tuple(ends))
        return Linearised(split.ops, split.results, linear)
    kept = [Param(r.type, "kept") for r in split.residuals]
    with Builder() as builder:
        ends = split.write_pullback(kept)
    tape = (split.tape_back,) if split.taped else ()
    back = Function(label, (*kept, *seeds, *tape), tuple(builder.ops), tuple(ends))
    codes = [without_handing_on(engine, code) for code in (split.forward(label), back)]
    return _stacked(split, codes, capacity, not transposed_later)


def _stacked(split: Pair, codes: Sequence[Function], capacity: int, whole: bool) -> Linearised:
    ahead, back = codes
    stacking, env = Stacking(capacity, codes), Env()
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
    with Builder() as backward_ops:
        stacking.write(back.ops, env, outermost=whole)
    ends = mapped((r for r in back.results if r.type.dtype != TAPE), env)
    linear = Function(back.name, seeds, tuple(backward_ops.ops), tuple(ends))
    return Linearised(tuple(builder.ops), tuple(results), linear, tuple(stacking.filled))


def _transposed_map(
    engine: Expansion, linearised: Linearised, moving: Sequence[Param], capacity: int | None
) -> Linearised:
    """The same point with the linear function transposed."""
    linear, filled = _transpose(engine, linearised.linear, moving), linearised.filled
    if capacity is not None:
        linear = without_handing_on(engine, linear)
        stacking, env = Stacking(capacity, (linear,)), Env()
        with Builder() as builder:
            stacking.write(linear.ops, env, outermost=True)
        ends = tuple(mapped(linear.results, env))
        linear = Function(linear.name, linear.params, tuple(builder.ops), ends)
        filled = (*filled, *stacking.filled)
    return Linearised(linearised.ops, linearised.results, linear, filled)


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
        unused = [zeros(seed.type) for seed in linear.params]
        out = inline(Function(linear.name, linear.params, tuple(ops), tuple(found)), unused)
    return Function(linear.name, tuple(tangents), tuple(builder.ops), out)
