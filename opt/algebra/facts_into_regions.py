"""What is known of matrices outside of a region becomes known inside, and what comes out of one.

A body sees parameters, of which nothing is known. What is known of the operands, and what every
trip of a loop keeps of what it carries, is written at the head of the body as assumptions, so that
laws there see it as everywhere else; ``forget`` takes them out again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm.ir import Function, Module, Op, Param, Value
from dlvm.ir.knowledge import properties_of
from dlvm.ir.properties import IMPLIED, NONE, Properties
from dlvm.ir.rewrite import Env, mapped, prefixed, transform
from dlvm.ops import Assume, Structured
from dlvm.passes import module_pass

MATRIX = frozenset(IMPLIED) - {"nonnegative"}
"""The properties that are carried: those of matrices."""


@module_pass
def inform(module: Module) -> Module:
    """Write what is known of the operands of loops and branches at the head of their bodies.

    Carried values start with what is known of the initial ones, and keep what every trip gives
    again: properties only drop, so a few rounds find the greatest fixed point. Outer regions come
    first. What comes out of a body is known behind it in the same way.
    """
    return module.map(_informed)


def _informed(fn: Function) -> Function:
    if not any(kind.holds_regions for kind in fn.kinds):
        return fn

    def visit(op: Op, env: Env) -> Sequence[Value] | None:
        if not isinstance(op, Structured) or op.one_nest:
            return None
        operands = mapped(op.operands, env)
        facts = _seen(op, operands)
        regions = {name: _informed(_headed(r, facts)) for name, r in op.regions.items()}
        behind = [*facts[: op.carries], *_given_back(op, facts)[op.carries :]]
        same = all(regions[n] is r for n, r in op.regions.items())
        if same and not any(behind):
            return None
        new = op.rebuild(operands, **regions)
        return [_assumed(r, of) for r, of in zip(new.results, behind, strict=True)]

    return transform(fn, visit, on=Structured)


def _seen(op: Structured, operands: Sequence[Value]) -> list[Properties]:
    """What is known of every parameter of the bodies."""
    facts = [_of_matrix(v) for v in operands[op.seen]]
    for i in range(op.carries, op.carries + op.slices):
        if operands[op.seen][i].type.rank < 3:
            facts[i] = NONE  # rows and columns of what is sliced are no rows and columns of a slice
    while op.carries:
        kept = [a & b for a, b in zip(facts, _given_back(op, facts), strict=False)]
        if kept[: op.carries] == facts[: op.carries]:
            break
        facts[: op.carries] = kept[: op.carries]
    return facts


def _given_back(op: Structured, facts: Sequence[Properties]) -> list[Properties]:
    """What is known of the results of every body, given what is known of its parameters."""
    found: list[list[Properties]] = []
    for body in op.giving:
        given: dict[Value, Properties] = dict(zip(body.params, facts, strict=True))
        found.append([_of_matrix(r, given) for r in body.results])
    return [_all(of) for of in zip(*found, strict=True)]


def _all(of: Sequence[Properties]) -> Properties:
    """What every one of them has."""
    first, *rest = of
    return first.intersection(*rest)


def _of_matrix(value: Value, given: dict[Value, Properties] | None = None) -> Properties:
    """What is known of a matrix as such."""
    return properties_of(value, given) & MATRIX if value.type.rank > 1 else NONE


def _headed(region: Function, facts: Sequence[Properties]) -> Function:
    """The region with what is known of its parameters written first."""
    used = {v for op in region.ops for v in op.operands}
    told = {p: of for p, of in zip(region.params, facts, strict=True) if of and p in used}
    if not told:
        return region
    new = prefixed(region, lambda: {p: _assumed(p, of) for p, of in told.items()})
    return replace(new, results=tuple(_plain(r) for r in new.results))


def _plain(value: Value) -> Value:
    """A parameter that a body gives as it is stays one, so that others see that it does."""
    inner = value
    while isinstance(inner, Assume):
        inner = inner.x
    return inner if isinstance(inner, Param) else value


def _assumed(value: Value, facts: Properties) -> Value:
    """The value with the properties from which all of these follow."""
    implied = {word for fact in facts for word in IMPLIED[fact]}
    for word in sorted(facts - implied):
        value = Assume(value, word)
    return value
