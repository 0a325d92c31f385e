"""The form of a function that is differentiated: kernels are inlined, general folds become scans.

A fold is rewritten as a scan over the flattened reduced axes that carries the fold's state, which
is how the fold's reference computes it. Reductions that state an adjoint of their own are kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dlvm.ir import Builder, Function, Param, TensorType, Value, splat
from dlvm.ir.rewrite import Env, everywhere, inline, mapped, transform
from dlvm.ir.sizes.dims import product
from dlvm.ops import Broadcast, Fold, Permute, Reshape, Scan, Structured


def without_donation(fn: Function) -> Function:
    """The function with no parameter donated: a derived function does not own its arguments."""
    if not any(p.donated for p in fn.params):
        return fn
    params = tuple(replace(p, donated=False) for p in fn.params)
    same = transform(fn, lambda op, env: None, dict(zip(fn.params, params, strict=True)))
    return replace(same, params=params)


def differentiable_form(fn: Function) -> Function:
    """The function without kernels and general folds, nested regions included."""
    if not any(kind.one_nest for kind in fn.kinds):
        return fn
    return everywhere(fn, lambda body: transform(body, _open))


def _open(op: object, env: Env) -> Iterable[Value] | None:
    if isinstance(op, Structured) and op.one_nest:
        return inline(op.giving[0], mapped(op.operands[op.seen], env))
    if isinstance(op, Fold):
        return _scan(op, mapped(op.xs, env))
    return None


def _scan(op: Fold, xs: list[Value]) -> tuple[Value, ...]:
    """``fold(xs)`` as a scan over the reduced axes in row-major order, from the identities."""
    kept = tuple(i for i in range(xs[0].type.rank) if i not in op.axes)
    states = [x.type.with_shape(tuple(x.shape[i] for i in kept)) for x in xs]
    count = product(tuple(xs[0].shape[a] for a in op.axes))
    front = [Permute(x, (*op.axes, *kept)) for x in xs]
    rows = [Reshape(x, (count, *t.shape)) for x, t in zip(front, states, strict=True)]
    init = [splat(e, t) for e, t in zip(op.identities, states, strict=True)]
    params = tuple(Param(t, name) for name in ("state", "x") for t in states)
    with Builder() as builder:
        results = _on_tensors(op.combine_region, params, states[0])
    body = Function("body", params, tuple(builder.ops), results)
    return Scan(tuple(init), tuple(rows), (), body, count).results


def _on_tensors(
    region: Function, arguments: Iterable[Value], like: TensorType
) -> tuple[Value, ...]:
    """Writes a region of scalar operations on tensors that all have the shape of ``like``."""
    env: Env = dict(zip(region.params, arguments, strict=True))
    for op in region.ops:
        new = op.rebuild(mapped(op.operands, env))
        spread = (Broadcast(r, like.shape, ()) for r in new.results) if not op.operands else ()
        env.update(zip(op.results, tuple(spread) or new.results, strict=True))
    return tuple(mapped(region.results, env))
