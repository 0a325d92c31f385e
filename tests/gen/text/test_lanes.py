"""What a product lost in rounding, by one instruction where a processor has it and without."""

from __future__ import annotations

import ctypes
from fractions import Fraction

import numpy as np
import pytest

from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.text.lanes import Lanes, llvm_type
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import F32, F64, DType
from tests.gen.compiled import TARGETS

LOWEST = {F32: -149, F64: -1074}
COUNT = 4000


def products(x, y, z, dtype: DType, target: str):
    """x*y, what it lost, and ``cancelled`` of x, y and z, four lanes at a time."""
    text = Text.of(TARGETS[target])
    w = FunctionWriter(text)
    v = Lanes(w, dtype, 4)
    with w.loop("0", "%n", 4) as turn:
        element = llvm_type(dtype)
        places = [
            w.value(f"getelementptr {element}, ptr %p{i}, i64 {turn.index}") for i in range(6)
        ]
        a, b, c = (w.value(f"load {v.type}, ptr {p}, align {dtype.bytes}") for p in places[:3])
        made = (*v.two_product(a, b), v.cancelled(a, b, c))
        for value, place in zip(made, places[3:], strict=True):
            w.do(f"store {v.type} {value}, ptr {place}, align {dtype.bytes}")
    pointers = ", ".join(f"ptr %p{i}" for i in range(6))
    text.functions["f"] = w.function(f"void @f({pointers}, i64 %n)")
    assert ("llvm.fma" in str(text)) == (target == "fma")
    library = Library(object_code(str(text), TARGETS[target]), TARGETS[target])
    arrays = [x, y, z, *(np.empty_like(x) for _ in range(3))]
    entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6, ctypes.c_int64)(library.address("f"))
    entry(*(a.ctypes.data for a in arrays), len(x))
    return arrays[3:]


def drawn(dtype: DType, low: int, high: int, seed: int):
    """Numbers of either sign whose binary exponents lie between two, many with trailing zeros."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 2, COUNT) * rng.choice([-1, 1], COUNT)
    digits = rng.integers(2, 54, COUNT)
    x = np.ldexp(np.round(np.ldexp(x, digits)), -digits)
    return np.ldexp(x.astype(dtype.numpy), rng.integers(low, high, COUNT)).astype(dtype.numpy)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_a_product_and_what_it_lost_are_exact(dtype: DType, target: str):
    """With small exponents, with one factor near overflow, and down to the last exact ones."""
    top, digits = int(np.finfo(dtype.numpy).maxexp), int(np.finfo(dtype.numpy).nmant)
    least = (LOWEST[dtype] + 2 * digits) // 2
    ranges = [
        (-9, 9, -9, 9),
        (top - 9, top - 1, -9, -1),
        (least + 1, least + 9, least + 1, least + 2),
    ]
    for a, b, c, d in ranges:
        x, y = drawn(dtype, a, b, 1), drawn(dtype, c, d, 2)
        x[:9] = np.finfo(dtype.numpy).max if b == top - 1 else x[:9]
        high, low, _ = products(x, y, x, dtype, target)
        np.testing.assert_array_equal(high, x * y)
        for i in range(COUNT):
            exact = Fraction(float(x[i])) * Fraction(float(y[i]))
            assert Fraction(float(high[i])) + Fraction(float(low[i])) == exact, (x[i], y[i])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_a_remainder_of_a_division_is_exact(dtype: DType, target: str):
    x, y = drawn(dtype, -9, 9, 3), drawn(dtype, -9, 9, 4)
    rest = products(-(x / y), y, x, dtype, target)[2]
    for i in range(COUNT):
        quotient = Fraction(float(x[i] / y[i]))
        exact = Fraction(float(x[i])) - quotient * Fraction(float(y[i]))
        assert Fraction(float(rest[i])) == exact, (x[i], y[i])
