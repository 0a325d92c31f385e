"""Rewriting: rewrite rules with their own examples, and the loops that rebuild a function.

A rule is a small function named after the law that it applies; given an operation it returns a
better value or None. The rule's ``example`` builds an operation that the rule must replace. The
test framework draws shapes, element types and values for the parameters of the example.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import UnionType
from typing import Any, TypeAlias, TypeVar, cast

from dlvm.base.errors import CompilerError, ExtensionError
from dlvm.base.outside import definition, failed, is_outside, returned

from .core import Builder, Function, Op, Param, Value
from .decisions import listens, may_replace
from .numerics import EXACT, ROUNDING, LawClass
from .sizes.dims import Dim, Expr, substitute
from .types import TensorType, with_sizes

RuleOp = TypeVar("RuleOp", bound=Op)
Example: TypeAlias = (
    Callable[[Value], Value]
    | Callable[[Value, Value], Value]
    | Callable[[Value, Value, Value], Value]
    | Callable[[Value, Value, Value, Value], Value]
    | Callable[[Value, Value, Value, Value, Value], Value]
)


@dataclass(frozen=True)
class Rule:
    """One law about operations of the classes ``roots``.

    ``given`` are the types of the examples' parameters, such as ``f[M,K]``. There is an example
    for each way in which the law applies. In ``given``, ``f`` stands for any float, ``i`` for any
    integer, ``n`` for any number and ``b`` for bool; letters stand for sizes. ``law_class`` says
    how far the two sides may be apart; see ``dlvm.ir.numerics``. A law that is ``weighed`` applies
    only where its result is cheaper, what is shared counted once; the pass ``rearrange`` applies
    such laws. A law of the class rounding that ``keeps`` special values gives the same NaN,
    infinities and signs of zeros as its left side; any other supposes finite operands, and
    ``simplify_finite`` applies it, or ``rearrange``.
    """

    name: str
    roots: tuple[type[Op], ...]
    apply: Callable[[Op], Value | None]
    examples: tuple[Example, ...]
    given: tuple[str, ...]
    law_class: LawClass
    law: str
    weighed: bool = False
    keeps: bool = True

    @property
    def on(self) -> str:
        """The names of the operations that it is about."""
        return "/".join(root.name for root in self.roots)


RULES: dict[type[Op], list[Rule]] = defaultdict(list)


def rewrite(
    *roots: type[RuleOp],
    example: Example | tuple[Example, ...],
    given: tuple[str, ...] = ("n[M,N]",),
    law_class: LawClass = EXACT,
    weighed: bool = False,
    keeps: bool = True,
) -> Callable[[Callable[[RuleOp], Value | None]], Callable[[RuleOp], Value | None]]:
    """Register a law for operations of these classes; see ``Rule`` for the parameters."""

    def register(law: Callable[[RuleOp], Value | None]) -> Callable[[RuleOp], Value | None]:
        apply = cast(Callable[[Op], Value | None], law)
        doc = law.__doc__ or ""
        examples = (example,) if callable(example) else example
        rule = Rule(law.__name__, roots, apply, examples, given, law_class, doc, weighed, keeps)
        for root in roots:
            RULES[root].append(rule)
        return law

    return register


def rearrangement(
    *roots: type[RuleOp],
    example: Example | tuple[Example, ...],
    given: tuple[str, ...],
    law_class: LawClass = ROUNDING,
) -> Callable[[Callable[[RuleOp], Value | None]], Callable[[RuleOp], Value | None]]:
    """Register a law that ``rearrange`` applies where it is cheaper, supposing finite operands."""
    return rewrite(
        *roots, example=example, given=given, law_class=law_class, weighed=True, keeps=False
    )


def rules() -> Iterable[Rule]:
    """Every registered rule once, in order of registration."""
    return dict.fromkeys(rule for group in RULES.values() for rule in group)


Env = dict[Value, Value]
Kinds = type | UnionType
Visit = Callable[[Op, Env], "Iterable[Value] | None"]
Law = Callable[[Op], "Value | None"]


def mapped(values: Iterable[Value], env: Mapping[Value, Value]) -> list[Value]:
    """The values after substitution."""
    return [env.get(v, v) for v in values]


def renewed(op: Op, env: Mapping[Value, Value]) -> Op:
    """The operation on substituted operands; the same object if no operand changed."""
    if env.keys().isdisjoint(op.operands):
        return op
    for v in op.operands:
        if env.get(v, v) is not v:
            return op.rebuild(mapped(op.operands, env))
    return op


def place(builder: Builder, op: Op, env: Env) -> Op:
    """Appends an operation on substituted operands and maps its results; returns it."""
    with builder:
        return _place_here(builder, op, env)


def _place_here(builder: Builder, op: Op, env: Env) -> Op:
    """The same as ``place`` for the active builder, which records constructions itself."""
    new = renewed(op, env)
    if new is op:
        builder.append(op)
    else:
        env.update(zip(op.results, new.results, strict=True))
    return new


def transform(fn: Function, visit: Visit, env: Env | None = None, on: Kinds = Op) -> Function:
    """Rebuilds a function; ``visit`` returns the replacement of each result, or None to keep it.

    ``visit`` is called for the operations of the classes ``on``, with the substitution so far and
    an active builder: the operations that it constructs precede the rest of the function. A
    function in which nothing changes is returned as the same object.
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
    """Whether a function contains an operation of these classes, nested regions included."""
    return any(issubclass(kind, kinds) for kind in fn.kinds)


