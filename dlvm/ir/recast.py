"""The same program in f64: what every float of it would be if it had more digits.

A program and its recast mean the same function of real numbers, so the recast is the nearly exact
answer that roundings are measured by, and what derivatives are held against differences in.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .core import Function, Op, Param, Value
from .module import Module
from .rewrite import mapped
from .types import F64, Array, DType, TensorType, dtype_of


def in_f64(module: Module) -> Module:
    """The module with f64 for every float; its arguments are not donated."""
    return module.map(_function)


def array_in_f64(array: Array) -> Array:
    """An array in f64 where its elements are floats, else itself."""
    dtype = dtype_of(array)
    return array.astype(np.float64) if dtype is not None and dtype.is_float else array


def _function(fn: Function) -> Function:
    params = tuple(Param(_field(p.type), p.name, origin=p.origin) for p in fn.params)
    env: dict[Value, Value] = dict(zip(fn.params, params, strict=True))
    ops: list[Op] = []
    for op in fn.ops:
        new = op.rebuild(mapped(op.operands, env), **_changes(op))
        env.update(zip(op.results, new.results, strict=True))
        ops.append(new)
    return Function(fn.name, params, tuple(ops), tuple(mapped(fn.results, env)))


def _changes(op: Op) -> dict[str, Any]:
    """The fields that speak of floats, changed; operands stand for themselves."""
    named = (s.name for s in op.layout if s.kind not in ("operand", "operands"))
    return {name: _field(getattr(op, name)) for name in named}


def _field(value: Any) -> Any:
    match value:
        case DType():
            return F64 if value.is_float else value
        case TensorType():
            return value.with_dtype(_field(value.dtype))
        case Function():
            return _function(value)
        case np.ndarray():
            return _literal(value)  # pyright: ignore[reportUnknownArgumentType]
        case tuple():
            items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
            return tuple(map(_field, items))
        case _:
            return value


def _literal(value: Array) -> Array:
    wide = array_in_f64(value)
    wide.setflags(write=False)
    return wide
