"""Forward mode: a body that computes its tangents as it goes, without a tape.

A leaf operation needs no rule: its adjoint is linear in ``dy``, so the transpose of the adjoint is
the tangent. The adjoint is written for a symbolic seed and pulled back in turn; the seed must not
occur in the result, which is checked. Control operations have rules in ``TANGENTS``, which compute
the tangents in the same region as the primal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlvm.base.errors import CompilerError
from dlvm.ir import Builder, Declaration, Function, Op, Param, Value, current_builder, zeros
from dlvm.ir.rewrite import Env, mapped, place
from dlvm.ops import EmptyTape

from .activity import Flags, flows
from .live import live
from .reverse import (
    Cotangents,
    Engine,
    Sweep,
    cotangent,
    leaf_adjoint,
    origin_of_derivative,
    seed_results,
)

Tangents = Cotangents
Rule = Callable[[Engine, Op, Sequence[Value], Tangents], tuple[Sequence[Value], Tangents]]
TANGENTS: dict[type[Op], Rule] = {}


@dataclass(frozen=True, slots=True)
class TangentBody:
    """A body with tangents: of the parameters that vary (input), and of the results (output)."""

    params: tuple[Param, ...]
    tangents: dict[int, Param]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]
    out: tuple[Value | None, ...]

    def tangent_of(self, i: int) -> Value:
        """The tangent of result ``i``; zeros, written here, if the result does not vary."""
        found = self.out[i]
        return zeros(self.results[i].type) if found is None else found


def tangent_body(engine: Engine, fn: Function, wrt: Flags) -> TangentBody:
    """A body that computes the tangents right after the operations that they belong to."""
    varied = engine.activity.varied(fn, wrt)
    params = {i: Param(p.type, f"d_{p.name}") for i, p in enumerate(fn.params) if p in varied}
    tangents: dict[Value, Value] = {fn.params[i]: d for i, d in params.items()}
    builder = Builder()
    env: Env = {}
    for op in fn.ops:
        builder.origin = op.origin
        if any(r in varied for r in op.results):
            _step(engine, builder, op, env, tangents)
        else:
            place(builder, op, env)
    results = tuple(mapped(fn.results, env))
    out = tuple(tangents.get(r) for r in results)
    return TangentBody(fn.params, params, tuple(builder.ops), results, out)


def _step(engine: Engine, builder: Builder, op: Op, env: Env, tangents: dict[Value, Value]) -> None:
    operands = mapped(op.operands, env)
    dx = [tangents.get(v) for v in operands]
    rule = TANGENTS.get(type(op))
    if rule is None:
        new = place(builder, op, env)
        results: Sequence[Value] = new.results
        builder.origin = origin_of_derivative(op, "tangent")
        with builder:
            dy = tangent_of_leaf(engine, new, dx)
    else:
        with builder:
            results, dy = rule(engine, op, operands, dx)
        env.update(zip(op.results, results, strict=True))
    tangents.update((r, d) for r, d in zip(results, dy, strict=True) if d is not None)


def tangent_of_leaf(engine: Engine, op: Op, dx: Tangents) -> Tangents:
    """The tangent of a leaf: ``dx`` applied to the transpose of its adjoint ``dy -> dx``."""
    flowing = [r for r in op.results if flows(r.type)]
    seeds = {r: Param(r.type, "seed") for r in flowing}
    with Builder() as formula:
        parts = leaf_adjoint(op, [seeds.get(r) or zeros(r.type) for r in op.results])
    known = [(p, d) for p, d in zip(parts, dx, strict=True) if p is not None and d is not None]
    ends = tuple(p for p, _ in known)
    linear = Function(f"adjoint of {op.name}", tuple(seeds.values()), tuple(formula.ops), ends)
    ops, out = transposed(engine, linear, [d for _, d in known])
    if any(v in seeds.values() for v in (*(v for op in ops for v in op.operands), *out)):
        raise CompilerError(f"the adjoint of {op.name} is not linear in the cotangent")
    builder = current_builder()
    assert builder is not None
    for each in ops:
        builder.append(each)
    found = dict(zip(flowing, out, strict=True))
    return [found.get(r) for r in op.results]


def transposed(
    engine: Engine, linear: Function, dx: Sequence[Value]
) -> tuple[Sequence[Op], Sequence[Value]]:
    """The transpose of a linear function, applied to ``dx``: its operations and its results."""
    every = (True,) * len(linear.params)
    builder = Builder()
    with builder:
        sweep = Sweep(engine, linear, every, (True,) * len(dx), EmptyTape())
    ends = sweep.forward(builder)
    cotangents: dict[Value, Value] = {}
    with builder:
        seed_results(ends, dict(enumerate(dx)), cotangents)
    sweep.backward(builder, cotangents)
    with builder:
        out = [cotangent(cotangents, seed) for seed in linear.params]
    return live(builder.ops, out), out


def tangent(engine: Engine, d: Declaration) -> Function:
    """The function that the declaration of a tangent stands for."""
    fn = engine.function(d.of)
    body = tangent_body(engine, fn, tuple(i in d.wrt for i in range(len(fn.params))))
    with Builder(body.ops) as builder:
        out = [body.tangent_of(i) for i, r in enumerate(body.results) if r.type.dtype.is_float]
    results = (*(body.results[i] for i in d.keep), *out)
    params = (*body.params, *(body.tangents[i] for i in d.wrt))
    return Function(d.name, params, live(builder.ops, results), results)
