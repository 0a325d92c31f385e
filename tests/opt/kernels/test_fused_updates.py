"""Updates of one array that become one kernel, and those that must not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from dlvm.ir import Module, Value, splat
from dlvm.ops import Broadcast, Exp, Kernel, Permute, Slice, Sum, Update, updates_in_order
from dlvm.opt import DEFAULT
from dlvm.passes import run
from tests.opt.answers import kernels
from tests.opt.building import function

Body = Callable[[Value, Value], Value | tuple[Value, ...]]


def window(x: Value, start: int) -> Value:
    """Two of the columns of all rows."""
    return Slice(x, (0, start), (x.shape[0], 2), (1, 1))


def added(x: Value, y: Value, start: int) -> Value:
    """Two columns of x with y added to them."""
    return Update(x, window(x, start) + y, (0, start), (1, 1))


def chain(x: Value, y: Value) -> Value:
    """Windows of zeros that overlap, to each of which something is added."""
    out = splat(0.0, x.type)
    for start in range(4):
        out = added(out, window(y, start), start)
    return out


def of_a_parameter(x: Value, y: Value) -> Value:
    """The first window replaces a part of a parameter."""
    return added(added(x, window(y, 1), 0), window(y, 0), 1)


def read_between(x: Value, y: Value) -> tuple[Value, ...]:
    """Somebody wants what lies between."""
    first = added(x, window(y, 1), 0)
    return added(first, window(y, 0), 1), Sum(first, (0,))


def given_back(x: Value, y: Value) -> tuple[Value, ...]:
    """The caller wants what lies between."""
    first = added(x, window(y, 1), 0)
    return first, added(first, window(y, 0), 1)


def of_what_it_was(x: Value, y: Value) -> Value:
    """The second window is computed from what was there before the first."""
    first = added(x, window(y, 1), 0)
    return Update(first, window(x, 0) + window(first, 1), (0, 1), (1, 1))


def of_another_window(x: Value, y: Value) -> Value:
    """The second window is computed from the first."""
    first = added(x, window(y, 1), 0)
    return Update(first, window(first, 0) + window(y, 2), (0, 1), (1, 1))


def of_other_rows(x: Value, y: Value) -> Value:
    """The second window is computed from itself on its side."""
    first = added(x, window(y, 1), 0)
    corner = Slice(first, (0, 1), (2, 2), (1, 1))
    return Update(first, Permute(corner, (1, 0)), (0, 1), (1, 1))


def of_large_values(x: Value, y: Value) -> Value:
    """What the second window takes is made for it alone, and would be kept beside the first's."""
    first = added(x, Sum(spread(y, 0), (1,)), 0)
    return added(first, Sum(spread(y, 1), (1,)), 1)


def spread(y: Value, start: int) -> Value:
    """The exponentials of two columns of y less each of y."""
    shape = (5, 6, 2)
    return Exp(Broadcast(window(y, start), shape, (0, 2)) - Broadcast(y, shape, (0, 1)))


ONE = (chain, of_a_parameter)
MORE = (
    read_between,
    given_back,
    of_what_it_was,
    of_another_window,
    of_other_rows,
    of_large_values,
)


def written(body: Body) -> tuple[Module, list[int]]:
    """A program of kernels, and how many updates run in each of its kernels that hold some."""
    module = run(function(body, "f32[5,6]", "f32[5,6]"), DEFAULT, verify=True)
    return module, [n for k in kernels(module.main) if (n := _updates(k))]


def _updates(kernel: Kernel) -> int:
    return sum(isinstance(op, Update) for op in kernel.body.ops)


@pytest.mark.parametrize("body", ONE, ids=lambda f: f.__name__)
def test_a_chain_of_updates_is_one_kernel(body: Body):
    module, found = written(body)
    (count,) = found
    assert count > 1
    (kernel,) = (k for k in kernels(module.main) if _updates(k))
    last = kernel.body.results[0]
    assert isinstance(last, Update) and len(updates_in_order(last)) == count


@pytest.mark.parametrize("body", MORE, ids=lambda f: f.__name__)
def test_an_update_that_depends_on_more_than_its_window_is_a_kernel_of_its_own(body: Body):
    assert written(body)[1] == [1, 1]


@pytest.mark.parametrize("body", ONE + MORE, ids=lambda f: f.__name__)
def test_chains_give_what_the_updates_say(body: Body):
    before = function(body, "f32[5,6]", "f32[5,6]")
    x, y = np.random.default_rng(0).integers(-4, 5, (2, 5, 6)).astype(np.float32)
    found = written(body)[0].run("main", x, y)
    for a, b in zip(found, before.run("main", x, y), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_kernel_holds_no_more_than_two_hundred_operations_of_a_chain():
    def body(x: Value, y: Value) -> Value:
        out = x
        for i in range(150):
            out = added(out, window(y, i % 3), i % 4)
        return out

    found = written(body)[1]
    assert sum(found) == 150 and len(found) == 2
    assert all(2 * a <= 200 for a in found) and all(a >= b for a, b in pairwise(found))
