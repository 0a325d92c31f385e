"""Every operation on elements, on all special values: compiled is as the reference says.

All pairs of special values, with either truth where an operation selects, go through the vector
loop and through the tail of one kernel for each element type. Compiled code has the same NaN,
infinities and signs of zero as the interpreter, exact operations have the same bits, and the rest
is within the bound that the class of the operation states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dlvm.ir import F64, NUMBERS, Array, DType, Module
from dlvm.ops import Elementwise
from tests.special import combinations, kinds, special_values

from .compiled import TARGETS, Compiled, interpret
from .math.test_instructions import all_of
from .values import bits

NUMPY = 4.0
"""Units in the last place by which NumPy's functions may be off: the code that it runs differs by
processor, and no test may ask it for more than its authors promise."""


def inputs(dtype: DType) -> tuple[Array, Array, Array]:
    values = special_values(dtype)
    x, y, c = combinations([values, values, np.array([False, True])])
    return x, y, c


def in_tails(code: Compiled, arrays: tuple[Array, ...], size: int = 3) -> list[Array]:
    """The results where no piece is as long as a vector."""
    pieces = range(0, len(arrays[0]), size)
    made = [code(*(a[i : i + size] for a in arrays))[0] for i in pieces]
    return [np.concatenate(column) for column in zip(*made, strict=True)]


CASES = [(dtype, name) for dtype in NUMBERS for name in TARGETS if dtype.is_float or name == "fma"]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "target"), CASES, ids=str)
def test_special_values_are_what_the_reference_says(dtype: DType, target: str):
    op, arrays = all_of(dtype), inputs(dtype)
    with np.errstate(all="ignore"):
        expected = Module((op.body,)).run("f", *arrays)
        wide = exact(dtype, arrays)
    code = Compiled(op, target=TARGETS[target])
    ways = {
        "vectors": code(*arrays)[0],
        "tails": in_tails(code, arrays),
        "loops": interpret(op, arrays)[0],
    }
    failures: list[str] = []
    for way, results in ways.items():
        for i, (result, value) in enumerate(zip(op.body.results, expected, strict=True)):
            made: Any = getattr(result, "op", result)
            message = f"{made.name} of {dtype} to {result.type}, {way}"
            given = arrays[: len(made.operands)]
            numpy = 0.0 if way != "loops" and wide[i] is not None else NUMPY
            failures += beside(made, results[i], value, wide[i], given, message, numpy)
    assert not failures, "\n".join(failures)


def exact(dtype: DType, arrays: tuple[Array, ...]) -> list[Array | None]:
    """The results in f64, exact beside any shorter float."""
    if not dtype.is_float or dtype == F64:
        return [None] * len(all_of(dtype).body.results)
    x, y, c = arrays
    wide = all_of(F64)
    return list(Module((wide.body,)).run("f", x.astype(np.float64), y.astype(np.float64), c))


def beside(
    op: Elementwise,
    found: Array,
    expected: Array,
    wide: Array | None,
    operands: tuple[Array, ...],
    message: str,
    numpy: float,
) -> list[str]:
    """What is said where a result is further from what is expected than the operation allows."""
    assert found.dtype == expected.dtype
    if op.ulp <= 0.5:
        differ = np.flatnonzero(~same(found, expected))
    else:
        differ = np.flatnonzero(kinds(found) != kinds(expected))
        if not len(differ):
            differ = np.flatnonzero(beyond(op, found, expected, wide, operands, numpy))
    if not len(differ):
        return []
    i = differ[0]
    given = [a[i] for a in operands]
    return [f"{message}: of {given} found {found[i]}, not {expected[i]}; {len(differ)} differ"]


def same(found: Array, expected: Array) -> Any:
    """Where elements agree to the bit, NaN being NaN."""
    return bits(found) == bits(expected)


def beyond(
    op: Elementwise,
    found: Array,
    expected: Array,
    wide: Array | None,
    operands: tuple[Array, ...],
    numpy: float,
) -> Any:
    """Where an inexact result is further off than ``ulp`` and the error of NumPy's own code."""
    value = expected.astype(np.float64) if wide is None else wide.astype(np.float64)
    half = found.dtype.itemsize == 2
    units = 0.51 if half else op.ulp + numpy
    size = np.abs(expected)
    if op.cancels:
        size = np.maximum.reduce([size, np.ones_like(size), *map(np.abs, operands)])
    with np.errstate(all="ignore"):
        unit = np.abs(np.spacing(np.where(np.isfinite(size), size, 1).astype(found.dtype)))
        gap = np.abs(found.astype(np.float64) - value)
    finite = np.isfinite(expected.astype(np.float64)) & np.isfinite(value)
    return finite & (gap > units * unit.astype(np.float64))