def rebuilt(fn: Function, ops: Sequence[Op], results: Sequence[Value]) -> Function:
    """The function with another body; the same object if the body is the same."""
    if tuple(ops) == fn.ops and tuple(results) == fn.results:  # values compare by identity
        return fn
    return replace(fn, ops=tuple(ops), results=tuple(results))


LAST_LAWS = 8
"""Steps before a cycle of laws is told whose laws the error names."""


def settle(fn: Function, laws: Callable[[Op], Iterable[Law]], patience: int = 64) -> Function:
    """Rewrites a function to a fixed point: each operation by the first law that applies.

    One sweep does it. Operations that a law builds are rewritten in turn before their users, so
    every law has refused every remaining operation on its final operands. An operation that still
    changes after ``patience`` steps reveals a cycle of laws, which is an error. Operations are
    immutable, so one that all laws have refused is marked, and later sweeps with the same laws skip
    it; sweeps whose decisions are overseen do not use the marks. ``laws`` must be a module-level
    function.
    """
    sweep = (laws, sum(map(len, RULES.values())))
    asked = listens()
    env: Env = {}
    kept: list[Op] = []
    pending: list[tuple[Op, int]] = []
    last: list[Law] = []
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
                found = _better(new, laws(new), builder)
                if found is None:
                    if not asked:
                        new.refused = (*new.refused, sweep)
                    kept.append(new)
                    if new is not op:
                        env.update(zip(op.results, new.results, strict=True))
                    continue
                better, law = found
                if left < LAST_LAWS:
                    last.append(law)
                if left == 0:
                    raise _endless(new, last)
                env[op] = better
                pending.extend((built, left - 1) for built in reversed(builder.ops))
    return rebuilt(fn, kept, [followed(r, env) for r in fn.results])


def _better(op: Op, laws: Iterable[Law], builder: Builder) -> tuple[Value, Law] | None:
    """The replacement by the first law that applies; the builder holds just what that law built."""
    builder.ops = []
    for law in laws:
        better = applied(law, op)
        if better is not None and may_replace(law, op, (better,)):
            return better, law
        builder.ops = []
    return None


def applied(law: Law, op: Op) -> Value | None:
    """What a law makes of an operation; errors of laws from outside are told at their lines."""
    try:
        better = law(op)
    except Exception as error:
        if not is_outside(law):
            raise
        raise failed(f"law {law.__name__}", law, error, repr(op)) from error
    return None if better is None else _kept_type(law, op, better)


def _kept_type(law: Law, op: Op, better: Value) -> Value:
    if isinstance(better, Value) and better.type == op.type:  # pyright: ignore[reportUnnecessaryIsInstance]
        return better
    if not is_outside(law):
        said = f"expected the rule {law.__name__} to keep the type {op.type}"
        raise CompilerError(f"{said} of {op!r}, found {better!r}")
    expected = f"a value of the type {op.type} in place of {op!r}, or None"
    remedy = f"return a value of the type {op.type}, or None where the law doesn't apply"
    raise returned(f"law {law.__name__}", law, better, expected, remedy)


