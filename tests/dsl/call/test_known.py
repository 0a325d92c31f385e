"""What Python knows stays Python's through transformations: sizes, switches, words."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

X = np.arange(1.0, 5.0)


def power(x, n=3, mode="sum", shifted=False):
    y = x
    for _ in range(n):
        y = y * x
    if shifted:
        y = y + 1.0
    return y.sum() if mode == "sum" else y.mean()


def cosine(x, n):
    return dlvm.scan(lambda c, _: (c * dlvm.cos(x), None), 1.0, length=n)[0]


SLOPE = -3 * np.cos(0.3) ** 2 * np.sin(0.3)


@pytest.mark.parametrize(
    "slope",
    [
        dlvm.function(dlvm.grad(cosine), static=("n",)),
        dlvm.function(lambda x, n: dlvm.grad(cosine)(x, n), static="n"),
        dlvm.grad(dlvm.function(cosine, static="n")),
        dlvm.function(lambda x, n: dlvm.grad(cosine)(x, 3)),
        dlvm.function(lambda x, n: dlvm.jacobian(dlvm.checkpoint(cosine))(x, 3)),
    ],
)
def test_sizes_go_through(slope):
    np.testing.assert_allclose(slope(0.3, 3), SLOPE, rtol=1e-12)


def test_switches_and_words_go_through():
    second = dlvm.function(lambda x: dlvm.hessian(power)(x, 2, "sum", True))
    np.testing.assert_allclose(second(X), np.diag(6 * X))
    mean = dlvm.function(lambda x: dlvm.grad(power)(x, 2, mode="mean", shifted=True))
    np.testing.assert_allclose(mean(X), 3 * X**2 / 4)
    many = dlvm.function(lambda x: dlvm.vmap(dlvm.grad(power), in_axes=(0, None))(x, 2))
    np.testing.assert_allclose(many(np.ones((2, 3))), np.full((2, 3), 3.0))


def test_what_is_differentiated_by_is_no_python_number():
    both = dlvm.function(lambda: dlvm.grad(lambda x, y: x * y, wrt=(0, 1))(2.0, 5.0))
    assert [float(g) for g in both()] == [5.0, 2.0]


def test_a_batch_of_a_static_argument():
    batched = dlvm.vmap(dlvm.function(cosine, static="n"), in_axes=(0, None))
    x = np.array([0.3, 0.4])
    np.testing.assert_allclose(batched(x, 3), np.cos(x) ** 3)
    with pytest.raises(UserError, match=r"in_axes has 0 for n, which is static") as caught:
        dlvm.vmap(dlvm.function(cosine, static="n"), in_axes=(0, 0))(x, 3)
    assert "None" in str(caught.value)


def test_a_staged_function_says_itself_what_is_static():
    """So many calls with other numbers are calls of one function."""

    @dlvm.function
    def scaled(x, n):
        return (x * n).sum()

    @dlvm.function
    def steps(x):
        return sum(dlvm.grad(scaled)(x, n) for n in range(5))

    np.testing.assert_array_equal(steps(X), np.full(4, 10.0))
    names = [fn.name for fn in steps.trace(X).functions if fn.name.startswith("scaled")]
    assert len(names) == 1
