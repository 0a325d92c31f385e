"""Run one operation in the interpreter, through text and back, so that nothing is assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.ir import Builder, Function, Module, Param, TensorType, Value, dtype_of, parse


def run_op(build: Callable[..., Any], *arrays: Any) -> Any:
    """What an operation (or several) gives on these arrays; bare where there is one result."""
    given = [np.asarray(a) for a in arrays]
    params: list[Param] = []
    for i, array in enumerate(given):
        dtype = dtype_of(array)
        assert dtype is not None
        params.append(Param(TensorType(dtype, array.shape), f"x{i}"))
    with Builder() as b:
        out = build(*params)
    results = (out,) if isinstance(out, Value) else tuple(out)
    module = parse(str(Module((Function("f", tuple(params), tuple(b.ops), results),)).verify()))
    found = module.run("f", *given)
    return found[0] if isinstance(out, Value) else found


def same_bits(found: Any, expected: Any) -> None:
    """Equal to the last bit, but that one NaN is as good as another."""
    a, b = np.asarray(found), np.asarray(expected)
    assert a.dtype == b.dtype and a.shape == b.shape
    nan = a != a
    np.testing.assert_array_equal(nan, b != b)
    clean_a, clean_b = (np.where(nan, np.zeros((), a.dtype), x) for x in (a, b))
    assert clean_a.tobytes() == clean_b.tobytes(), (a, b)
