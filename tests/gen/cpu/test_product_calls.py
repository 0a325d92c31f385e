"""Calls of the loops of products: what their small functions are handed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm


@pytest.mark.parametrize("name", ["row", "col", "rows", "cols", "unit", "step"])
def test_a_size_may_have_the_name_of_a_part_of_a_tile(name: str):
    @dlvm.function
    def attend(x: Any, mask: Any) -> Any:
        return dlvm.nn.softmax(x @ x.mT + mask) @ x

    made = attend.compile(dlvm.spec(f"f32[{name},t,4]"), dlvm.spec("f32[t,t]"))
    x, mask = np.ones((3, 5, 4), np.float32), np.zeros((5, 5), np.float32)
    np.testing.assert_allclose(made(x, mask), x, rtol=1e-5)
