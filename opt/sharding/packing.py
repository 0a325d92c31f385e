"""Exchanges that wait for one another: those of one kind that do not depend on each other are one.

An exchange is put off until somebody needs what it gives; then all that were put off with it, and
are alike, go together. So the gradients of a model are summed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dlvm.ir import Builder, Function, Value
from dlvm.ir.rewrite import Env, mapped, renewed
from dlvm.ops.flow.collectives import Collective

EACH = ("dims", "full", "gathered", "cut")
"""Attributes with an entry for each of the operands."""


@dataclass
class _Waiting:
    """Exchanges of one kind that are put off, and the values that they give."""

    ops: list[Collective] = field(default_factory=list[Collective])
    values: set[Value] = field(default_factory=set[Value])


def packed(fn: Function) -> Function:
    """The function with exchanges put together, in its regions as well."""
    env: Env = {}
    waiting: dict[tuple[Any, ...], _Waiting] = {}
    with (builder := Builder()):

        def flush(keys: Sequence[tuple[Any, ...]]) -> None:
            for key in keys:
                _together(waiting.pop(key).ops, env)

        for op in fn.ops:
            needed = [k for k, w in waiting.items() if not w.values.isdisjoint(op.operands)]
            flush(needed)
            if isinstance(op, Collective):
                group = waiting.setdefault(_key(op), _Waiting())
                group.ops.append(op)
                group.values.update(op.results)
                continue
            new = renewed(op, env)
            if op.holds_regions:
                inside = {name: packed(region) for name, region in op.regions.items()}
                new = op.rebuild(mapped(op.operands, env), **inside)
            elif new is op:
                builder.append(op)
            env.update(zip(op.results, new.results, strict=True))
        flush(list(waiting))
    return Function(fn.name, fn.params, tuple(builder.ops), tuple(mapped(fn.results, env)))


def _key(op: Collective) -> tuple[Any, ...]:
    same = tuple((k, v) for k, v in op.attributes.items() if k not in EACH)
    return (type(op), same, op.xs[0].dtype)


def _together(ops: Sequence[Collective], env: Env) -> None:
    """Write one exchange for several."""
    first = ops[0]
    each = {k: sum((op.attributes[k] for op in ops), ()) for k in EACH if k in first.attributes}
    xs = tuple(mapped((x for op in ops for x in op.xs), env))
    fields = {**first.attributes, **each, "xs": xs}
    make: Any = type(first)
    new: Collective = make(**fields)
    new.origin, new.asked = first.origin, first.asked
    found = iter(new.results)
    for op in ops:
        env.update((r, next(found)) for r in op.results)
