"""``x[:T]`` by an open size clips as in NumPy, and meets ``T`` where the call finds it as long."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import AssertionFailed

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(8, 8))
MET: dict[str, Any] = {
    "added": lambda x, p: x + p[: x.shape[1]],
    "first": lambda x, p: p[: x.shape[1]] * x,
    "chosen": lambda x, p: dlvm.where(x > 0, x, p[: x.shape[1]]),
    "compared": lambda x, p: x < p[: x.shape[1]],
    "both axes": lambda x, p: x @ x.mT + p[: x.shape[1], : x.shape[1]],
    "a product": lambda x, p: x.mT @ p[: x.shape[1]],
    "a row": lambda x, p: x[:, :, 0] @ p[: x.shape[1], 0],
    "from the left": lambda x, p: p[:, : x.shape[1]] @ x,
    "a view": lambda x, p: x + p[1:][: x.shape[1]],
    "twice": lambda x, p: (x + p[: x.shape[1]]) * p[: x.shape[1]],
}


@pytest.mark.parametrize("name", MET)
def test_a_slice_by_an_open_size_meets_that_size(name: str):
    f = dlvm.function(MET[name], dynamic={"x": "B,T,8"})
    for steps in (0, 1, 5, 7):
        x = RNG.normal(size=(2, steps, 8))
        np.testing.assert_allclose(f(x, TABLE), MET[name](x, TABLE), rtol=1e-12, atol=1e-13)
    assert len(f.explain().compiles) == 1
    with pytest.raises(AssertionFailed, match=r"expected T to be at most [78]") as error:
        f(RNG.normal(size=(2, 9, 8)), TABLE)
    assert "test_slices_by_sizes.py" in str(error.value) and "lambda x, p" in str(error.value)


def test_the_size_may_be_that_of_the_axis():
    f = dlvm.function(MET["added"], dynamic={"x": "B,T,8"})
    x = RNG.normal(size=(2, 8, 8))
    np.testing.assert_array_equal(f(x, TABLE), x + TABLE)


def test_gradients_and_batches_reach_the_part_that_is_used():
    def loss(p: Any, x: Any) -> Any:
        return (MET["added"](x, p) ** 2).sum()

    x = RNG.normal(size=(2, 5, 8))
    slope = dlvm.function(dlvm.grad(loss), dynamic={"x": "B,T,8"})(TABLE, x)
    np.testing.assert_allclose(slope[:5], 2 * (x + TABLE[:5]).sum(0), rtol=1e-12)
    assert not slope[5:].any()
    tables = np.stack([TABLE, 2 * TABLE])
    each = dlvm.function(dlvm.vmap(loss, in_axes=(0, None)), dynamic={"x": "B,T,8"})
    expected = [((x + t[:5]) ** 2).sum() for t in tables]
    np.testing.assert_allclose(each(tables, x), expected, rtol=1e-12)


def test_slices_that_meet_nothing_clip_as_numpy_does():
    f = dlvm.function(lambda x, p: p[: x.shape[0]] * p[:8], dynamic={"x": "N", "p": "M"})
    g = dlvm.function(lambda x, p: p[: x.shape[0]], dynamic={"x": "N"})
    for n in (3, 12):
        np.testing.assert_array_equal(g(np.ones(n), TABLE), TABLE[:n])
    with pytest.raises(dlvm.ShapeError, match="don't broadcast"):
        f(np.ones(3), TABLE[0])


def test_other_sizes_do_not_meet():
    f = dlvm.function(lambda x, p: x + p[: x.shape[0] + 1], dynamic={"x": "N"})
    with pytest.raises(dlvm.ShapeError, match="don't broadcast"):
        f(np.ones(3), TABLE[0])
