"""Loops over the elements of what they count: a trip is dealt its element, and looks none up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dlvm.ir import I64, Dim, Function, Op, Param, Value
from dlvm.ir.rewrite import Env, mapped, transform
from dlvm.ops import Gather, Iota, Maximum, Scan, is_splat
from dlvm.passes import function_pass

from .values import widened


@function_pass
def deal(fn: Function) -> Function:
    """Give a trip ``x[i]`` in place of x and i, where i counts the trips and x has one for each.

    So no index is asked whether it is one, and what is read lies where the trip says.
    """

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Scan)
        return _dealt(op, env)

    return transform(fn, visit, on=Scan)


def _dealt(op: Scan, env: Env) -> Iterable[Value] | None:
    first, last = len(op.init), len(op.init) + len(op.xs)
    before, behind = op.body.params[:last], op.body.params[last:]
    numbers = {p for p, x in zip(before[first:], op.xs, strict=True) if _counts(x, op.length)}
    whole: Env = dict(zip(behind, op.captured, strict=True))
    elements: dict[Value, Param] = {}
    instead: Env = {}
    for g in op.body.ops:
        if not (isinstance(g, Gather) and g.axis == 0 and _clipped(g.indices) in numbers):
            continue
        if g.x in whole and g.x.shape[0] == op.length:
            name = f"element{len(elements)}"
            instead[g] = elements.setdefault(g.x, Param(g.type, name, origin=g.origin))
    if not elements:
        return None
    body = widened(op.body, (), instead)
    body = replace(body, params=(*before, *elements.values(), *behind))
    xs = (*op.xs, *(whole[x] for x in elements))
    init, xs, captured = (tuple(mapped(values, env)) for values in (op.init, xs, op.captured))
    return Scan(init, xs, captured, body, op.length, op.reverse, op.unroll).results


def _clipped(index: Value) -> Value:
    """The number n of ``maximum(n, 0)``, which is n where n counts from 0; else the index."""
    match index:
        case Maximum(x=n, y=zero) if is_splat(zero, 0):
            return n
        case _:
            return index


def _counts(x: Value, length: Dim) -> bool:
    """Whether it is 0, 1, ... as far as there are trips."""
    return isinstance(x, Iota) and x.dtype is I64 and x.size == length
