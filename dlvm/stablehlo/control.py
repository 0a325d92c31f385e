"""Loops and branches in StableHLO. Bodies use values of the function around them as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dlvm import ops
from dlvm.exporting.inlining import Inline, TypedName
from dlvm.ir import Op

from .arrays import placed, taken
from .elements import compared
from .text import SCALAR, Text


def cond(t: Text, op: ops.Cond, xs: Sequence[TypedName], inline: Inline) -> tuple[TypedName, ...]:
    """One of two bodies."""
    condition, *captured = xs
    bodies = [t.region((), lambda _, b=body: inline(b, captured)) for body in op.giving]
    return t.op("if", (condition,), op.result_types, regions=bodies)


def while_(
    t: Text, op: ops.While, xs: Sequence[TypedName], inline: Inline
) -> tuple[TypedName, ...]:
    """A body again while a condition holds."""
    carried, captured = xs[: op.carries], xs[op.carries :]
    types = [x.type for x in carried]
    test = t.region(types, lambda params: inline(op.condition, (*params, *captured)))
    body = t.region(types, lambda params: inline(op.body, (*params, *captured)))
    return t.op("while", carried, types, regions=(test, body))


def scan(t: Text, op: ops.Scan, xs: Sequence[TypedName], inline: Inline) -> tuple[TypedName, ...]:
    """A loop with a counter, which takes rows and puts rows into stacked results."""
    n, m = op.carries, op.carries + op.slices
    carried, sliced, captured = xs[:n], xs[n:m], xs[m:]
    stacked = [t.filled(0, s) for s in op.result_types[n:]]
    state = (t.size(0), *carried, *stacked)
    types = [x.type for x in state]

    def goes_on(params: tuple[TypedName, ...]) -> Sequence[TypedName]:
        return (compared(t, "LT", params[0], t.size(op.length)),)

    def step(params: tuple[TypedName, ...]) -> Sequence[TypedName]:
        count, before, whole = params[0], params[1 : n + 1], params[n + 1 :]
        i = _from_the_end(t, count, op) if op.reverse else count
        rows = [taken(t, x, i) for x in sliced]
        out = inline(op.body, (*before, *rows, *captured))
        more = t.one("add", (count, t.size(1)), SCALAR)
        pairs = zip(whole, out[n:], strict=True)
        return (more, *out[:n], *(placed(t, w, row, i) for w, row in pairs))

    loop = t.op("while", state, types, regions=(t.region(types, goes_on), t.region(types, step)))
    return loop[1:]


def _from_the_end(t: Text, count: TypedName, op: ops.Scan) -> TypedName:
    last = t.size(op.length - 1)
    return t.one("subtract", (last, count), SCALAR)


FORMS: dict[type[Op], Callable[[Text, Any, Sequence[TypedName], Inline], tuple[TypedName, ...]]] = {
    ops.Cond: cond,
    ops.While: while_,
    ops.Scan: scan,
}
