"""Steps that remove entries, results, operations or parameters of the first function."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from dlvm.ir import Array, Builder, Function, Module, Op, Param, Part
from dlvm.ir.rewrite import Env, mapped, place

from .case import Case, Steps, sizes_of


def without_entries(case: Case) -> Steps:
    """Removes one function or declaration."""
    for entry in case.module.entries[1:]:
        rest = tuple(e for e in case.module.entries if e is not entry)
        yield lambda rest=rest: Case(Module(rest), case.arrays)


def with_results(case: Case, kept: Sequence[int]) -> Case:
    """Keeps only some of the results."""
    results = tuple(case.main.results[i] for i in kept)
    return case.with_main(replace(case.main, results=results))


def earlier(case: Case) -> Steps:
    """Replaces a result by an operand of the operation that computed it."""
    for i, result in enumerate(case.main.results):
        op = result.op if isinstance(result, Part) else result
        for operand in op.operands if isinstance(op, Op) else ():
            results = (*case.main.results[:i], operand, *case.main.results[i + 1 :])
            yield lambda results=results: dead(case.with_main(replace(case.main, results=results)))


def dead(case: Case) -> Case:
    """Removes the dead operations of the first function."""
    needed = set(case.main.results)
    kept: list[Op] = []
    for op in reversed(case.main.ops):
        if op.is_effect or needed & set(op.results):
            kept.append(op)
            needed.update(op.operands)
    return case.with_main(replace(case.main, ops=tuple(reversed(kept))))


def without_params(case: Case) -> Steps:
    """Removes one unused parameter."""
    used = {v for op in case.main.ops for v in op.operands} | set(case.main.results)
    for param in case.main.params:
        if param not in used:
            params = tuple(p for p in case.main.params if p is not param)
            yield lambda params=params: case.with_main(replace(case.main, params=params))


def with_ops(case: Case, kept: Collection[Op]) -> Case:
    """Keeps only some of the operations; the results of the others become parameters."""
    sizes = sizes_of(case)
    needed = {v for op in case.main.ops if op in kept for v in op.operands}
    needed |= set(case.main.results)
    env: Env = {}
    more: dict[Param, Array] = {}
    for op in case.main.ops:
        for value in () if op in kept else op.results:
            if value in needed:
                param = Param(value.type.substitute(sizes), f"v{len(more)}")
                env[value], more[param] = param, case.run.made[value]
    builder = Builder()
    for op in case.main.ops:
        if op in kept:
            place(builder, op, env)
    fn = case.main
    return case.with_main(
        Function(fn.name, (*fn.params, *more), tuple(builder.ops), tuple(mapped(fn.results, env))),
        more,
    )
