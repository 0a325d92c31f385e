"""Steps that simplify in place: smaller sizes, plainer element types, rounder numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from dlvm.ir import (
    BF16,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Array,
    DType,
    Expr,
    TensorType,
)
from dlvm.ir.rewrite import resized
from dlvm.ir.sizes.dims import evaluate, substitute
from dlvm.ops import Constant
from dlvm.trust.recast import changed, recast

from .case import Case, Steps, sizes_of

SIZES = ("shape", "shape_to", "sizes", "size", "length")
"""The attributes that contain sizes of axes."""
PLAIN: tuple[Mapping[DType, DType], ...] = (
    {F16: F64, BF16: F64, F32: F64},
    {F16: F32, BF16: F32},
    {I8: I64, I16: I64, I32: I64, U8: I64, U16: I64, U32: I64, U64: I64},
)
"""Replacements of element types by plainer ones."""


def concrete(case: Case) -> Steps:
    """Replaces symbols by their sizes."""
    sizes = sizes_of(case)
    if sizes:
        known = partial(resized, change=lambda d: substitute(d, sizes))
        yield lambda: Case(case.module.map(known), case.arrays)


def narrower(case: Case) -> Steps:
    """Replaces a size by a smaller one everywhere."""
    types = [p.type for p in case.main.params]
    types += [t for op in case.main.walk() for t in op.result_types]
    found = {d for t in types for d in t.shape if isinstance(d, int)}
    for old in sorted(found, reverse=True):
        for new in sorted({1, 2, old // 2, old - 1}):
            if 0 < new < old:
                yield lambda old=old, new=new: _narrowed(case, old, new)
    for name, size in sizes_of(case).items():
        for new in range(1, size):
            yield lambda name=name, new=new: _with_symbol(case, name, new)


def _narrowed(case: Case, old: int, new: int) -> Case:
    def size(d: Any) -> Any:
        return new if isinstance(d, int) and not isinstance(d, bool) and d == old else d

    def change(field: Any, name: str) -> Any:
        match field:
            case TensorType():
                return field.with_shape(tuple(map(size, field.shape)))
            case np.ndarray():
                array: Array = field  # pyright: ignore[reportUnknownVariableType]
                return _cut(array, tuple(map(size, array.shape)))
            case tuple() if name in SIZES or name == "types":
                items: tuple[Any, ...] = field  # pyright: ignore[reportUnknownVariableType]
                return tuple(change(v, name) for v in items)
            case _:
                return size(field) if name in SIZES else field

    shapes = [tuple(map(size, a.shape)) for a in case.arrays]
    arrays = [_cut(a, s) for a, s in zip(case.arrays, shapes, strict=True)]
    return Case(case.module.map(lambda fn: changed(fn, change)), tuple(arrays))


def _with_symbol(case: Case, name: str, size: int) -> Case:
    sizes = {**sizes_of(case), name: size}
    shapes = [
        tuple(evaluate(d, sizes) if isinstance(d, Expr) else d for d in p.type.shape)
        for p in case.main.params
    ]
    return Case(case.module, tuple(map(_cut, case.arrays, shapes)))


def _cut(array: Array, shape: Sequence[int]) -> Array:
    """The first elements along every axis."""
    return np.array(array[tuple(slice(n) for n in shape)])


def plainer(case: Case) -> Steps:
    """Replaces element types."""
    for types in PLAIN:
        module = recast(case.module, types)
        if module is not case.module:
            pairs = zip(case.arrays, module.main.params, strict=True)
            arrays = tuple(a.astype(p.dtype.numpy) for a, p in pairs)
            yield lambda module=module, arrays=arrays: Case(module, arrays)


def rounder(case: Case) -> Steps:
    """Replaces arguments by ones, by rounded numbers, or by 1, 2, 3 and so on."""
    for i, array in enumerate(case.arrays):
        for simple in (np.ones_like(array), np.round(array.astype(np.float64)), _counted(array)):
            new = np.asarray(simple).astype(array.dtype)
            arrays = (*case.arrays[:i], new, *case.arrays[i + 1 :])
            yield lambda arrays=arrays: Case(case.module, arrays)


def rounder_constants(case: Case) -> Steps:
    """Replaces constants by 1 or 0, in regions too; that also shortens loops."""
    for fn in case.module.functions:
        for op in fn.walk():
            if isinstance(op, Constant):
                for number in (1, 0):
                    yield lambda old=op.value, number=number: _with_constant(case, old, number)


def _with_constant(case: Case, old: Array, number: int) -> Case:
    new = np.full_like(old, number)
    new.setflags(write=False)

    def change(field: Any, name: str) -> Any:
        return new if field is old else field

    return Case(case.module.map(lambda fn: changed(fn, change)), case.arrays)


def _counted(array: Array) -> Array:
    return np.arange(1, array.size + 1).reshape(array.shape)
