"""Products for a processor without a fused multiply-add: right, and no function of C is called."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.gen.build import build
from dlvm.target import Target
from tests.gen.compiled import WITHOUT_FMA


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [(3, 5, 7), (65, 130, 70)], ids=str)
def test_products_are_right_and_call_no_function_of_c(dtype, size):
    """Whole numbers, so that sums are exact in any order."""
    rng = np.random.default_rng(0)
    rows, depth, cols = size
    x = rng.integers(-9, 9, (rows, depth)).astype(dtype)
    y = rng.integers(-9, 9, (depth, cols)).astype(dtype)
    objects: list[bytes] = []
    module = dlvm.trace(lambda x, y: dlvm.exp(x @ y - 1e5) + x @ y, x, y)
    code = build(module, WITHOUT_FMA, keep=lambda *made: objects.extend(made[2]))
    assert "llvm.fma" not in code.texts["llvm"] and "llvm.fmuladd" not in code.texts["llvm"]
    assert objects and not any(b"fma" in machine_code for machine_code in objects)
    np.testing.assert_array_equal(code.run([x, y])[0], x @ y)


def test_the_host_says_whether_it_has_one():
    host = Target.host()
    assert host.fma == ("+fma" in host.features.split(",") or not host.triple.startswith("x86_64"))
