"""Writing bodies where they are used: of calls, of recomputations, of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import UnionType

from dlvm.ir import Function, Module, Op, Value, inline
from dlvm.ir.rewrite import Env, everywhere, mapped, transform
from dlvm.ir.unify import unify
from dlvm.ops import Call, Checkpoint, Kernel, Recompute, Structured
from dlvm.ops.flow.calls import called, calls_itself, entered
from dlvm.passes import function_pass, module_pass

LIMIT = 100_000
"""Operations that inlining may add to a module, over all of its functions."""


@module_pass
def inline_calls(module: Module) -> Module:
    """Write the body of each callee in place of its calls, under the caller's sizes.

    Callees come before callers, so each body is final when it is copied. Calls of functions
    that call themselves stay, directly or through others, and so do calls for which the budget of
    ``LIMIT`` has no room left (a chain of functions that call the next one twice doubles at each
    step). Derivatives have been taken: a call with one of its own is a call like any other.
    """
    done: dict[str, Function] = {}
    budget = Budget(LIMIT)
    ending: dict[str, Function] = {}
    for name in callees_first(module):
        if name in module and isinstance(fn := module.entry(name), Function):
            done[name] = _with_bodies(fn, ending, budget)
            if not calls_itself(name, module.entry, entered):
                ending[name] = done[name]
    return module.replace(*done.values())


class Budget:
    """The operations that may still be added, and how many each function has."""

    def __init__(self, left: int) -> None:
        self.left = left
        self._sizes: dict[Function, int] = {}

    def spend(self, fn: Function) -> bool:
        """Takes the operations of a function from what is left; False if there are not as many."""
        if fn not in self._sizes:
            self._sizes[fn] = sum(1 for _ in fn.walk())
        if self._sizes[fn] > self.left:
            return False
        self.left -= self._sizes[fn]
        return True


def _with_bodies(fn: Function, done: dict[str, Function], budget: Budget) -> Function:
    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Call)
        callee = done.get(op.callee.name)
        if callee is None or not budget.spend(callee):
            return Call(op.operands, op.callee, op.types).results if op.ruled is not None else None
        sizes = unify(callee.signature.params, tuple(v.type for v in op.operands))
        return inline(callee, mapped(op.operands, env), sizes)

    if not any(kind.enters for kind in fn.kinds):
        return fn
    return everywhere(fn, lambda body: transform(body, visit, on=Call))


def callees_first(module: Module) -> Iterator[str]:
    """The names of functions, callees before callers where there is no cycle."""
    seen: set[str] = set()
    for start in module.functions:
        pending = [(start.name, iter(entered(start)))]
        seen_before = start.name in seen
        seen.add(start.name)
        while pending and not seen_before:
            name, rest = pending[-1]
            callee = next((c for c in rest if c not in seen), None)
            if callee is None:
                pending.pop()
                yield name
                continue
            seen.add(callee)
            entry = module.entry(callee)
            pending.append((callee, iter(entered(entry) if isinstance(entry, Function) else ())))


@module_pass
def keep_reachable(module: Module) -> Module:
    """Drop the functions that the first one does not call, directly or through others."""
    reached: dict[str, None] = {}
    pending = [module.main.name]
    while pending:
        name = pending.pop()
        if name in reached:
            continue
        reached[name] = None
        entry = module.entry(name)
        pending.extend(called(entry) if isinstance(entry, Function) else (entry.of,))
    return Module(tuple(e for e in module.entries if e.name in reached))


@function_pass
def open_checkpoints(fn: Function) -> Function:
    """Write checkpoints where they stand, once derivatives have been taken.

    Nothing may be shared after it, or a first computation would be merged with another.
    """
    return opened(fn, Checkpoint)


@function_pass
def open_recompute(fn: Function) -> Function:
    """Write recomputations and checkpoints where they stand; nothing may be shared after it.

    After fusion, so that no recomputation has joined a kernel that runs before its triggers.
    """
    return opened(fn, Recompute | Checkpoint)


@function_pass
def inline_kernels(fn: Function) -> Function:
    """Write the body of each kernel where it stands: what kernels mean."""
    return opened(fn, Kernel)


def opened(fn: Function, kinds: type[Structured] | UnionType) -> Function:
    """The function with the bodies of operations that run once where they stand."""

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Structured)
        return inline(op.giving[0], mapped(op.operands[op.seen], env))

    return transform(fn, visit, on=kinds)
