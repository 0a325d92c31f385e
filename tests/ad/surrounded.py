"""The same programs with every control operation in a callee of its own, at any depth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from dlvm.ir import BOOL, Builder, Function, FunctionRef, Module, Param, TensorType, Value, zeros
from dlvm.ir.rewrite import Env, everywhere, mapped, transform
from dlvm.ir.sizes.dims import symbol, symbols
from dlvm.ops import Call, Control, Kernel, Pop, Push
from dlvm.testing.drawing.random_programs import Program
from dlvm.testing.strategies import programs


def surrounded(module: Module) -> Module:
    """Each control operation becomes a call; an array without elements tells the sizes."""
    callees: list[Function] = []
    entries = [_of_function(e, callees) if isinstance(e, Function) else e for e in module.entries]
    return Module((*entries, *callees)).verify()


def _of_function(fn: Function, callees: list[Function]) -> Function:
    known = sorted({s for p in fn.params for d in p.type.shape for s in symbols(d)})
    witness = TensorType(BOOL, (0, *map(symbol, known)))

    def visit(op: Any, env: Env) -> Iterable[Value] | None:
        if not isinstance(op, Control) or isinstance(op, Kernel | Push | Pop):
            return None
        params = tuple(Param(v.type, f"x{i}") for i, v in enumerate(op.operands))
        with Builder() as builder:
            results = op.rebuild(params).results
        name = f"around{len(callees)}"
        sizes = Param(witness, "sizes")
        callees.append(Function(name, (*params, sizes), tuple(builder.ops), results))
        given = (*mapped(op.operands, env), zeros(witness))
        return Call(given, FunctionRef(name), op.result_types).results

    return everywhere(fn, lambda body: transform(body, visit))


@st.composite
def called(draw: Any, *args: Any, **kwargs: Any) -> Program:
    """A random program, every other time with its control operations in callees."""
    program = draw(programs(*args, **kwargs))
    if not draw(st.booleans()):
        return program
    return replace(program, module=surrounded(program.module))
