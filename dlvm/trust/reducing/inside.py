"""Steps inside bodies: branches and calls are inlined, dead code and operations are removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dlvm.ir import Function, Op, Param, TensorType, Value, inline, splat
from dlvm.ir.dataflow import Runs
from dlvm.ir.rewrite import Env, everywhere, mapped, transform
from dlvm.ir.unify import unify
from dlvm.ops import Structured
from dlvm.opt.regions.dropping import drop

from .case import Case, Steps


def opened(case: Case) -> Steps:
    """Inlines a branch, call, checkpoint or kernel."""
    for op in case.main.walk():
        once = isinstance(op, Structured) and not op.dataflow.loops
        if once or op.called is not None:
            visit = _opening(case, op)
            yield lambda visit=visit: case.with_main(
                everywhere(case.main, lambda fn: transform(fn, visit))
            )


def _opening(case: Case, which: Op) -> Callable[[Op, Env], Sequence[Value] | None]:
    def visit(op: Op, env: Env) -> Sequence[Value] | None:
        if op is not which:
            return None
        operands = mapped(op.operands, env)
        if op.called is not None:
            callee = case.module.function(op.called.name)
            types = [p.type for p in callee.params]
            return inline(callee, operands, _unified(types, [v.type for v in operands]))
        assert isinstance(op, Structured)
        choice = op.dataflow.runs is Runs.CHOICE
        taken = not choice or bool((case.run.seen or {})[op][0])
        return inline(op.giving[0 if taken else 1], operands[op.seen])

    return visit


def _unified(types: Sequence[TensorType], given: Sequence[TensorType]) -> Mapping[str, Any]:
    return unify(types, given)


def dropped(case: Case) -> Steps:
    """Removes dead code, in regions too."""
    yield lambda: Case(drop.run(case.module), case.arrays)


def inner(case: Case) -> Steps:
    """Removes one operation anywhere; parameters and results of the function stay the same."""
    for fn in case.module.functions:
        for edit in _edits(fn):
            if fn is case.main:
                yield lambda edit=edit: case.with_main(edit())
            else:
                yield lambda edit=edit: Case(case.module.replace(edit()), case.arrays)


def _edits(fn: Function) -> Iterator[Callable[[], Function]]:
    """Functions of the same signature without one operation; the last operations first."""
    used = {v for op in fn.ops for v in op.operands} | set(fn.results)
    for op in reversed(fn.ops):
        for ways in (_same_type, _nothing) if used & set(op.results) else (_unused,):
            yield lambda op=op, ways=ways: _without(fn, op, ways)
        for name, region in op.regions.items():
            for edit in _edits(region):
                yield lambda op=op, name=name, edit=edit: _with_region(fn, op, name, edit())


def _same_type(fn: Function, op: Op, t: TensorType) -> Value:
    """An operand or parameter of the result's type, which replaces the result."""
    return next(v for v in (*op.operands, *fn.params) if v.type == t)


def _unused(fn: Function, op: Op, t: TensorType) -> Value:
    return Param(t)


def _nothing(fn: Function, op: Op, t: TensorType) -> Value:
    return splat(1 if t.dtype.is_float else 0, t)


def _without(fn: Function, gone: Op, way: Callable[[Function, Op, TensorType], Value]) -> Function:
    def instead(op: Op, env: Env) -> Sequence[Value] | None:
        return mapped([way(fn, op, r.type) for r in op.results], env) if op is gone else None

    return transform(fn, instead)


def _with_region(fn: Function, which: Op, name: str, region: Function) -> Function:
    def instead(op: Op, env: Env) -> Sequence[Value] | None:
        return (
            op.rebuild(mapped(op.operands, env), **{name: region}).results if op is which else None
        )

    return transform(fn, instead)
