"""A function at a point: its results, what is kept there, and a linear map from there.

``ahead`` computes the results and the residuals, once. ``map`` takes residuals and cotangents of
results to cotangents of parameters, or, being the transpose of that, residuals and tangents of
parameters to tangents of results. What of it does not depend on those is computed ahead, but for
moves and plain arithmetic. A function that keeps a tape, which is read only once, has no map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import Builder, Function, Module, Op, Param, TensorType, Value, zeros
from dlvm.ir.core import Entry
from dlvm.ir.rewrite import Env, has, inline, mapped, place
from dlvm.ops import CustomVjp

from .activity import Flags
from .control import witness_of
from .custom import demand_linear, forward_demands
from .expand import Expansion
from .forward import transposed
from .live import apart, free, live
from .pairs import pair, residuals


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


def point(module: Module, name: str, wrt: Flags, seeded: Flags, forward: bool) -> Point | None:
    """A function of a module with its map by the parameters and from the results flagged."""
    engine = Expansion(module)
    fn = engine.function(name)
    engine.often = True
    split = pair(engine, fn, wrt, seeded, lent=())
    if split.taped:
        return None
    with Builder() as builder:
        ends = split.write_back(split.residuals)
    label = engine.reserve(f"{name}_{'along' if forward else 'back'}").name
    linear = Function(label, tuple(split.seeds.values()), tuple(builder.ops), tuple(ends))
    if forward:
        moving = [p for p, f in zip(fn.params, wrt, strict=True) if f]
        linear = _transpose(engine, linear, moving)
    known, rest = apart(linear.ops, linear.params)
    ops = (*split.ops, *known)
    kept, again = residuals(split.params, ops, (), free(rest, linear.results, linear.params))
    results = (*split.results, *kept)
    first = engine.reserve(f"{name}_ahead").name
    ahead = Function(first, split.params, live(ops, results), results)
    applied, witness = _map(fn, linear, kept, (*again, *rest))
    return Point(ahead, applied, witness, engine.entries())


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
