"""The diagonal of ``eye`` and the classes of ``one_hot``: sizes, places and types as NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

FORMS: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((3,), {}),
    ((3, 4), {"k": 1}),
    ((4, 3), {"k": -1}),
    ((3, None), {"k": 9}),
    ((3,), {"k": -(2**40)}),
    ((0,), {}),
    ((0, 3), {}),
    ((3, 0), {"k": 1}),
    ((np.int64(3),), {"k": np.int8(1)}),
    ((3,), {"dtype": "f4"}),
    ((3,), {"dtype": bool}),
    ((3,), {"dtype": int}),
    ((3,), {"device": "cpu"}),
)
WRONG: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((2.0,), {}),
    ((3, 2.5), {}),
    ((3,), {"k": 1.5}),
    ((3,), {"k": 1.0}),
    ((-1,), {}),
    ((3, -2), {}),
    (("3",), {}),
)


@pytest.mark.parametrize(("args", "options"), FORMS)
def test_the_diagonal_is_that_of_numpy(args: Any, options: Any):
    expected = np.eye(*args, **options)
    for found in (dlvm.eye(*args, **options), dlvm.function(lambda: dlvm.eye(*args, **options))()):
        assert np.array_equal(found, expected)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape


@pytest.mark.parametrize(("args", "options"), WRONG)
def test_what_is_no_size_and_no_place_is_an_error_as_of_numpy(args: Any, options: Any):
    with pytest.raises((TypeError, ValueError)):
        np.eye(*args, **options)
    for call in (dlvm.eye, dlvm.function(lambda: dlvm.eye(*args, **options))):
        with pytest.raises(UserError):
            call(*args, **options) if call is dlvm.eye else call()


def test_an_open_size_and_a_staged_place():
    f = dlvm.function(lambda x, k: dlvm.eye(x.shape[0], k=k), dynamic={"x": "N"})
    for n, k in ((3, 1), (4, -1), (2, 0)):
        assert np.array_equal(f(np.ones(n), k), np.eye(n, k=k))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i8", "u1", bool])
def test_the_class_is_the_one_that_a_number_equals(dtype: Any):
    x = np.array([0, 1, 1, 2, 7]).astype(dtype)
    expected = (x[:, None] == np.arange(3)).astype(float)
    assert np.array_equal(dlvm.nn.one_hot(x, 3), expected)
    staged = dlvm.function(lambda x: dlvm.nn.one_hot(x, 3))
    assert np.array_equal(staged(x), expected)


def test_a_float_that_is_no_class_has_zeros_only():
    x = np.array([0.5, np.nan, -1.0, np.inf, 2.0])
    for call in (dlvm.nn.one_hot, dlvm.function(dlvm.nn.one_hot, static=("num_classes",))):
        assert np.array_equal(call(x, 3).sum(-1), [0, 0, 0, 0, 1])


@pytest.mark.parametrize("count", [2.5, 3.0, -1, "3"])
def test_a_count_of_classes_is_a_size(count: Any):
    x = np.array([0, 1])
    for call in (dlvm.nn.one_hot, dlvm.function(dlvm.nn.one_hot, static=("num_classes",))):
        with pytest.raises(UserError):
            call(x, count)
