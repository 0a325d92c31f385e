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
