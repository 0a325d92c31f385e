"""The same program with other element types, sizes or constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dlvm.ir import (
    BF16,
    F16,
    F32,
    F64,
    Array,
    Builder,
    DType,
    Function,
    Module,
    Op,
    Param,
    TensorType,
    dtype_of,
    literal,
)
from dlvm.ir.rewrite import Env, mapped

WIDE: Mapping[DType, DType] = {F16: F64, BF16: F64, F32: F64}
Change = Callable[[Any, str], Any]
"""A change of a field: takes its value and name, or a parameter's type and ``"type"``."""


def widened(module: Module) -> Module:
    """The program with all floats in f64."""
    return recast(module, WIDE)


def recast(module: Module, types: Mapping[DType, DType]) -> Module:
    """The program with some element types replaced."""
    if not any(_uses(fn, types) for fn in module.functions):
        return module
    return module.map(lambda fn: changed(fn, lambda field, name: _recast(field, types)))


def changed(fn: Function, change: Change) -> Function:
    """A function with every type, attribute and constant changed, nested regions included."""
    params = tuple(Param(change(p.type, "type"), p.name, p.donated, p.origin) for p in fn.params)
    env: Env = dict(zip(fn.params, params, strict=True))
    with (builder := Builder()):
        for op in fn.ops:
            fields = {s.name: _field(op, s.name, s.kind, change) for s in op.layout}
            fields = {n: v for n, v in fields.items() if v is not getattr(op, n)}
            new = op.rebuild(mapped(op.operands, env), **fields)
            env.update(zip(op.results, new.results, strict=True))
    return Function(fn.name, params, tuple(builder.ops), tuple(mapped(fn.results, env)))


def _field(op: Op, name: str, kind: str, change: Change) -> Any:
    old = getattr(op, name)
    match kind:
        case "region":
            return changed(old, change)
        case "attribute" | "types" | "array":
            return change(old, name)
        case _:
            return old


def _recast(field: Any, types: Mapping[DType, DType]) -> Any:
    match field:
        case DType():
            return types.get(field, field)
        case TensorType():
            to = types.get(field.dtype)
            return field if to is None else field.with_dtype(to)
        case tuple():
            items: tuple[Any, ...] = field  # pyright: ignore[reportUnknownVariableType]
            new = tuple(_recast(v, types) for v in items)
            return items if all(a is b for a, b in zip(new, items, strict=True)) else new
        case np.ndarray():
            array: Array = field  # pyright: ignore[reportUnknownVariableType]
            known = dtype_of(array)
            to = types.get(known) if known is not None else None
            return array if to is None else literal(array, to)
        case _:
            return field  # pyright: ignore[reportUnknownVariableType]


def _uses(fn: Function, types: Mapping[DType, DType]) -> bool:
    every = [p.type for p in fn.params] + [t for op in fn.walk() for t in op.result_types]
    return any(t.dtype in types for t in every)
