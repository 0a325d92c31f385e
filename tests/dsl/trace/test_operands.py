"""Element types of results: staged, unstaged and NumPy agree, for every pair and Python scalars."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm.base.errors import DTypeError
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.remedies import OURS

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ALL = ["bool", *INTEGERS, *FLOATS]
BF16 = np.dtype(ml_dtypes.bfloat16)
VALUES = {name: np.array([1, 0, 3, 1]).astype(name) for name in ALL} | {
    "bfloat16": np.array([1, 0, 3, 1]).astype(BF16)
}
SCALARS = (True, 2, 2.5)
BINARY = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power"),
    *("maximum", "minimum", "fmax", "fmin", "copysign", "nextafter", "heaviside"),
    *("less", "less_equal", "equal", "greater", "greater_equal", "not_equal"),
    *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("left_shift", "right_shift", "hypot", "arctan2", "logaddexp"),
)


@pytest.fixture(autouse=True)
def by_the_interpreter(monkeypatch):
    """What is traced is at stake here, not machine code."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


def is_weak_half(a, b):
    """A Python float leaves bf16 as it is, where NumPy widens."""
    dtypes = {np.asarray(v).dtype for v in (a, b)}
    return BF16 in dtypes and {type(a), type(b)} == {float, np.ndarray}


def numpy_says(name, a, b):
    """What NumPy gives; None where it refuses."""
    if is_weak_half(a, b):
        a, b = (np.asarray(v, BF16) for v in (a, b))
    try:
        with np.errstate(all="ignore"):
            return getattr(np, name)(a, b)
    except TypeError:
        return None


def pairs():
    arrays = [*VALUES.values()]
    every = [(a, b[::-1]) for a in arrays for b in arrays]
    return every + [p for s in SCALARS for a in arrays for p in ((a, s), (s, a))]


def agree(found, expected):
    """The type, and values to within the digits of it."""
    assert found.dtype == expected.dtype
    digits = 1e-2 if expected.dtype == BF16 else {2: 2e-3, 4: 1e-6}.get(expected.itemsize, 1e-14)
    a, b = (np.asarray(v, np.float64) for v in (found, expected))
    np.testing.assert_allclose(a, b, rtol=digits)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", BINARY)
def test_operations_on_two_operands(name):
    """Every pair of types: NumPy's function on staged arguments, ours on plain arrays."""
    every = [((a, b), numpy_says(name, a, b)) for a, b in pairs()]
    cases = [(given, expected) for given, expected in every if expected is not None]
    ours = lookup(OURS.get(name, name))
    staged = dlvm.function(lambda given: [getattr(np, name)(a, b) for a, b in given])
    results = staged([given for given, _ in cases])
    for (given, expected), found in zip(cases, results, strict=True):
        agree(found, expected)
        agree(ours(*given), expected)
    for given, expected in every:
        if expected is None:
            with pytest.raises(DTypeError):
                ours(*given)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "negative"])
def test_operations_on_one_operand(name):
    for dtype in [*INTEGERS, *FLOATS]:
        x = VALUES[dtype]
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(x)
        staged = dlvm.function(lambda x: getattr(dlvm, name)(x))(x)
        assert staged.dtype == getattr(dlvm, name)(x).dtype == expected.dtype, (name, dtype)


@pytest.mark.parametrize("dtype", ALL)
def test_reductions(dtype):
    x = VALUES[dtype]
    f = dlvm.function(lambda x: (dlvm.sum(x), dlvm.mean(x), dlvm.argmax(x)))
    mean = np.mean(x)
    for found, expected in zip(f(x), (np.sum(x), mean, np.argmax(x)), strict=True):
        assert found.dtype == expected.dtype
        assert np.allclose(found, expected)


@pytest.mark.filterwarnings("ignore:.*computes in f64")
def test_where_concat_and_matmul_promote():
    @dlvm.function
    def f(a, b):
        c = a > 1
        return np.where(c, a, b), np.where(c, a, 2), np.concatenate([a, b]), a @ b, c @ a

    for m in ("int32", "float32", "uint8"):
        for n in ("float16", "int64", "float64"):
            a, b = VALUES[m], VALUES[n]
            expected = (
                np.where(a > 1, a, b),
                np.where(a > 1, a, 2),
                np.concatenate([a, b]),
                a @ b,
                (a > 1) @ a,
            )
            for found, e in zip(f(a, b), expected, strict=True):
                assert found.dtype == np.asarray(e).dtype
                assert np.allclose(found, e)


