"""Rewriting: rules that carry their own example, and the one loop that rebuilds a function.

A rule is a small function named after the law it applies; from an operation it gives a better
value or None. Its ``example`` builds something it must replace; the test framework draws
shapes, element types and edge values for the example's parameters, the author writes none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import UnionType
from typing import Any, TypeAlias, TypeVar, cast

from dlvm.base.errors import CompilerError

from .core import Builder, Function, Op, Param, Value
from .decisions import listens, may_replace
from .dims import Dim
from .numerics import EXACT, LawClass
from .types import TensorType, known

RuleOp = TypeVar("RuleOp", bound=Op)
Example: TypeAlias = (
    Callable[[Value], Value]
    | Callable[[Value, Value], Value]
    | Callable[[Value, Value, Value], Value]
    | Callable[[Value, Value, Value, Value], Value]
)


@dataclass(frozen=True)
class Rule:
    """One law. ``given`` are the types of the examples' parameters, such as ``f[M,K]``.

    There is an example for each way in which the law applies. In ``given``, ``f`` stands for
    any float, ``i`` for any integer, ``n`` for any number and ``b`` for bool; letters stand for
    sizes. ``law_class`` says how far the two sides may be apart; see ``dlvm.ir.numerics``.
    """

    name: str
    root: type[Op]
    apply: Callable[[Op], Value | None]
    examples: tuple[Example, ...]
    given: tuple[str, ...]
    law_class: LawClass
    law: str


RULES: dict[type[Op], list[Rule]] = defaultdict(list)


def rewrite(
    root: type[RuleOp],
    example: Example | tuple[Example, ...],
    given: tuple[str, ...] = ("n[M,N]",),
    law_class: LawClass = EXACT,
) -> Callable[[Callable[[RuleOp], Value | None]], Callable[[RuleOp], Value | None]]:
    """Register a law for operations of class ``root``; see ``Rule`` for the parameters."""

    def register(law: Callable[[RuleOp], Value | None]) -> Callable[[RuleOp], Value | None]:
        apply = cast(Callable[[Op], Value | None], law)
        doc = law.__doc__ or ""
        examples = (example,) if callable(example) else example
        RULES[root].append(Rule(law.__name__, root, apply, examples, given, law_class, doc))
        return law

    return register


def rules() -> Iterable[Rule]:
    """Every law that is registered, in order of registration."""
    return (rule for group in RULES.values() for rule in group)


Env = dict[Value, Value]
Kinds = type | UnionType
Visit = Callable[[Op, Env], "Iterable[Value] | None"]
Law = Callable[[Op], "Value | None"]


def mapped(values: Iterable[Value], env: Mapping[Value, Value]) -> list[Value]:
    """Values after substitution."""
    return [env.get(v, v) for v in values]


def renewed(op: Op, env: Mapping[Value, Value]) -> Op:
    """The operation on substituted operands; itself, kept in place, when none changed."""
    if env.keys().isdisjoint(op.operands):
        return op
    for v in op.operands:
        if env.get(v, v) is not v:
            return op.rebuild(mapped(op.operands, env))
    return op


def place(builder: Builder, op: Op, env: Env) -> Op:
    """Append an operation on substituted operands, and map its results; what was appended."""
    with builder:
        return _place_here(builder, op, env)


def _place_here(builder: Builder, op: Op, env: Env) -> Op:
    """The same for a builder that is active, which appends what is made by itself."""
    new = renewed(op, env)
    if new is op:
        builder.append(op)
    else:
        env.update(zip(op.results, new.results, strict=True))
    return new


def transform(fn: Function, visit: Visit, env: Env | None = None, on: Kinds = Op) -> Function:
    """Rebuild a function: ``visit`` gives the replacement of each result, or None to keep it.

    ``visit`` is shown the operations of the classes ``on``; it runs with a builder active, so
    what it constructs goes in front of what follows, and sees the substitution so far. A
    function in which nothing changes is returned as it is.
    """
    env = {} if env is None else env
    if not env and not has(fn, on):
        return fn
    asked = listens()
    with (builder := Builder()):
        for op in fn.ops:
            builder.origin = op.origin
            written = len(builder.ops)
            replacement = visit(op, env) if isinstance(op, on) else None
            if replacement is not None and asked:
                replacement = tuple(replacement)
                if not may_replace(visit, op, replacement):
                    del builder.ops[written:]
                    replacement = None
            if replacement is not None:
                env.update(zip(op.results, replacement, strict=True))
            elif env.keys().isdisjoint(op.operands):
                builder.ops.append(op)
            else:
                _place_here(builder, op, env)
    return rebuilt(fn, builder.ops, mapped(fn.results, env))


def has(fn: Function, kinds: Kinds) -> bool:
    """Whether an operation of one of some classes stands in a function, at any depth."""
    return any(issubclass(kind, kinds) for kind in fn.kinds)


def rebuilt(fn: Function, ops: Sequence[Op], results: Sequence[Value]) -> Function:
    """The function with another body; itself when the body is the one that it has."""
    if tuple(ops) == fn.ops and tuple(results) == fn.results:  # values are equal to themselves
        return fn
    return replace(fn, ops=tuple(ops), results=tuple(results))


def settle(fn: Function, laws: Callable[[Op], Iterable[Law]], patience: int = 64) -> Function:
    """Improve operations by the first law that applies until none does: one sweep, operands first.

    What a law builds is swept in its turn before anything that uses it, so every operation that
    stays has been refused on its final operands: the result is a fixed point. An operation that
    is still improved after ``patience`` steps is in a cycle of laws. What all that ``laws``, a
    function of the module, gives have refused once they refuse as long as the laws are the same,
    since operations never change: that is remembered with the operation, unless the sweep is
    overseen.
    """
    sweep = (laws, sum(map(len, RULES.values())))
    asked = listens()
    env: Env = {}
    kept: list[Op] = []
    pending: list[tuple[Op, int]] = []
    with (builder := Builder()):
        for first in fn.ops:
            if not asked and sweep in first.refused and env.keys().isdisjoint(first.operands):
                kept.append(first)
                continue
            pending.append((first, patience))
            while pending:
                op, left = pending.pop()
                builder.origin = op.origin
                new = op if env.keys().isdisjoint(op.operands) else _followed_by(op, env)
                better = _better(new, laws(new), builder)
                if better is None:
                    if not asked:
                        new.refused = (*new.refused, sweep)
                    kept.append(new)
                    if new is not op:
                        env.update(zip(op.results, new.results, strict=True))
                    continue
                _check_improvement(new, better, left)
                env[op] = better
                pending.extend((built, left - 1) for built in reversed(builder.ops))
    return rebuilt(fn, kept, [followed(r, env) for r in fn.results])


def _better(op: Op, laws: Iterable[Law], builder: Builder) -> Value | None:
    """What the first law makes of an operation, which is then all that the builder holds."""
    builder.ops = []
    for law in laws:
        better = law(op)
        if better is not None and may_replace(law, op, (better,)):
            return better
        builder.ops = []
    return None


def _followed_by(op: Op, env: Env) -> Op:
    return renewed(op, {v: followed(v, env) for v in op.operands})


def followed(value: Value, env: Mapping[Value, Value]) -> Value:
    """A value after substitution, and what it was substituted by after substitution."""
    while (found := env.get(value)) is not None:
        value = found
    return value


def _check_improvement(op: Op, better: Value, left: int) -> None:
    if better.type != op.type:
        raise CompilerError(f"a rule on {op.name} turned {op.type} into {better.type}")
    if left == 0:
        raise CompilerError(f"the rules go round in circles on {op!r}")


def inline(
    fn: Function, arguments: Iterable[Value], sizes: Mapping[str, Dim] | None = None
) -> tuple[Value, ...]:
    """Write the body of a function here, on these arguments; the results.

    ``sizes`` are what the symbols of the function are in the caller's.
    """
    env: Env = dict(zip(fn.params, arguments, strict=True))
    copy_ops(fn.ops, env, sizes or {})
    return tuple(mapped(fn.results, env))


def copy_ops(ops: Iterable[Op], env: Env, sizes: Mapping[str, Dim]) -> None:
    """Write operations anew here, on substituted operands and sizes, and map their results."""
    for op in ops:
        new = op.rebuild(mapped(op.operands, env), **_resized_fields(op, sizes))
        env.update(zip(op.results, new.results, strict=True))


def resized(fn: Function, sizes: Mapping[str, Dim]) -> Function:
    """A function with sizes in place of its symbols: in types, attributes and regions."""
    params = tuple(Param(known(p.type, sizes), p.name, p.donated, p.origin) for p in fn.params)
    env: Env = dict(zip(fn.params, params, strict=True))
    with (builder := Builder()):
        copy_ops(fn.ops, env, sizes)
    return Function(fn.name, params, tuple(builder.ops), tuple(mapped(fn.results, env)))


def _resized_fields(op: Op, sizes: Mapping[str, Dim]) -> dict[str, Any]:
    if not sizes:
        return {}
    fields: dict[str, Any] = {}
    for spec in op.layout:
        old = getattr(op, spec.name)
        if spec.kind == "region":
            fields[spec.name] = resized(old, sizes)
        elif spec.kind in ("attribute", "types") and (new := known(old, sizes)) is not old:
            fields[spec.name] = new
    return fields


def regrouped(op: Op, operands: Iterable[Value | None], **changes: Any) -> Op:
    """The operation on operands of which some, given as None, are left out of their groups."""
    rest = iter(operands)
    values: dict[str, Any] = {}
    for spec in op.layout:
        old = getattr(op, spec.name)
        if spec.kind == "operand":
            values[spec.name] = next(rest)
        elif spec.kind == "operands":
            group = [next(rest) for _ in old]
            values[spec.name] = tuple(v for v in group if v is not None)
        else:
            values[spec.name] = changes.get(spec.name, old)
    new = type(op)(**values)
    new.origin = op.origin
    return new


def prefixed(fn: Function, make: Callable[[], Env]) -> Function:
    """A function in front of whose body values are made that take the place of others."""
    with (builder := Builder()):
        env = make()
    for op in fn.ops:
        place(builder, op, env)
    return rebuilt(fn, builder.ops, mapped(fn.results, env))


def map_regions(op: Op, change: Callable[[Function], Function]) -> dict[str, Function]:
    """The regions that change, by name."""
    pairs = ((name, region, change(region)) for name, region in op.regions.items())
    return {name: new for name, old, new in pairs if new is not old}


def everywhere(fn: Function, change: Callable[[Function], Function]) -> Function:
    """Apply a change to a function and, before it, to the regions inside, at any depth."""

    if not any(kind.holds_regions for kind in fn.kinds):
        return change(fn)
    env: Env = {}
    with (builder := Builder()):
        for op in fn.ops:
            changed = map_regions(op, lambda region: everywhere(region, change))
            if not changed:
                _place_here(builder, op, env)
                continue
            new = op.rebuild(mapped(op.operands, env), **changed)
            env.update(zip(op.results, new.results, strict=True))
    return change(rebuilt(fn, builder.ops, mapped(fn.results, env)))


def types_of(values: Iterable[Value]) -> tuple[TensorType, ...]:
    """The types of several values."""
    return tuple(v.type for v in values)