def _endless(op: Op, last: Sequence[Law]) -> Exception:
    """The error for laws that rewrite one another's results for ever."""
    names = ", ".join(dict.fromkeys(law.__name__ for law in last))
    said = f"the rewrite rules {names} form a cycle on {op!r}"
    guilty = next(filter(is_outside, last), None)
    if guilty is None:
        return CompilerError(said)
    remedy = f"let {guilty.__name__} return None for what another of these laws gives"
    return ExtensionError(said, origin=definition(guilty), remedy=remedy)


def _followed_by(op: Op, env: Env) -> Op:
    return renewed(op, {v: followed(v, env) for v in op.operands})


def followed(value: Value, env: Mapping[Value, Value]) -> Value:
    """The value after repeated substitution, until nothing is substituted for it."""
    while (found := env.get(value)) is not None:
        value = found
    return value


def inline(
    fn: Function, arguments: Iterable[Value], sizes: Mapping[str, Dim] | None = None
) -> tuple[Value, ...]:
    """Writes the body of a function here, on these arguments; returns its results.

    ``sizes`` map the symbols of the function to sizes in the caller's symbols.
    """
    env: Env = dict(zip(fn.params, arguments, strict=True))
    copy_ops(fn.ops, env, partial(substitute, values=sizes) if sizes else None)
    return tuple(mapped(fn.results, env))


def copy_ops(ops: Iterable[Op], env: Env, change: Callable[[Dim], Dim] | None = None) -> None:
    """Writes copies of operations here, on substituted operands and sizes; maps their results."""
    for op in ops:
        fields = {} if change is None else _resized_fields(op, change)
        new = op.rebuild(mapped(op.operands, env), **fields)
        env.update(zip(op.results, new.results, strict=True))


def resized(fn: Function, change: Callable[[Dim], Dim]) -> Function:
    """The function with other sizes in its types, attributes and regions."""
    params = tuple(
        Param(with_sizes(p.type, change), p.name, p.donated, p.origin) for p in fn.params
    )
    env: Env = dict(zip(fn.params, params, strict=True))
    with (builder := Builder()):
        copy_ops(fn.ops, env, change)
    return Function(fn.name, params, tuple(builder.ops), tuple(mapped(fn.results, env)))


def _resized_fields(op: Op, change: Callable[[Dim], Dim]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for spec in op.layout:
        old = getattr(op, spec.name)
        if spec.kind == "region":
            fields[spec.name] = resized(old, change)
        elif spec.kind in ("attribute", "types") and (new := with_sizes(old, change)) is not old:
            fields[spec.name] = new
    return fields


def sizes_in(fn: Function) -> set[Dim]:
    """The sizes in the types, attributes and regions of a function that are no numbers."""
    found = set[Dim]()

    def noted(d: Dim) -> Dim:
        if isinstance(d, Expr):
            found.add(d)
        return d

    for p in fn.params:
        with_sizes(p.type, noted)
    for op in fn.walk():
        with_sizes(op.result_types, noted)
        for spec in op.layout:
            if spec.kind in ("attribute", "types"):
                with_sizes(getattr(op, spec.name), noted)
    return found


def prefixed(fn: Function, make: Callable[[], Env]) -> Function:
    """The function with new values computed first; ``make`` maps old values to them."""
    with (builder := Builder()):
        env = make()
    for op in fn.ops:
        place(builder, op, env)
    return rebuilt(fn, builder.ops, mapped(fn.results, env))


def map_regions(op: Op, change: Callable[[Function], Function]) -> dict[str, Function]:
    """The regions that ``change`` alters, by name."""
    pairs = ((name, region, change(region)) for name, region in op.regions.items())
    return {name: new for name, old, new in pairs if new is not old}


def everywhere(fn: Function, change: Callable[[Function], Function]) -> Function:
    """Applies a change to the regions inside a function, innermost first, then to the function."""

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
    """The types of the values."""
    return tuple(v.type for v in values)
