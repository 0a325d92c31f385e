"""Regions with more parameters, for passes that take values into bodies."""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.ir import Builder, Function, Param
from dlvm.ir.rewrite import Env, mapped, place


def widened(fn: Function, params: Sequence[Param], env: Env) -> Function:
    """A region with more parameters, in which ``env`` says what now stands for what."""
    builder = Builder()
    for op in fn.ops:
        place(builder, op, env)
    results = tuple(mapped(fn.results, env))
    return Function(fn.name, (*fn.params, *params), tuple(builder.ops), results)
