"""Comparing what modules answer, bit by bit or over the reals, and reading kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import assume

from dlvm.ir import Array, Function, Module
from dlvm.ops import Kernel


def bits(array: Array) -> Any:
    """What two equal answers have in common: dtype, shape and every bit but a NaN's."""
    if array.dtype == object:
        return "tape"
    wide = array.astype(np.float64) if array.dtype.kind not in "biu" else array
    text = np.where(np.isnan(wide), np.nan, wide) if wide.dtype.kind == "f" else wide
    return str(array.dtype), array.shape, text.tobytes()


def assert_same(before: Sequence[Array], after: Sequence[Array]) -> None:
    """Equal to the bit; pytest shows no values of an assertion that is in no test file."""
    assert [bits(a) for a in before] == [bits(a) for a in after], f"{before} are not {after}"


def assert_close(before: Sequence[Array], after: Sequence[Array]) -> None:
    """Equal up to rounding in f64; what is no number before may be anything after."""
    for a, b in zip(before, after, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if a.dtype == object:
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        finite = np.isfinite(x)
        np.testing.assert_allclose(y[finite], x[finite], rtol=1e-6, atol=1e-9)


def assume_finite(module: Module, arrays: Sequence[Array]) -> None:
    """Skip programs in which an infinity or NaN arises: there the laws of the reals end."""
    fn = module.main
    every = tuple(r for op in fn.ops for r in op.results if r.dtype.is_float)
    shown = module.replace(replace(fn, results=every))
    for array in shown.run(fn.name, *arrays):
        assume(bool(np.isfinite(array.astype(np.float64)).all()))


def kernels(fn: Function) -> list[Kernel]:
    """Every kernel of a function, in order, those of regions included."""
    return [op for op in fn.walk() if isinstance(op, Kernel)]


def families(fn: Function) -> list[str]:
    """The families of a function's own kernels, in order."""
    return [op.family for op in fn.ops if isinstance(op, Kernel)]
