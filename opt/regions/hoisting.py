"""Loop-invariant code: what is the same on every trip is computed once, before the loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlvm.ir import Function, Op, Param, Value
from dlvm.ir.rewrite import Env, copy_ops, mapped, transform
from dlvm.ops import Structured
from dlvm.opt.facts import free, speculable
from dlvm.passes import function_pass

from .values import widened


@function_pass
def hoist(fn: Function) -> Function:
    """Move what a loop's body computes from captured values alone in front of the loop.

    The loop may make no trip, so nothing that could raise or never end is moved, and no
    effect. Constants, broadcasts and their like stay, for kernels read through them; they are
    copied where something moved needs them. Innermost loops first, so code leaves whole nests.
    """

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Structured)
        return _hoisted(op, env) if op.dataflow.loops else None

    return transform(fn, visit, on=Structured)


def _hoisted(op: Structured, env: Env) -> Iterable[Value] | None:
    (body,) = op.giving
    varying = op.carries + op.slices
    inputs = body.params[varying:]
    moved = _invariant(body, inputs)
    worth = [o for o in moved if not free(o)]
    if not worth:
        return None
    operands = mapped(op.operands, env)
    captured = operands[op.seen][varying:]
    outside: Env = dict(zip(inputs, captured, strict=True))
    copy_ops(_ancestry(worth, moved), outside)
    crossing = _still_used(body, set(worth))
    params = [Param(v.type, f"invariant{i}") for i, v in enumerate(crossing)]
    inside: Env = dict(zip(crossing, params, strict=True))
    regions = {op.dataflow.bodies[0]: _body_without(body, set(worth), params, inside)}
    if op.test is not None:
        copies = [Param(p.type, p.name) for p in params]
        regions[op.dataflow.test] = widened(op.test, copies, {})
    return op.regrouped(operands, regions, mapped(crossing, outside)).results


def _invariant(body: Function, captured: Sequence[Param]) -> list[Op]:
    same: set[Value] = set(captured)
    moved: list[Op] = []
    for op in body.ops:
        if all(v in same for v in op.operands) and speculable(op):
            moved.append(op)
            same.update(op.results)
    return moved


def _ancestry(worth: Sequence[Op], moved: Sequence[Op]) -> list[Op]:
    """What must be computed for ``worth``, in order."""
    wanted: set[Value] = {r for op in worth for r in op.results}
    chosen: list[Op] = []
    for op in reversed(moved):
        if any(r in wanted for r in op.results):
            wanted.update(op.operands)
            chosen.append(op)
    return chosen[::-1]


def _still_used(body: Function, gone: set[Op]) -> list[Value]:
    """Results of what goes that what stays refers to."""
    made = {r for op in gone for r in op.results}
    uses = [v for op in body.ops if op not in gone for v in op.operands]
    return [v for v in dict.fromkeys((*uses, *body.results)) if v in made]


def _body_without(body: Function, gone: set[Op], params: Sequence[Param], env: Env) -> Function:
    staying = Function(
        body.name, body.params, tuple(o for o in body.ops if o not in gone), body.results
    )
    return widened(staying, params, env)
