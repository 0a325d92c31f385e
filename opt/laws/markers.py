"""Marks that have been read: stops of derivatives, names for checkpoints, assumptions."""

from __future__ import annotations

from collections.abc import Iterable

from dlvm.ir import Function, Module, Op, Value
from dlvm.ir.rewrite import Env, everywhere, transform
from dlvm.ops import Assume, Named, StopGradient
from dlvm.passes import module_pass


@module_pass
def pass_stops(module: Module) -> Module:
    """Where no derivative is declared any more, ``stop_gradient x`` and ``named x`` are ``x``."""
    return module if module.declarations else module.map(lambda fn: everywhere(fn, _passed))


@module_pass
def forget(module: Module) -> Module:
    """``assume x`` is ``x`` once every law that reads properties has been tried."""
    return module.map(lambda fn: everywhere(fn, _forgotten))


def _forgotten(fn: Function) -> Function:
    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        return (env.get(op.x, op.x),) if isinstance(op, Assume) else None

    return transform(fn, visit, on=Assume)


def _passed(fn: Function) -> Function:
    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        return (env.get(op.x, op.x),) if isinstance(op, StopGradient | Named) else None

    return transform(fn, visit)
