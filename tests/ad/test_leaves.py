"""Every differentiable leaf operation against finite differences, to second order."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm import ops
from dlvm.ir import OPS

from .building import assert_derivatives, function
from .leaves import LEAVES, SIZES


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("leaf", LEAVES)
def test_first_and_second_derivatives_are_those_of_finite_differences(
    leaf: str, sizes: dict[str, int]
) -> None:
    types, body = LEAVES[leaf]
    assert_derivatives(function("f", types, body), np.random.default_rng(3), **sizes)


def test_every_differentiable_leaf_is_among_them() -> None:
    skipped = {"fold", "push", "pop", "empty_tape", "constant", "dim", "iota"}
    for name, cls in OPS.items():
        known = name in skipped or issubclass(cls, ops.Control) or cls.nondifferentiable
        assert known or name in LEAVES, name
