"""Signs, magnitudes, neighbours and kinds of floats, against NumPy on edges of every type."""

from __future__ import annotations

import math

import numpy as np
import pytest

import dlvm
from dlvm.ir import BOOL, NUMBERS, DType
from dlvm.ops import (
    Abs,
    Ceil,
    CopySign,
    Floor,
    IsFinite,
    IsInf,
    IsNan,
    NextAfter,
    Round,
    Sign,
    SignBit,
    Trunc,
)
from tests.ops.running import run_op, same_bits

INF, NAN = math.inf, math.nan
FLOATS = [t for t in NUMBERS if t.is_float]
EDGES = (0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -3.5, 0.49, 1e-7, 6e4, -2.0, INF, -INF, NAN)
UNARY = {
    Abs: np.abs,
    Ceil: np.ceil,
    Floor: np.floor,
    IsFinite: np.isfinite,
    IsInf: np.isinf,
    IsNan: np.isnan,
    Round: np.rint,
    Sign: np.sign,
    SignBit: np.signbit,
    Trunc: np.trunc,
}
BINARY = {
    CopySign: np.copysign,
    # C gives the second of equal operands; NumPy does so too, except for half precision.
    NextAfter: lambda x, y: np.where(x == y, y, np.nextafter(x, y)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", UNARY)
def test_of_one_float(op, dtype: DType):
    x = np.array(EDGES, dtype.numpy)
    expected = UNARY[op](x.astype(np.float64))  # ml_dtypes gives -0 a sign
    same_bits(run_op(op, x), expected.astype(bool if expected.dtype == bool else dtype.numpy))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", BINARY)
def test_of_two_floats(op, dtype: DType):
    x, y = (
        np.array(s, dtype.numpy) for s in zip(*[(a, b) for a in EDGES for b in EDGES], strict=True)
    )
    same_bits(run_op(op, x, y), BINARY[op](x, y))


@pytest.mark.parametrize("dtype", [t for t in NUMBERS if not t.is_float], ids=str)
def test_integers_are_whole_and_finite(dtype: DType):
    x = np.array([0, 1, dtype.highest, dtype.lowest], dtype.numpy)
    for op in (Ceil, Floor, Trunc, Round):
        same_bits(run_op(op, x), x)
    assert run_op(IsFinite, x).all()
    assert not run_op(IsInf, x).any() and not run_op(IsNan, x).any()
    if dtype != BOOL:
        same_bits(run_op(Sign, x), np.sign(x))
    same_bits(run_op(Abs, x), np.abs(x))


BITS = [("f2", "u2"), ("f2", "i2"), ("f4", "i4"), ("f4", "u4"), ("f8", "i8"), ("f8", "u8")]


@pytest.mark.parametrize(("kind", "whole"), BITS)
def test_bits_are_those_of_a_view_and_of_the_plain_nan(kind: str, whole: str):
    x = np.array([1.5, -0.0, np.inf, -np.nan, 1e-7, -3], kind)
    expected = np.where(np.isnan(x), np.array(np.nan, kind), x).view(whole)
    found = dlvm.function(lambda x: dlvm.bitcast(x, whole))(x)
    np.testing.assert_array_equal(found, expected)
    back = dlvm.function(lambda n: dlvm.bitcast(n, kind))(expected)
    np.testing.assert_array_equal(np.asarray(back).view(whole), expected)


def test_the_bits_of_a_rounded_half_are_read():
    x = np.array([1.0, 1.0 + 2**-10], np.float16)
    found = dlvm.function(lambda x: dlvm.bitcast(x * x, "int16"))(x)
    np.testing.assert_array_equal(found, (x * x).view(np.int16))


@pytest.mark.parametrize(("kind", "said"), [("f8", "of 64 bits first"), ("?", "with astype")])
def test_types_of_two_widths_are_refused(kind: str, said: str):
    with pytest.raises(dlvm.DTypeError, match=said):
        dlvm.bitcast(np.zeros(3, np.float32), np.dtype(kind))
