"""``associative_scan``: the same as a loop from the first element to the last."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import UserError

SIZES = (0, 1, 2, 3, 5, 8, 13, 16, 31, 97)


def looped(fn, xs, reverse=False):
    """The results along the leading axis, one after the other."""
    rows = list(xs[::-1] if reverse else xs)
    out = rows[:1]
    for x in rows[1:]:
        out.append(fn(out[-1], x))
    return np.array(out[::-1] if reverse else out).reshape(xs.shape)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_integers_are_joined_exactly(n, reverse):
    """Products of 2x2 matrices of integers, which do not commute."""
    xs = np.random.default_rng(n).integers(-1, 2, (n, 2, 2))
    expected = (
        looped(np.matmul, xs, reverse) if not reverse else looped(lambda a, b: a @ b, xs, reverse)
    )

    def run(x):
        return dlvm.associative_scan(dlvm.matmul, x, reverse)

    np.testing.assert_array_equal(run(xs), expected)
    np.testing.assert_array_equal(dlvm.function(run)(xs), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("n", [0, 1, 6, 7])
def test_the_axis_may_be_any(n, axis):
    shape = [2, 3, 4]
    shape[axis] = n
    x = np.random.default_rng(0).normal(size=shape)
    found = dlvm.function(lambda x: dlvm.associative_scan(dlvm.maximum, x, axis=axis))(x)
    np.testing.assert_array_equal(found, np.maximum.accumulate(x, axis))


def join(a, b):
    """Two steps of ``y = p * y + q`` as one."""
    return a[0] * b[0], a[1] * b[0] + b[1]


def test_a_tree_of_elements_is_scanned_together():
    rng = np.random.default_rng(0)
    p, q = rng.normal(size=(2, 21))
    found = dlvm.function(lambda p, q: dlvm.associative_scan(join, (p, q))[1])(p, q)
    np.testing.assert_allclose(found, dlvm.linear_recurrence(p, q), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_it_has_derivatives_of_any_order_and_batches(n):
    p, q = np.random.default_rng(1).normal(size=(2, n))

    def loss(p, q):
        return (dlvm.associative_scan(join, (p, q))[1] ** 2).sum()

    def other(p, q):
        return (dlvm.linear_recurrence(p, q) ** 2).sum()

    for wrt in (0, 1):
        found, expected = (dlvm.grad(f, wrt=wrt)(p, q) for f in (loss, other))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    dlvm.testing.gradcheck(loss, p, q)
    rows = dlvm.vmap(lambda x: dlvm.associative_scan(dlvm.add, x))(np.stack([p, q]))
    np.testing.assert_allclose(rows, np.cumsum([p, q], 1), rtol=1e-12)


def test_the_function_is_called_a_logarithm_of_times():
    calls = []

    def counted(a, b):
        calls.append(a.shape[0])
        return a + b

    dlvm.associative_scan(counted, np.arange(1024))
    assert len(calls) == 19 and sum(calls) < 2 * 1024


def test_sizes_that_are_not_the_scan_s_may_be_open():
    @dlvm.function(dynamic={"x": "4,B"})
    def run(x):
        return dlvm.associative_scan(dlvm.add, x)

    np.testing.assert_array_equal(run(np.ones((4, 3))), np.cumsum(np.ones((4, 3)), 0))


@pytest.mark.parametrize(
    "fn, elems, said",
    [
        (dlvm.add, 3.0, r"elems has the shape \(\), and no axis 0"),
        (lambda a, b: (a, b), np.ones(3), "expected an array, found a tuple"),
        (lambda a, b: a > b, np.ones(3), "returns bool for elems, which is f64"),
        (lambda a, b: a.sum(), np.ones(4), r"returns the shape \(\) for elems"),
        (lambda a: a, np.ones(3), r"called with \(a, b\)"),
        (dlvm.add, (np.ones(3), np.ones(2)), r"elems\[0\] has 3 elements, elems\[1\] has 2"),
        (3, np.ones(3), "associative_scan"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(fn, elems, said):
    for run in (dlvm.associative_scan, dlvm.function(lambda x: dlvm.associative_scan(fn, x))):
        with pytest.raises(UserError, match=said):
            run(fn, elems) if run is dlvm.associative_scan else run(elems)


def test_an_open_size_is_refused():
    f = dlvm.function(lambda x: dlvm.associative_scan(dlvm.add, x), dynamic=True)
    with pytest.raises(UserError, match="elements, which is not known while tracing"):
        f(np.ones(3))
