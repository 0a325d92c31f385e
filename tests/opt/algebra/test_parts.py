"""Sums of products against other ones: as NumPy has them, over whichever axes, in batches too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ops import Matmul, Update


def batches() -> list[np.ndarray]:
    """Two columns, two rows, and two pairs of square matrices, of small whole numbers."""
    rng = np.random.default_rng(0)
    shapes = (2, 16, 1), (2, 1, 16), (2, 16, 16), (2, 16, 16)
    return [rng.integers(-3, 4, shape).astype(np.float64) for shape in shapes]


@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_a_sum_over_some_axes_against_a_product_is_that_sum(axes: tuple[int, ...]):
    """Over batches and rows it was taken for the sum of all of a matrix, and was wrong."""
    p, q, b, c = batches()
    for f in (
        lambda p, q, b, c: ((p @ q) * (b @ c)).sum(axes),
        lambda p, q, b, c: (-(p @ q) * (b @ c)).sum(axes),
        lambda p, q, b, c: ((b @ c) * -(p @ q)).sum(axes),
    ):
        np.testing.assert_array_equal(dlvm.function(f)(p, q, b, c), f(p, q, b, c))


def test_the_sum_of_all_batches_against_a_product_of_vectors_forms_no_matrix():
    arrays = batches()
    f = dlvm.function(lambda p, q, b, c: ((p @ q) * (b @ c)).sum())
    main = f.compile(*arrays).road.optimized.main
    assert all(1 in op.shape[-2:] for op in main.walk() if isinstance(op, Matmul))


@dlvm.function
def beginnings(x: Any) -> Any:
    """The first three of each of many multiples."""
    return dlvm.stack([x * i for i in range(40)])[:, :3]


@dlvm.function
def middle(x: Any) -> Any:
    """Elements of both of two pieces."""
    return dlvm.concat([x * 2, x * 3])[90:110]


@pytest.mark.parametrize(("f", "most"), [(beginnings, 3 * 40), (middle, 20)])
def test_only_the_elements_of_pieces_that_are_asked_for_are_computed(f: Any, most: int):
    x = np.arange(100, dtype=np.float32)
    compiled = f.compile(x)
    assert compiled.report.flops <= most
    np.testing.assert_array_equal(compiled(x), f.__wrapped__(x))


def test_a_window_that_is_changed_in_place_is_stored_once():
    def f(x: Any) -> Any:
        x = x.copy()
        x[1:3] += 1
        x[1:3] *= 2
        return x

    main = dlvm.function(f).compile(np.ones((4, 5))).road.optimized.main
    assert sum(isinstance(op, Update) for op in main.walk()) == 1
