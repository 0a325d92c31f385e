"""Calls of programs in which an axis has at most so many places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.gen.call.sizes import bound_by


def test_an_axis_with_a_largest_size_tells_its_symbol():
    def numbered(x: Any) -> Any:
        return x + dlvm.arange(x.shape[0], dtype=np.float32)

    made: Any = dlvm.function(numbered).compile(dlvm.spec("f32[min(16,2*t+1)]"))
    assert bound_by(made.road.executable.interface) == [(0, 0, 2, 1)]
    for size in (1, 7, 15):
        np.testing.assert_array_equal(made(np.zeros(size, np.float32)), np.arange(size))
    for size in (4, 17):
        with pytest.raises(dlvm.ShapeError, match="must be min"):
            made(np.zeros(size, np.float32))


def test_another_axis_tells_more_than_one_with_a_largest_size():
    def both(x: Any, y: Any) -> Any:
        return x + y.sum()

    made: Any = dlvm.function(both).compile(dlvm.spec("f32[min(2,t)]"), dlvm.spec("f32[t]"))
    assert bound_by(made.road.executable.interface) == [(1, 0, 1, 0)]
    np.testing.assert_array_equal(made(np.ones(2, np.float32), np.ones(5, np.float32)), [6, 6])
