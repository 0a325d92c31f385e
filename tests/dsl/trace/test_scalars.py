"""A Python scalar as argument is the same scalar as a literal, and both mean what NumPy says."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import DTypeError, NumberOutOfRange, ShapeError, TraceError, UserError
from tests.dsl.trace.scalars import cases, excepted, faults, judged

U8 = np.array([0, 7, 255], np.uint8)
F32 = np.ones(2, np.float32)


@pytest.mark.filterwarnings("ignore:.*computes in f64")
def test_a_literal_an_argument_and_numpy_agree(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    assert faults(0, 800) == []


def test_they_agree_in_machine_code():
    kept = [c for c in cases(3, 60) if not excepted(c)]
    assert [said for c in kept if (said := judged(c))] == []


def test_a_comparison_is_exact_for_any_python_integer():
    above = dlvm.function(lambda x, t: (x > t, x == t, t <= x))
    for t in (-1, 0, 7, 255, 256, 2**40, -(2**63)):
        for found, expected in zip(above(U8, t), (t < U8, t == U8, t <= U8), strict=True):
            np.testing.assert_array_equal(found, expected)
    large = np.array([2**64 - 1, 3], np.uint64)
    np.testing.assert_array_equal(above(large, -1)[0], [True, True])


def test_arithmetic_refuses_what_the_type_beside_it_cannot_hold():
    add = dlvm.function(lambda x, n: x + n)
    assert add(U8, 200).dtype == np.uint8
    for n in (-1, 256, 2**40):
        with pytest.raises(NumberOutOfRange, match="the Python integer n is out of range for u8"):
            add(U8, n)
    assert add(U8, np.int64(300)).dtype == np.int64  # the remedy
    with pytest.raises(OverflowError):
        add(np.ones(2, np.int32), 2**40)
    with pytest.raises(OverflowError, match="does not fit in i64"):
        add(U8, 2**70)


def test_the_range_is_checked_where_the_operation_runs():
    @dlvm.function
    def guarded(x, n, wanted):
        return dlvm.cond(wanted, lambda: x + n, lambda: x)

    np.testing.assert_array_equal(guarded(U8, 300, False), U8)
    with pytest.raises(NumberOutOfRange):
        guarded(U8, 300, True)


def test_batches_and_gradients_check_the_range_too():
    def f(y, x, n):
        return (y * (x + n)).sum()

    x = np.array([1, 2], np.int8)
    np.testing.assert_array_equal(dlvm.grad(f)(F32, x, 3), [4, 5])
    with pytest.raises(NumberOutOfRange):
        dlvm.grad(f)(F32, x, 300)
    rows = dlvm.vmap(lambda x, n: x + n, in_axes=(0, None))
    np.testing.assert_array_equal(rows(U8, 300 - 299), U8 + 1)
    with pytest.raises(NumberOutOfRange):
        rows(U8, 300)


def test_a_python_bool_is_weak():
    staged = dlvm.function(
        lambda x, b: [(b + b) * x, x + b * 2, ~b * x, -b * x, b & b, (b > 0) * 2 * x]
    )
    for b in (True, False):
        expected = [(b + b) * F32, F32 + b * 2, (-2 if b else -1) * F32, -b * F32]
        for found, wanted in zip(staged(F32, b), expected, strict=False):
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, wanted)
        assert staged(F32, b)[4].dtype == np.bool_
        assert staged(F32, b)[5].dtype == np.float32
    assert dlvm.function(lambda x, b: x + b)(np.ones(2, np.int8), True).dtype == np.int8


def test_a_bound_beyond_the_type_is_no_bound():
    clip = dlvm.function(lambda x, low, high: np.clip(x, low, high))
    np.testing.assert_array_equal(clip(U8, -5, 300), U8)
    np.testing.assert_array_equal(clip(U8, -5, 9), [0, 7, 9])
    with pytest.raises(OverflowError):
        clip(U8, 300, 400)


def test_squares_of_bools_are_i8_as_numpys():
    bools = np.array([True, False])
    assert dlvm.function(lambda x: x**2)(bools).dtype == (bools**2).dtype
    assert dlvm.function(lambda x: np.power(x, 2))(bools).dtype == np.power(bools, 2).dtype


def test_nan_to_num_works_in_place():
    @dlvm.function
    def filled(x):
        y = x * 1
        np.nan_to_num(y, copy=False, nan=3.0)
        return y

    np.testing.assert_array_equal(filled(np.array([1.0, np.nan])), [1, 3])
    with pytest.raises(UserError, match=r"x = x\.copy"):
        dlvm.function(lambda x: np.nan_to_num(x, copy=False))(F32)
    with pytest.raises(UserError, match="copy=False"):
        dlvm.nan_to_num(F32, copy=False)


def test_an_assignment_in_place_keeps_type_and_shape():
    @dlvm.function
    def added(x, v):
        y = x.copy()
        y += v
        return y

    assert added(F32, np.ones(2)).dtype == np.float32
    with pytest.raises(DTypeError, match="in place"):
        added(np.ones(2, np.int32), np.ones(2))
    with pytest.raises(ShapeError, match="in place"):
        added(F32, np.ones((3, 2), np.float32))


def test_complex_numbers_are_refused_both_ways():
    with pytest.raises(TraceError):
        dlvm.function(lambda x: x + 1j)(F32)
    with pytest.raises(TraceError):
        dlvm.function(lambda x, z: x + z)(F32, 1j)


def test_seeds_and_steps_of_random_numbers_may_be_any_integer():
    def drawn(seed, step):
        return dlvm.random.fold_in(dlvm.random.key(seed), step)

    for seed, step in ((3, 2**40), (-1, -7)):
        found = dlvm.function(drawn)(seed, step)
        np.testing.assert_array_equal(found, dlvm.function(lambda s=seed, t=step: drawn(s, t))())
        np.testing.assert_array_equal(found, drawn(seed, step))


def test_a_negative_power_of_integers_is_refused():
    def power(x, n):
        return x**n

    ints = np.array([1, 2], np.int32)
    for call in (dlvm.function(power), lambda x, n: dlvm.function(lambda x: power(x, n))(x)):
        np.testing.assert_array_equal(call(ints, 3), [1, 8])
        with pytest.raises(ValueError, match="negative integer power"):
            call(ints, -1)
    np.testing.assert_array_equal(dlvm.function(power)(ints.astype(float), -1), [1, 0.5])


def test_what_a_call_refuses_a_static_argument_takes():
    scaled = dlvm.function(lambda x, n: x * n, static="n")
    np.testing.assert_array_equal(scaled(np.ones(2), 2**70), [2.0**70] * 2)
