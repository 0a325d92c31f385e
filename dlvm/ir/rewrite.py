"""Rewriting: rules that carry their own example, and the one loop that rebuilds a function.

A rule is a small function named after the law it applies; from an operation it gives a better
value or None. Its ``example`` builds something it must replace; the test framework draws
shapes, element types and edge values for the example's parameters, the author writes none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

from .core import Builder, Function, Op, Value
from .types import TensorType

RuleOp = TypeVar("RuleOp", bound=Op)
Example: TypeAlias = (
    Callable[[Value], Value]
    | Callable[[Value, Value], Value]
    | Callable[[Value, Value, Value], Value]
    | Callable[[Value, Value, Value, Value], Value]
)


@dataclass(frozen=True)
class Rule:
    """One law. ``given`` are the types of the example's parameters, such as ``f[M,K]``.

    In ``given``, ``f`` stands for any float, ``i`` for any integer, ``n`` for any number and
    ``b`` for bool; letters stand for sizes. ``exact`` laws keep every bit; the others hold over
    the reals and are licensed by the default numerics policy but not by ``strict``.
    """

    name: str
    root: type[Op]
    apply: Callable[[Op], Value | None]
    example: Example
    given: tuple[str, ...]
    exact: bool
    law: str


RULES: dict[type[Op], list[Rule]] = defaultdict(list)


def rewrite(
    root: type[RuleOp],
    example: Example,
    given: tuple[str, ...] = ("n[M,N]",),
    exact: bool = True,
) -> Callable[[Callable[[RuleOp], Value | None]], Callable[[RuleOp], Value | None]]:
    """Register a law for operations of class ``root``; see ``Rule`` for the parameters."""

    def register(law: Callable[[RuleOp], Value | None]) -> Callable[[RuleOp], Value | None]:
        apply = cast(Callable[[Op], Value | None], law)
        doc = law.__doc__ or ""
        RULES[root].append(Rule(law.__name__, root, apply, example, given, exact, doc))
        return law

    return register


def rules() -> Iterable[Rule]:
    """Every law that is registered, in order of registration."""
    return (rule for group in RULES.values() for rule in group)


Env = dict[Value, Value]
Visit = Callable[[Op, Env], "Iterable[Value] | None"]


def mapped(values: Iterable[Value], env: Mapping[Value, Value]) -> list[Value]:
    """Values after substitution."""
    return [env.get(v, v) for v in values]


def renewed(op: Op, env: Mapping[Value, Value]) -> Op:
    """The operation on substituted operands; itself, kept in place, when none changed."""
    operands = mapped(op.operands, env)
    if all(a is b for a, b in zip(operands, op.operands, strict=True)):
        return op
    return op.rebuild(operands)


def place(builder: Builder, op: Op, env: Env) -> None:
    """Append an operation on substituted operands, and map its results."""
    with builder:
        new = renewed(op, env)
    if new is op:
        builder.append(op)
    else:
        env.update(zip(op.results, new.results, strict=True))


def transform(fn: Function, visit: Visit, env: Env | None = None) -> Function:
    """Rebuild a function: ``visit`` gives the replacement of each result, or None to keep it.

    ``visit`` runs with a builder active, so what it constructs goes in front of what follows;
    it sees the substitution so far. A function in which nothing changes is returned as it is.
    """
    env = {} if env is None else env
    builder = Builder()
    for op in fn.ops:
        builder.origin = op.origin
        with builder:
            replacement = visit(op, env)
        if replacement is None:
            place(builder, op, env)
        else:
            env.update(zip(op.results, replacement, strict=True))
    results = tuple(mapped(fn.results, env))
    ops = tuple(builder.ops)
    same = len(ops) == len(fn.ops) and all(a is b for a, b in zip(ops, fn.ops, strict=True))
    if same and all(a is b for a, b in zip(results, fn.results, strict=True)):
        return fn
    return replace(fn, ops=ops, results=results)


def inline(fn: Function, arguments: Iterable[Value]) -> tuple[Value, ...]:
    """Write the body of a function here, on these arguments; the results."""
    env: Env = dict(zip(fn.params, arguments, strict=True))
    for op in fn.ops:
        operands = mapped(op.operands, env)
        new = op.rebuild(operands)
        env.update(zip(op.results, new.results, strict=True))
    return tuple(mapped(fn.results, env))


def map_regions(op: Op, change: Callable[[Function], Function]) -> dict[str, Function]:
    """The regions that change, by name."""
    pairs = ((name, region, change(region)) for name, region in op.regions.items())
    return {name: new for name, old, new in pairs if new is not old}


def everywhere(fn: Function, change: Callable[[Function], Function]) -> Function:
    """Apply a change to a function and, before it, to the regions inside, at any depth."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if not op.regions:
            return None
        changed = map_regions(op, lambda region: everywhere(region, change))
        return op.rebuild(mapped(op.operands, env), **changed).results if changed else None

    return change(transform(fn, visit))


def types_of(values: Iterable[Value]) -> tuple[TensorType, ...]:
    """The types of several values."""
    return tuple(v.type for v in values)