def test_python_scalars_as_arguments_are_weak():
    @dlvm.function
    def f(x, rate, n):
        return x * rate, x + n, rate * 2 + n, x * (rate / n), x * dlvm.exp(rate)

    x = VALUES["float32"]
    rate, n = 0.5, 3
    expected = (x * rate, x + n, rate * 2 + n, x * (rate / n), x * np.exp(rate))
    for found, e in zip(f(x, rate, n), expected, strict=True):
        assert found.dtype == np.asarray(e).dtype
        assert np.allclose(found, e)


def test_a_weak_float_leaves_bf16_as_it_is():
    x = VALUES["bfloat16"]
    f = dlvm.function(lambda x: (x * 2.5, x + 1, x + x, dlvm.exp(x), x < 0.5))
    found = f(x)
    assert [a.dtype for a in found] == [BF16, BF16, BF16, BF16, np.dtype(bool)]
    assert dlvm.multiply(x, 2.5).dtype == BF16


def test_half_precision_computes_in_f32_and_rounds_once():
    x = np.array([1.0, 2049.0], np.float16)
    f = dlvm.function(lambda x: x + x + 1)
    assert np.array_equal(f(x), x + x + np.float16(1))


def test_differences_of_bools_are_refused():
    with pytest.raises(DTypeError, match="bool"):
        dlvm.function(lambda x: x - x)(VALUES["bool"])


def test_an_integer_that_does_not_fit_is_refused():
    with pytest.raises(DTypeError, match="300 is out of range for u8"):
        dlvm.function(lambda x: x + 300)(VALUES["uint8"])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("x", [float("nan"), float("inf"), -float("inf"), 1e300, -3.7, 2.9])
def test_python_floats_become_integers_as_astype_says(x: float, dtype: str):
    limits = np.iinfo(dtype)
    expected = 0 if x != x else int(min(max(x, limits.min), limits.max))
    for found in (dlvm.astype(x, dtype), dlvm.full((), x, dtype), dlvm.asarray(x, dtype)):
        assert found.dtype == dtype and found == expected
    assert dlvm.astype(np.array([x]), dtype)[0] == expected


def test_widening_to_f64_is_listed():
    @dlvm.function
    def f(x, n):
        return x * np.float64(2), n / 2, x * 2.0

    with pytest.warns(dlvm.TraceWarning, match=r"computes in f64.*float\(np.float64\(2\)\)"):
        f(VALUES["float32"], VALUES["int32"])
    listed = f.explain().widenings
    assert len(listed) == 2
    assert "mul of f32, f64" in listed[0]
    assert "test_operands.py" in listed[0]


def test_whole_numbers_are_compared_as_numbers():
    """Where no integer type holds both sides, a float would lose digits."""
    big = np.array([2**63, 2**64 - 1, 5, 0], np.uint64)
    signed = np.array([2**63 - 1, -1, 5, -(2**63)], np.int64)
    for name in ("less", "less_equal", "equal", "greater", "greater_equal", "not_equal"):
        for a, b in ((big, signed), (signed, big), (big, signed.astype(np.int8))):
            expected = getattr(np, name)(a, b)
            assert np.array_equal(dlvm.function(getattr(np, name))(a, b), expected)
            assert np.array_equal(getattr(dlvm, name)(a, b), expected)
        for number in (300, -1, 2**70, -(2**70)):
            x = np.array([0, 7, 255], np.uint8)
            expected = getattr(np, name)(x, number)
            assert np.array_equal(getattr(dlvm, name)(x, number), expected)
            assert np.array_equal(getattr(dlvm, name)(number, x), getattr(np, name)(number, x))


def test_powers_of_known_whole_numbers():
    for dtype in [*INTEGERS, *FLOATS, "bool"]:
        for n in (0, 1, 2, 7):
            agree(dlvm.pow(VALUES[dtype], n), np.power(VALUES[dtype], n))
    x = np.array([2.0, -0.5, 0.0, np.nan])
    with np.errstate(all="ignore"):
        for n in (0, -1, -3, 2.0, 40, 2.5):
            agree(dlvm.function(lambda x, n=n: x**n)(x), np.power(x, n))
    assert dlvm.grad(lambda x: (x**0).sum())(x).tolist() == [0] * 4
    with pytest.raises(DTypeError, match="negative integer power -1"):
        dlvm.pow(VALUES["int32"], -1)
    f = dlvm.function(lambda x, n: (2**x, n**2, n**-1, x**n))
    twice, squared, inverse, power = f(np.array([0, 3, 5]), 3)
    assert twice.tolist() == [1, 8, 32] and power.tolist() == [0, 27, 125]
    assert squared == 9 and inverse == 1 / 3
