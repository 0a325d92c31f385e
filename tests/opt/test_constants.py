"""Large constants are put into the order in which they are read, and never made larger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dlvm.ir import Function, Module, Value
from dlvm.ops import Broadcast, Constant, Permute, Reshape, Slice
from dlvm.opt import drop
from dlvm.opt.laws.simplification import constants, fold_constants
from dlvm.passes import run

from .building import function

LARGE = np.arange(24 * 100, dtype=np.float32).reshape(2, 3, 4, 100)
LARGE.setflags(write=False)


def folded(turned: Callable[[Value], Value]) -> Function:
    return run(function(lambda: turned(Constant(LARGE))), (fold_constants, drop)).main


TURNED: dict[str, tuple[Any, Any]] = {
    "permuted": (lambda x: Permute(x, (2, 3, 1, 0)), LARGE.transpose(2, 3, 1, 0)),
    "reshaped": (lambda x: Reshape(x, (24, 100)), LARGE.reshape(24, 100)),
    "reversed": (
        lambda x: Slice(x, (1, 0, 0, 99), (2, 3, 4, 100), (-1, 1, 1, -1)),
        LARGE[::-1, ..., ::-1],
    ),
    "turned as the weights of a convolution": (
        lambda x: Reshape(Permute(x, (2, 3, 1, 0)), (1200, 2)),
        LARGE.transpose(2, 3, 1, 0).reshape(1200, 2),
    ),
}


@pytest.mark.parametrize("name", TURNED)
def test_all_elements_of_a_large_constant_in_another_order_are_a_constant(name: str):
    turned, expected = TURNED[name]
    (result,) = folded(turned).results
    assert isinstance(result, Constant)
    np.testing.assert_array_equal(result.value, expected)
    assert result.value.flags.c_contiguous and not result.value.flags.writeable


LEFT: dict[str, Any] = {
    "what products read as it is": lambda x: Permute(x, (0, 1, 3, 2)),
    "a part": lambda x: Slice(x, (0, 0, 0, 0), (1, 3, 4, 100), (1, 1, 1, 1)),
    "a larger array": lambda x: Broadcast(x, (9, *LARGE.shape), (1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left(name: str):
    fn = folded(LEFT[name])
    assert len(fn.ops) == 2
    (kept,) = constants(Module((fn,)))
    assert kept is LARGE
