"""What is too large for memory or too deep for the stack is an error that says so, or works."""

from __future__ import annotations

import contextlib
import resource
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError

X = np.ones(3, np.float32)
HUGE = (10**6, 10**7)


@pytest.fixture
def little_memory():
    """Memory of a GiB more than there is now, so that the machine does not matter."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def no_memory(call: Any) -> str:
    with pytest.raises(UserError, match="no memory is left") as caught:
        call()
    assert isinstance(caught.value, MemoryError) and "dlvm.scan" in str(caught.value)
    return str(caught.value)


@pytest.mark.usefixtures("little_memory")
def test_a_call_without_memory_says_how_many_bytes_it_takes_for_what():
    long = np.ones(200_000)
    assert "72.8 TiB" in no_memory(lambda: dlvm.zeros(HUGE))
    of_outer = "320,000,000,000 bytes for f64[200000,200000]"
    assert of_outer in no_memory(lambda: dlvm.outer(long, long))
    outer = dlvm.function(lambda x, y: dlvm.outer(x, y))
    result = "320,000,000,000 bytes for the result f64[200000,200000]"
    assert result in no_memory(lambda: outer(long, long))
    opened = dlvm.function(lambda x, y: dlvm.outer(x, y), dynamic=True)
    assert opened(np.ones(2), np.ones(2)).shape == (2, 2)
    assert result in no_memory(lambda: opened(long, long))
    scratch = dlvm.function(lambda x, y: dlvm.sort(dlvm.outer(x, y)).sum())
    assert "bytes for values in between" in no_memory(lambda: scratch(long, long))


def nest(depth: int) -> Any:
    found: Any = X
    for _ in range(depth):
        found = [found]
    return found


def ring() -> Any:
    found: list[Any] = [X]
    found.append(found)
    return found


def calls_with(tree: Any) -> list[Any]:
    """Calls to which the tree is an argument, a result, captured, or an operand."""
    return [
        lambda: dlvm.function(lambda t: X + 1)(tree),
        lambda: dlvm.function(lambda t: X + 1).trace(tree),
        lambda: dlvm.function(lambda x: tree)(X),
        lambda: dlvm.function(lambda x: dlvm.tree.map(lambda leaf: leaf + x, tree))(X),
        lambda: dlvm.grad(lambda t: dlvm.sum(X))(tree),
        lambda: dlvm.asarray(tree),
        lambda: dlvm.add(tree, 1),
    ]


def refused(call: Any) -> None:
    with pytest.raises(UserError, match=r"nested within [\d,]+ frames of Python") as caught:
        call()
    assert isinstance(caught.value, RecursionError)
    assert "must not hold itself" in str(caught.value)
    assert "test_limits.py" in str(caught.value)


@pytest.mark.parametrize("make", [ring, lambda: nest(5000)])
def test_a_tree_that_is_too_deep_or_holds_itself_is_refused(make: Any):
    for call in calls_with(make()):
        refused(call)


@pytest.mark.filterwarnings("ignore::dlvm.base.errors.TraceWarning")
def test_a_tree_a_thousand_deep_works_or_is_refused():
    for call in calls_with(nest(1000)):
        with contextlib.suppress(UserError):
            call()


def test_a_list_that_holds_itself_may_be_captured_where_only_a_part_is_used():
    tree = ring()
    np.testing.assert_array_equal(dlvm.function(lambda x: x + tree[0])(X), X + X)


def conditions(depth: int) -> Any:
    def inside(x: Any) -> Any:
        return dlvm.cond(x.sum() > depth, conditions(depth - 1), lambda y: y * 2, x)

    return inside if depth else lambda x: x


def test_conditions_nest_to_a_limit_that_the_error_names():
    np.testing.assert_array_equal(dlvm.function(conditions(99))(X), X * 2)
    with pytest.raises(UserError, match="nests more than 100 deep"):
        dlvm.function(conditions(300))(X)


@pytest.mark.filterwarnings("ignore::dlvm.base.errors.TraceWarning")
def test_a_chain_of_twenty_thousand_additions_is_no_recursion():
    def chain(x: Any) -> Any:
        for _ in range(20_000):
            x = x + 1
        return x

    module = dlvm.function(chain).trace(X)
    assert module.operations() >= 20_000
    np.testing.assert_array_equal(module.run("chain", X)[0], X + 20_000)
