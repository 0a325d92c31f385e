"""Open sizes as users see them: numbers whose value is only known in the call."""

from __future__ import annotations

import math
import operator
import queue
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import StagedTypeError, TraceError

COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def opened(f: Callable[..., Any], dynamic: Any = True) -> Any:
    return dlvm.function(dynamic=dynamic)(f)


def chosen(condition: Any, x: Any) -> Any:
    return dlvm.where(condition, x, -x)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_what_a_size_is_compared_with_decides_in_the_call(compare: Any):
    f = opened(lambda x: (chosen(compare(x.shape[0], 3), x), chosen(compare(3, x.shape[0]), x)))
    for n in range(6):
        straight, reflected = f(np.ones(n))
        np.testing.assert_array_equal(straight, np.where(compare(n, 3), 1.0, -1.0) * np.ones(n))
        np.testing.assert_array_equal(reflected, np.where(compare(3, n), 1.0, -1.0) * np.ones(n))


@pytest.mark.parametrize("compare", COMPARISONS)
def test_two_sizes_are_compared_as_numbers(compare: Any):
    f = opened(lambda x, y: dlvm.where(compare(x.shape[0] + 1, y.size), 1, 0), {"x": "N", "y": "M"})
    for n, m in ((2, 3), (3, 3), (5, 3), (0, 0)):
        assert f(np.ones(n), np.ones(m)) == compare(n + 1, m)


def test_what_sizes_make_is_compared_as_numbers():
    f = opened(lambda x: (chosen(x.shape[0] % 2 == 0, x), chosen(x.size != 0, x)))
    g = opened(lambda x: dlvm.cond(x.shape[0] // 2 == 1, lambda v: v, lambda v: -v, x))
    for n in range(1, 5):
        even, some = f(np.ones(n))
        assert (even[0], some[0]) == (1 if n % 2 == 0 else -1, 1)
        assert g(np.ones(n))[0] == (1 if n // 2 == 1 else -1)


def test_what_holds_for_every_size_is_known_while_tracing():
    def f(x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        found = [
            *(n == n, n + 1 != n, n >= 0, n + 1 > 0, n + m >= n, x.shape == x.shape, bool(n + 1)),
            *(n != -1, n % 3 != 3, n != "N"),
            *(same is False for same in (n == -1, n + 1 == n, n % 3 == 3, n < 0, n == "N")),
        ]
        assert found == [True] * len(found)
        return x

    opened(f, {"x": "N", "y": "M"})(np.ones(2), np.ones(3))


@pytest.mark.parametrize(
    "ask",
    [
        lambda n, x: x if n == 1 else -x,
        lambda n, x: x if n in (1, 3) else -x,
        lambda n, x: x if x.shape == (1,) else -x,
        lambda n, x: x if x.shape != (1, 2)[:1] else -x,
        lambda n, x: x * (n or 1),
        lambda n, x: x * min(n, 3),
        lambda n, x: x * {3: 10.0}.get(n, 0.0),
        lambda n, x: x * len({n, 3}),
        lambda n, x: x * dlvm.asarray([n, 3]),
        lambda n, x: x * float(f"{n:d}"),
    ],
)
def test_python_can_not_decide_what_only_the_call_knows(ask: Any):
    with pytest.raises((TraceError, StagedTypeError)):
        opened(lambda x: ask(x.shape[0], x))(np.ones(1))


def test_a_size_is_compared_while_its_function_is_traced_only():
    kept: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @dlvm.function(dynamic=True)
    def f(x: Any) -> Any:
        kept.put(x.shape[0])
        return x

    f(np.ones(3))
    size = kept.get()
    assert size == size and size != -1
    with pytest.raises(TraceError, match="no function is being traced"):
        _ = size == 3


def test_sizes_serve_wherever_numbers_and_shapes_do():
    def f(x: Any) -> Any:
        n = x.shape[0]
        made = dlvm.zeros((n, 2)), dlvm.ones(n**2), dlvm.arange(n), x.reshape(np.prod(x.shape))
        parts = x[: n // 2], x[n:], dlvm.broadcast_to(x, (2, *x.shape)), dlvm.repeat(x, n)
        loops = (
            dlvm.fori_loop(0, n, lambda i, c: c + x[i], 0.0),
            dlvm.scan(lambda c, _: (c + 1, None), 0, length=n)[0],
        )
        numbers = n, n * np.arange(2), np.float32(2) * n, divmod(n, 2), -n, abs(n), np.sqrt(n)
        numbers = *numbers, round(n), math.floor(n), dlvm.switch(n, [lambda: 0, lambda: 1])
        return made, parts, loops, numbers, np.int64(2) + n, np.int64(3) * n, n - np.int8(1)

    def right(x: Any) -> Any:
        n = len(x)
        made = np.zeros((n, 2)), np.ones(n**2), np.arange(n), x
        parts = x[: n // 2], x[n:], np.broadcast_to(x, (2, n)), np.repeat(x, n)
        numbers = n, n * np.arange(2), np.float32(2) * n, divmod(n, 2), -n, abs(n), np.sqrt(n)
        numbers = *numbers, n, n, min(n, 1)
        return made, parts, (sum(x), n), numbers, n + 2, 3 * n, n - 1

    for n in (1, 2, 5):
        x = np.arange(float(n))
        pairs = zip(*map(dlvm.tree.leaves, (opened(f)(x), right(x))), strict=True)
        for found, expected in pairs:
            np.testing.assert_array_equal(found, expected)


def test_a_static_argument_may_be_made_of_sizes():
    @dlvm.function(static="shape")
    def flat(x: Any, shape: Any) -> Any:
        return chosen(shape[0] == 2, x.reshape(shape))

    f = opened(lambda x: flat(x, (x.shape[0] * x.shape[1],)), {"x": "N,M"})
    np.testing.assert_array_equal(f(np.ones((1, 2))), np.ones(2))
    np.testing.assert_array_equal(f(np.ones((3, 2))), -np.ones(6))


def test_arrays_of_sizes_that_may_differ_are_not_called_unequal():
    f = opened(lambda x, y: dlvm.array_equal(x, y), {"x": "N", "y": "M"})
    with pytest.raises(TraceError, match="no truth value"):
        f(np.ones(3), np.ones(3))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "scale",
    [
        lambda n: n**0.5,
        lambda n: 1 / n,
        lambda n: n**-0.5,
        lambda n: 2**n,
        lambda n: 2.0**n,
        lambda n: (n / 2) ** 1.5,
        lambda n: n**-2,
        lambda n: abs(n - 5),
        lambda n: np.sqrt(n),
    ],
)
def test_what_python_makes_of_a_size_widens_no_array(dtype: Any, scale: Any):
    x = np.arange(1, 4).astype(dtype)
    found = opened(lambda x: x * scale(x.shape[0]))(x)
    right = x * scale(3)
    assert found.dtype == right.dtype
    np.testing.assert_allclose(found, right, rtol=1e-3 if dtype is np.float16 else 1e-6)


def test_a_power_of_two_python_numbers_is_one():
    found = dlvm.function(lambda x, a, b: x * a**b)(np.ones(2, np.float32), 2.0, 0.5)
    assert found.dtype == np.float32
