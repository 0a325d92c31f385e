"""Element types of results: staged, unstaged and NumPy agree, for every pair and Python scalars."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm.errors import DTypeError

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ALL = ["bool", *INTEGERS, *FLOATS]
BF16 = np.dtype(ml_dtypes.bfloat16)
VALUES = {name: np.array([1, 0, 3, 1]).astype(name) for name in ALL} | {
    "bfloat16": np.array([1, 0, 3, 1]).astype(BF16)
}
SCALARS = {"True": True, "2": 2, "2.5": 2.5}

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "maximum": np.maximum,
    "less": np.less,
    "less_equal": np.less_equal,
    "equal": np.equal,
    "greater": np.greater,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
}
ARITHMETIC = {"add", "subtract", "multiply", "divide", "floor_divide", "maximum"}


@pytest.fixture(autouse=True)
def by_the_interpreter(monkeypatch):
    """What is traced is at stake here, not machine code."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


def refused(name, a, b):
    """What dlvm refuses although NumPy has an answer: arithmetic on bools."""
    dtypes = {np.asarray(a).dtype, np.asarray(b).dtype}
    return name in ARITHMETIC - {"divide"} and dtypes == {np.dtype(bool)}


def pairs(name):
    arrays = [VALUES[n] for n in ALL]
    every = [(a, b) for a in arrays for b in (*arrays, *SCALARS.values())]
    every += [(s, a) for a in arrays for s in SCALARS.values()]
    return [(a, b) for a, b in every if not refused(name, a, b)]


def numpy_says(ufunc, a, b):
    try:
        with np.errstate(all="ignore"):
            return ufunc(a, b)
    except TypeError:
        return None


@pytest.mark.parametrize("name", BINARY)
def test_operations_on_two_operands(name):
    cases = [(a, b) for a, b in pairs(name) if numpy_says(BINARY[name], a, b) is not None]
    ours = getattr(dlvm, name)

    @dlvm.function
    def staged(arrays):
        chosen = [[arrays[i] if isinstance(x, np.ndarray) else x for i, x in row] for row in keyed]
        by_numpy = [BINARY[name](a, b) for a, b in chosen]
        return [ours(a, b) for a, b in chosen], by_numpy

    arrays = [VALUES[n] for n in ALL]
    place = {id(a): i for i, a in enumerate(arrays)}
    keyed = [[(place.get(id(x), -1), x) for x in row] for row in cases]
    by_name, by_ufunc = staged(arrays)
    for (a, b), s, u in zip(cases, by_name, by_ufunc, strict=True):
        expected = numpy_says(BINARY[name], a, b)
        for found in (s, u, ours(a, b)):
            assert found.dtype == expected.dtype, (name, a, b)
            assert np.array_equal(found, expected, equal_nan=True), (name, a, b)


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


def test_arithmetic_on_bools_is_refused():
    with pytest.raises(DTypeError, match="bool"):
        dlvm.function(lambda x: x + x)(VALUES["bool"])


def test_an_integer_that_does_not_fit_is_refused():
    with pytest.raises(DTypeError, match="300 is out of range for u8"):
        dlvm.function(lambda x: x + 300)(VALUES["uint8"])


def test_widening_to_f64_is_listed():
    @dlvm.function
    def f(x, n):
        return x * np.float64(2), n / 2, x * 2.0

    f(VALUES["float32"], VALUES["int32"])
    listed = f.explain().widenings
    assert len(listed) == 2
    assert "mul of f32, f64" in listed[0]
    assert "test_promotion.py" in listed[0]
