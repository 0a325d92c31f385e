"""Windows, insertions and places of elements are NumPy's, staged and plain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm

RNG = np.random.default_rng(0)
X, V, FLAT = RNG.normal(size=(7, 9)), RNG.normal(size=30), np.arange(6.0).reshape(2, 3)


def windows(module: Any) -> Any:
    return (
        module.lib.stride_tricks.sliding_window_view if module is np else dlvm.sliding_window_view
    )


INSERTED: list[tuple[Any, Any, int | None]] = [
    (1, 5.0, 1),
    (1, [7.0, 8.0], 1),
    (1, [[7.0], [8.0]], 1),
    ([1], [[7.0], [8.0]], 1),
    ([0, 2], [[7.0], [8.0]], 1),
    (1, [1.0, 2.0, 3.0], 0),
    (-1, 9.0, None),
    ([1, 1], [7.0, 8.0], None),
    (slice(0, 3, 2), [5.0, 6.0], None),
    ([], [], None),
    (6, [1.0, 2.0], None),
]
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "windows": (lambda m, x: windows(m)(x, 3), (V,)),
    "windows of two axes": (lambda m, x: windows(m)(x, (2, 3)), (X,)),
    "windows of rows": (lambda m, x: windows(m)(x, 2, axis=0), (X,)),
    "windows in another order": (lambda m, x: windows(m)(x, (2, 3), axis=(1, 0)), (X,)),
    "windows of everything": (lambda m, x: windows(m)(x, (7, 9)), (X,)),
    "windows of nothing": (lambda m, x: windows(m)(x, 0), (V,)),
    "diagflat": (lambda m, x: m.diagflat(x, 1), (FLAT,)),
    "ediff1d": (lambda m, x: m.ediff1d(x), (X,)),
    "ediff1d of nothing": (lambda m, x: m.ediff1d(x), (X[:0],)),
    "logspace": (lambda m, x: m.logspace(x, 2.0, 7), (FLAT[0],)),
    "logspace without its end": (lambda m, x: m.logspace(x, 2.0, 7, False), (FLAT[0],)),
    "geomspace": (lambda m, x: m.geomspace(x, 200.0, 7), (np.array([1.0, 3.0]),)),
    "geomspace of one": (lambda m, x: m.geomspace(x, 200.0, 1), (np.array([1.0, 3.0]),)),
    "geomspace below 0": (lambda m, x: m.geomspace(x, -200.0, 7), (np.array([-1.0, -3.0]),)),
    "unravel_index": (lambda m, i: m.unravel_index(i, (3, 4, 5)), (RNG.integers(0, 60, 7),)),
    "ravel_multi_index": (
        lambda m, i, j: m.ravel_multi_index((i, j), (3, 4)),
        (RNG.integers(0, 3, 7), RNG.integers(0, 4, 7)),
    ),
    "ravel_multi_index, wrapped": (
        lambda m, i: m.ravel_multi_index((i, i), (3, 4), mode="wrap"),
        (RNG.integers(0, 30, 7),),
    ),
    "ravel_multi_index, clipped": (
        lambda m, i: m.ravel_multi_index((i, i), (3, 4), mode="clip"),
        (RNG.integers(0, 30, 7),),
    ),
    "isposinf": (
        lambda m, x: (m.isposinf(x), m.isneginf(x)),
        (np.array([1.0, np.inf, -np.inf, np.nan]),),
    ),
} | {
    f"insert {i}": (
        lambda m, x, row=row: m.insert(x, row[0], np.asarray(row[1]), axis=row[2]),
        (FLAT,),
    )
    for i, row in enumerate(INSERTED)
}


@pytest.mark.parametrize("name", CASES)
def test_staged_and_plain_are_numpys(name: str):
    f, args = CASES[name]
    expected = f(np, *args)
    for found in (dlvm.function(lambda *xs: f(np, *xs))(*args), f(dlvm, *args)):
        pairs = (expected, found) if isinstance(expected, tuple) else ((expected,), (found,))
        for want, got in zip(*pairs, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-13)


@pytest.mark.parametrize("axis", [None, 0, (1, 0)])
def test_derivatives_of_windows(axis: Any):
    width = 3 if axis == 0 else (2, 3)
    dlvm.testing.gradcheck(lambda x: (windows(dlvm)(x, width, axis) ** 2).sum(), X)


def test_windows_of_an_open_axis():
    f = dlvm.function(
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3), dynamic={"x": "N+3"}
    )
    for size in (3, 4, 50):
        np.testing.assert_array_equal(f(V[:size] if size < 30 else np.arange(50.0)).shape[1], 3)
        x = np.arange(float(size))
        np.testing.assert_array_equal(f(x), np.lib.stride_tricks.sliding_window_view(x, 3))


@pytest.mark.parametrize("width", [31, -1])
def test_a_window_that_does_not_fit(width: int):
    with pytest.raises(dlvm.ShapeError, match=r"does not fit into axis 0 of f64\[30\]"):
        dlvm.function(lambda x: windows(dlvm)(x, width))(V)
