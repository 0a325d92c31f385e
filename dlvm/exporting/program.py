"""A function as one list of operations that stands alone, for a format that writes it.

Derivatives have been taken, calls are written where they stand and captured arrays are constants.
Operations for which a format has no word are written in others until it has one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dlvm import passes
from dlvm.base.errors import IRError, Origin, UserError
from dlvm.compile import expand
from dlvm.dsl.call.function import StagedFunction, is_staged
from dlvm.ir import Array, Builder, Function, Op, Value, as_tuple, literal
from dlvm.ir.module import Module
from dlvm.ir.rewrite import Env, everywhere, mapped, renewed, transform
from dlvm.ops import Bitcast, Call, Constant, Elementwise
from dlvm.opt.laws.markers import forget, pass_stops
from dlvm.opt.laws.simplification import fold_constants, simplify
from dlvm.opt.regions import inlining
from dlvm.opt.regions.dropping import drop
from dlvm.opt.regions.inlining import inline_calls, keep_reachable, open_checkpoints, open_recompute
from dlvm.opt.regions.lowering import lower, open_solves
from dlvm.opt.regions.sharing import share

from .compositions import composed
from .formulas import written_out

PLAIN = (
    inline_calls,
    keep_reachable,
    lower,  # operations of the user's
    open_solves,
    open_checkpoints,
    open_recompute,
    pass_stops,
    forget,
    simplify,
    fold_constants,
    share,
    drop,
)
TIDY = (fold_constants, share, drop)
ROUNDS = 24
"""Times that operations are written in others; each may be written in some that a format lacks."""


@dataclass(frozen=True)
class Program:
    """One function without calls, with the names of its arguments and results."""

    function: Function
    arguments: tuple[str, ...]
    results: tuple[str, ...]
    name: str


def program_of(f: Any, args: Sequence[Any], named: dict[str, Any]) -> Program:
    """The function for such arguments; arrays that it captures become constants."""
    staged: StagedFunction[..., Any] = f if is_staged(f) else StagedFunction(f)
    applied = staged.applied(args, named, specs=True)
    captured = len(applied.program.trace.arrays)
    plain = passes.run(expand(applied.module), PLAIN)
    _check_calls(plain.main)
    free = len(applied.module.main.params) - captured
    fn = _with_constants(plain.main, free, applied.arrays[free:])
    return Program(fn, tuple(applied.labels[:free]), tuple(applied.results), staged.label)


def _check_calls(fn: Function) -> None:
    """Refuses calls that the budget of inlining has left, for which formats have no word."""
    if (call := next((op for op in fn.walk() if isinstance(op, Call)), None)) is not None:
        raise UserError(
            f"export: expected at most {inlining.LIMIT:,} operations once every call is "
            "replaced by its callee, found more (or a function that calls itself) at the call of "
            f"{call.callee.name}",
            origin=call.origin,
            remedy="repeat the function in a loop of dlvm, or export a part of it",
        )


def _with_constants(fn: Function, free: int, arrays: Sequence[Array]) -> Function:
    """The function whose parameters behind the free ones are constants."""
    with (builder := Builder()):
        env: Env = {
            p: Constant(literal(a, p.type.dtype))
            for p, a in zip(fn.params[free:], arrays, strict=True)
        }
        for op in fn.ops:
            new = op if env.keys().isdisjoint(op.operands) else op.rebuild(mapped(op.operands, env))
            if new is op:
                builder.append(op)
            else:
                env.update(zip(op.results, new.results, strict=True))
    return Function(fn.name, fn.params[:free], tuple(builder.ops), tuple(mapped(fn.results, env)))


@dataclass(frozen=True)
class Language:
    """What a format can say: which operations have a word, and its own ways to say others."""

    title: str
    has: Callable[[Op], bool]
    own: Mapping[type[Op], Callable[[Any], Value | tuple[Value, ...]]]


def in_words(fn: Function, language: Language) -> Function:
    """The function in operations that the format has; refuses what has no such form."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        with Builder():  # the operation itself is not part of the function
            op = renewed(op, env)
        return None if language.has(op) else _other_form(op, language)

    for _ in range(ROUNDS):
        before, fn = fn, everywhere(fn, lambda body: transform(body, visit))
        if fn is before:
            return passes.run(Module((fn,)), TIDY).main
    raise refused(next(op for op in fn.walk() if not language.has(op)), language.title)


def _other_form(op: Op, language: Language) -> tuple[Value, ...]:
    own = language.own.get(type(op))
    try:
        found = as_tuple(own(op)) if own is not None else composed(op)
        if found is None and isinstance(op, Elementwise) and not isinstance(op, Bitcast):
            found = written_out(op)
    except IRError as error:
        raise refused(op, language.title, error.message) from error
    if found is None or any(isinstance(v, Op) and v.key() == op.key() for v in found):
        raise refused(op, language.title)
    return found


def refused(op: Op, format: str, why: str = "") -> UserError:
    """The error for an operation that a format can't say."""
    reason = f": {why}" if why else ""
    origin: Origin | None = op.origin
    return UserError(
        f"{format} has no form for the operation {op.name}{reason}",
        origin=origin,
        remedy="export the part of the function before it, and the part behind it",
    )
