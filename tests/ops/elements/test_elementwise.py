"""Element-wise operations against formulas of our own, edges first."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dlvm.ir import BF16, BOOL, DTYPES, F16, F32, F64, NUMBERS, DType
from dlvm.ops import (
    Add,
    And,
    Cast,
    Div,
    Equal,
    Exp,
    FloorDiv,
    Less,
    LessEqual,
    Log,
    Maximum,
    Modf,
    Mul,
    Neg,
    Not,
    Or,
    Select,
    Sqrt,
    Sub,
    Tanh,
)
from tests.ops.running import run_op, same_bits

INTEGERS = [t for t in NUMBERS if t.is_integer]
FLOATS = [t for t in NUMBERS if t.is_float]
NAN, INF = math.nan, math.inf
EDGES = (0.0, -0.0, 1.0, -1.5, 2.75, INF, -INF, NAN)


@pytest.fixture(autouse=True)
def expected_values_may_overflow():
    with np.errstate(all="ignore"):
        yield


def edges_of(dtype: DType) -> list[int]:
    low, high = int(dtype.lowest), int(dtype.highest)
    return [v for v in (low, low + 1, -7, -1, 0, 1, 2, 7, high - 1, high) if low <= v <= high]


def wrapped(number: int, dtype: DType) -> int:
    """The residue of a whole number that the type holds."""
    rest = number % 2**dtype.bits
    return rest - 2**dtype.bits if rest > int(dtype.highest) else rest


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(
    ("op", "formula"),
    [
        (Add, lambda a, b: a + b),
        (Sub, lambda a, b: a - b),
        (Mul, lambda a, b: a * b),
        (FloorDiv, lambda a, b: a // b if b else 0),
        (Maximum, max),
    ],
)
def test_integers_wrap_and_divide_as_documented(dtype: DType, op, formula):
    pairs = [(a, b) for a in edges_of(dtype) for b in edges_of(dtype)]
    x, y = (np.array(side, dtype.numpy) for side in zip(*pairs, strict=True))
    expected = np.array([wrapped(formula(a, b), dtype) for a, b in pairs], dtype.numpy)
    same_bits(run_op(op, x, y), expected)


def test_floor_division_of_every_pair_of_bytes():
    x, y = (a.astype(np.int8) for a in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    pairs = zip(x.reshape(-1).tolist(), y.reshape(-1).tolist(), strict=True)
    expected = [wrapped(a // b, DTYPES["i8"]) if b else 0 for a, b in pairs]
    same_bits(run_op(FloorDiv, x, y), np.array(expected, np.int8).reshape(x.shape))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_negation_wraps(dtype: DType):
    x = np.array(edges_of(dtype), dtype.numpy)
    same_bits(run_op(Neg, x), np.array([wrapped(-v, dtype) for v in edges_of(dtype)], dtype.numpy))


ON_EDGES = {
    Neg: (EDGES, [-v for v in EDGES]),
    Sqrt: ((-0.0, 4.0, -1.0, INF), (-0.0, 2.0, NAN, INF)),
    Log: ((0.0, -0.0, 1.0, -1.0, INF), (-INF, -INF, 0.0, NAN, INF)),
    Exp: ((-INF, 0.0, INF, NAN), (0.0, 1.0, INF, NAN)),
    Tanh: ((-INF, -0.0, INF, NAN), (-1.0, -0.0, 1.0, NAN)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ON_EDGES)
def test_signs_of_zero_infinities_and_nan(dtype: DType, op):
    given, expected = (np.array(side, dtype.numpy) for side in ON_EDGES[op])
    same_bits(run_op(op, given), expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_division_is_that_of_ieee(dtype: DType):
    y = np.array(EDGES, dtype.numpy)
    expected = np.array([INF, -INF, 1.0, -1 / 1.5, 1 / 2.75, 0.0, -0.0, NAN], dtype.numpy)
    same_bits(run_op(Div, np.ones_like(y), y), expected)
    zero = np.zeros(1, dtype.numpy)
    same_bits(run_op(Div, zero, zero), np.array([NAN], dtype.numpy))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_wins_a_maximum_and_loses_every_comparison(dtype: DType):
    x, y = np.array([NAN, 1, NAN, 2], dtype.numpy), np.array([1, NAN, NAN, 1], dtype.numpy)
    same_bits(run_op(Maximum, x, y), np.array([NAN, NAN, NAN, 2], dtype.numpy))
    for op in (Less, LessEqual, Equal):
        assert run_op(op, x, y)[:3].tolist() == [False] * 3
    zero = np.array([0.0], dtype.numpy)
    assert run_op(Equal, zero, -zero).tolist() == [True]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_modf_keeps_signs_and_infinities(dtype: DType):
    x = np.array([3.25, -3.25, -0.0, 0.0, INF, -INF, NAN, -2.0], dtype.numpy)
    fraction, whole = run_op(lambda v: Modf(v).results, x)
    same_bits(fraction, np.array([0.25, -0.25, -0.0, 0.0, 0.0, -0.0, NAN, -0.0], dtype.numpy))
    same_bits(whole, np.array([3, -3, -0.0, 0.0, INF, -INF, NAN, -2], dtype.numpy))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize(
    ("op", "exact", "low", "high"),
    [
        (Exp, mpmath.exp, -80, 80),
        (Log, mpmath.log, 1e-30, 1e30),
        (Tanh, mpmath.tanh, -10, 10),
        (Sqrt, mpmath.sqrt, 0, 1e30),
    ],
)
def test_functions_are_within_their_stated_error(dtype: DType, op, exact, low: float, high: float):
    x = np.random.default_rng(0).uniform(low, high, 200).astype(dtype.numpy)
    found = run_op(op, x)
    for value, result in zip(x, found, strict=True):
        with mpmath.workdps(40):
            error = abs(mpmath.mpf(float(result)) - exact(mpmath.mpf(float(value))))
            assert error <= op.ulp * abs(float(np.spacing(result)))


def test_half_precision_computes_in_f32_and_rounds_once():
    x = np.array([1.0, 3.0, 65504.0, 0.1], F16.numpy)
    wide = x.astype(np.float32)
    same_bits(run_op(Mul, x, x), (wide * wide).astype(F16.numpy))
    same_bits(run_op(lambda a: Exp(a), x), np.exp(wide).astype(F16.numpy))


def nearest(number: Fraction, dtype: DType) -> float:
    """The value of a 16-bit float nearest to an exact number, ties to the even one."""
    bits = np.arange(2**15, dtype=np.uint16)
    finite = bits.view(dtype.numpy).astype(np.float64)
    finite = finite[np.isfinite(finite)]
    size = abs(number)
    at = int(np.searchsorted(finite, float(size)))
    near = [n for n in (at - 1, at, at + 1) if 0 <= n < len(finite)]
    best = min(near, key=lambda n: (abs(Fraction(float(finite[n])) - size), n % 2))
    return math.copysign(float(finite[best]), number)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_a_cast_from_f64_to_half_rounds_once(dtype: DType):
    """Numbers just beside the middle of two halves are where two roundings would go wrong."""
    rng = np.random.default_rng(1)
    halves = rng.uniform(0.01, 100, 300).astype(dtype.numpy)
    following = np.nextafter(halves, np.array(INF, dtype.numpy))
    middle = (halves.astype(np.float64) + following.astype(np.float64)) / 2
    x = np.concatenate([middle, np.nextafter(middle, INF), np.nextafter(middle, 0), -middle])
    expected = np.array([nearest(Fraction(float(v)), dtype) for v in x]).astype(dtype.numpy)
    same_bits(run_op(lambda a: Cast(a, dtype), x), expected)


@pytest.mark.parametrize("to", INTEGERS, ids=str)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_a_float_becomes_an_integer_by_truncating_and_saturating(source: DType, to: DType):
    numbers = [0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.5, 128.0, -129.0, 255.9, 256.0, 6e4]
    numbers += [s * 2.0**p for s in (1.0, -1.0, 0.99, 1.01) for p in (15, 31, 32, 63, 64)]
    x = np.array([*numbers, INF, -INF, NAN], np.float64).astype(source.numpy)
    low, high = int(to.lowest), int(to.highest)

    def exact(v: float) -> int:
        if math.isnan(v):
            return 0
        return (high if v > 0 else low) if math.isinf(v) else min(max(math.trunc(v), low), high)

    expected = np.array([exact(float(v)) for v in x], to.numpy)
    same_bits(run_op(lambda a: Cast(a, to), x), expected)


@pytest.mark.parametrize("to", [t for t in INTEGERS], ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_an_integer_becomes_another_by_wrapping(source: DType, to: DType):
    x = np.array(edges_of(source), source.numpy)
    expected = np.array([wrapped(v, to) for v in edges_of(source)], to.numpy)
    same_bits(run_op(lambda a: Cast(a, to), x), expected)


@pytest.mark.parametrize("to", [F32, F64], ids=str)
def test_an_integer_becomes_the_nearest_float(to: DType):
    x = np.array([2**24 + 1, 2**24 + 3, 2**53 + 1, 2**63 - 1, -(2**63)], np.int64)
    expected = [float(v) if to is F64 else _nearest_f32(int(v)) for v in x.tolist()]
    same_bits(run_op(lambda a: Cast(a, to), x), np.array(expected, to.numpy))


def _nearest_f32(v: int) -> float:
    shift = max(abs(v).bit_length() - 24, 0)
    return math.copysign(math.ldexp(round(Fraction(abs(v), 2**shift)), shift), v)


def test_truth_is_anything_but_zero():
    x = np.array([0.0, -0.0, NAN, 0.1, INF], np.float32)
    assert run_op(lambda a: Cast(a, BOOL), x).tolist() == [False, False, True, True, True]
    truth = np.array([True, False])
    for to in (*INTEGERS, *FLOATS):
        same_bits(run_op(lambda a, to=to: Cast(a, to), truth), np.array([1, 0], to.numpy))


def test_selection_looks_at_nothing_but_the_condition():
    c = np.array([True, False, True])
    x, y = np.array([NAN, NAN, 1.0]), np.array([2.0, 2.0, NAN])
    same_bits(run_op(Select, c, x, y), np.array([NAN, 2.0, 1.0]))
    assert run_op(And, c, ~c).tolist() == [False] * 3
    assert run_op(Or, c, ~c).tolist() == [True] * 3
    assert run_op(Not, c).tolist() == [False, True, False]
