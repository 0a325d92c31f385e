"""Every differentiable leaf operation against finite differences, to second order."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm import ops
from dlvm.ir import Op

from .building import assert_derivatives, function
from .leaves import LEAVES, SIZES, leaf_of


@pytest.mark.drawn(3)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("leaf", LEAVES)
def test_first_and_second_derivatives_are_those_of_finite_differences(
    leaf: str, sizes: dict[str, int]
) -> None:
    types, body = LEAVES[leaf]
    assert_derivatives(function("f", types, body), np.random.default_rng(3), **sizes)


DRAWN = (ops.Sum, ops.Slice, ops.CumulativeSum, ops.Polygamma, ops.Matmul)


@pytest.mark.parametrize("cls", DRAWN, ids=lambda cls: cls.name)
def test_an_operation_that_nobody_has_listed_is_tried_as_well(cls: type[Op]) -> None:
    fn = function("f", *leaf_of(cls))
    assert cls in fn.kinds
    assert_derivatives(fn, np.random.default_rng(3), N=3, M=2)
