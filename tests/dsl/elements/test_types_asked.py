"""What types hold and become, asked as the array API standard and NumPy ask it."""

from __future__ import annotations

import itertools
import pickle
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", int, np.int16, np.dtype("u2"))
FLOATS = ("f2", "f4", "f8", float, np.float32, np.dtype("f2"))
KNOWN = (*INTEGERS, *FLOATS, bool, np.bool_, np.ones(2, "f4"), np.int8(3), 3, 300, 2**40, 1.0, True)


@pytest.mark.parametrize("given", [*INTEGERS, 3, np.int32(3)])
def test_the_limits_of_integers(given: Any):
    found, theirs = dlvm.iinfo(given), np.iinfo(given)
    for field in ("bits", "min", "max", "dtype"):
        assert getattr(found, field) == getattr(theirs, field)
    assert type(found.max) is int


@pytest.mark.parametrize("given", [*FLOATS, 3.0, np.float32(3)])
def test_the_limits_of_floats(given: Any):
    found, theirs = dlvm.finfo(given), np.finfo(given)
    for field in ("bits", "eps", "min", "max", "smallest_normal", "dtype"):
        assert getattr(found, field) == getattr(theirs, field)


@pytest.mark.parametrize("given", ["f2", "f4", "f8", dlvm.bfloat16])
def test_the_limits_of_floats_are_python_numbers(given: Any):
    """The array API standard says so; the suite for it asks ``isinstance(eps, float)``."""
    found = dlvm.finfo(given)
    for field in ("eps", "min", "max", "smallest_normal", "tiny", "smallest_subnormal"):
        assert type(getattr(found, field)) is float
    assert type(found.bits) is int and found.dtype == given and found.nmant in (7, 10, 23, 52)
    assert pickle.loads(pickle.dumps(found)) == found and not hasattr(found, "least")
    for field in ("bits", "min", "max"):
        assert type(getattr(dlvm.iinfo("u2"), field)) is int
    assert dlvm.function(lambda x: x * found.eps)(np.ones(2, "f2")).dtype == np.float16


def test_the_limits_of_an_array_are_those_of_its_elements_staged_or_not():
    x = np.ones(3, "f4")
    assert dlvm.finfo(x).eps == dlvm.function(lambda x: x[0] * dlvm.finfo(x).eps)(x)
    n = np.ones(3, "u1")
    assert dlvm.iinfo(n).max == dlvm.function(lambda n: n[0] * dlvm.iinfo(n).max)(n) == 255


@pytest.mark.parametrize("given", [bool, np.bool_, "f4", 1.0, True])
def test_only_integers_have_the_limits_of_integers(given: Any):
    with pytest.raises(UserError, match="iinfo: expected an integer type"):
        dlvm.iinfo(given)


@pytest.mark.parametrize("given", [bool, "i4", 3, True])
def test_only_floats_have_the_limits_of_floats(given: Any):
    with pytest.raises(UserError, match="finfo: expected a floating-point type"):
        dlvm.finfo(given)


@pytest.mark.parametrize("given", [3, 3.0, True])
def test_a_number_is_no_type_also_after_a_numpy_scalar_that_equals_it(given: Any):
    assert dlvm.zeros(1, np.int32(given)).dtype == np.int32
    with pytest.raises(UserError, match=r"no element type|an element type"):
        dlvm.zeros(1, given)


def test_the_type_of_results_is_that_of_numpy():
    for a in (*KNOWN, 2**63):
        assert dlvm.result_type(a) == np.result_type(a), a
        for b in KNOWN:
            assert dlvm.result_type(a, b) == np.result_type(a, b), (a, b)
            assert dlvm.result_type(a, b, "f4") == np.result_type(a, b, "f4"), (a, b)


def test_the_type_of_nothing_and_of_too_large_an_integer_is_an_error():
    for args in ((), (2**64,)):
        with pytest.raises(UserError):
            dlvm.result_type(*args)


MIXED = (np.float32, np.dtype("i1"), np.ones(2, "f4"), np.ones(2, "u1"), np.int64(3), 1, -1, 1.5)
MIXED += (True, np.uint64, np.ones(2, bool), 300, 2**63, np.array(3, "i4"))


def test_the_type_of_arrays_types_and_numbers_together_is_numpys():
    for n in (1, 2, 3):
        for given in itertools.product(MIXED, repeat=n):
            try:
                expected = np.result_type(*given)
            except OverflowError:
                continue
            assert dlvm.result_type(*given) == expected, given
