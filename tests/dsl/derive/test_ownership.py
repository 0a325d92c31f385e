"""After a transformation nothing is shared: writing over an array changes nothing else.

Every array that went in or came out of a transformation is written over in turn; all others, and
what the maps that came out give, stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

W = np.array([2.0, 3.0, 4.0])


def power(x: Any) -> Any:
    """A function that calls itself: its pullback runs it again."""

    def go(x: Any, n: Any) -> Any:
        return dlvm.cond(n <= 0, lambda: x * W, lambda: go(x * x, n - 1))

    return go(x, np.int64(2))


def repeated(x: Any) -> Any:
    """A loop of unknown length, whose trips stand on a tape."""
    run = dlvm.while_loop(lambda c: (c[0] < 50).all(), lambda c: (c[0] * 2, c[1] * W), (x, x))
    return run[1]


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "identity": lambda x: x,
    "views": lambda x: x.reshape(1, 3)[0],
    "captured": lambda x: x * W,
    "loop": lambda x: dlvm.scan(lambda c, a: (c + a * W, None), x, x)[0],
    "branch": lambda x: dlvm.cond(x[0] > 0, lambda: x * W, lambda: x),
    "while": repeated,
    "recursion": power,
    "checkpoint": dlvm.checkpoint(lambda x: x * x * W),
}


def _vjp(f: Any, x: Any) -> tuple[Any, Any]:
    y, pull = dlvm.vjp(f, x)
    return y, lambda: pull(np.ones(3))


def _vjp_twice(f: Any, x: Any) -> tuple[Any, Any]:
    y, pull, aux = dlvm.vjp(lambda x: (f(x), x * 1), x, has_aux=True)
    return (y, aux), lambda: pull(np.ones(3))


def _linearize(f: Any, x: Any) -> tuple[Any, Any]:
    y, push = dlvm.linearize(f, x)
    return y, lambda: push(np.ones(3))


def _plain(make: Callable[[Any], Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    return lambda f, x: (make(f)(x), lambda: ())


TRANSFORMED: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "function": _plain(dlvm.function),
    "grad": _plain(lambda f: dlvm.grad(lambda x: f(x).sum())),
    "value_and_grad": _plain(
        lambda f: dlvm.value_and_grad(lambda x: (f(x).sum(), x), has_aux=True)
    ),
    "vmap": _plain(lambda f: lambda x: dlvm.vmap(f)(np.stack([x, x]))),
    "jacobian": _plain(lambda f: dlvm.jacobian(lambda x: (f(x), x), has_aux=True)),
    "hessian": _plain(lambda f: dlvm.hessian(lambda x: f(x).sum())),
    "jvp": lambda f, x: (dlvm.jvp(f, (x,), (np.ones(3),)), lambda: ()),
    "checkpoint": _plain(dlvm.checkpoint),
    "vjp": _vjp,
    "vjp with aux": _vjp_twice,
    "linearize": _linearize,
}


def leaves(tree: Any) -> list[Any]:
    """The arrays of a tree."""
    return dlvm.tree.leaves(tree) if not isinstance(tree, np.ndarray) else [tree]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", TRANSFORMED)
def test_writing_over_one_array_changes_no_other(name: str, kind: str):
    f, saved = FUNCTIONS[name], W.copy()
    x = np.array([1.1, 1.2, 1.3])
    out, later = TRANSFORMED[kind](f, x)
    try:
        arrays = [x, W, *leaves(out), *leaves(later())]
        known = [np.array(a) for a in leaves(later())]
        for i, array in enumerate(arrays):
            before = [np.array(a) for a in arrays]
            array[...] = -7.0
            for j, (now, then) in enumerate(zip(arrays, before, strict=True)):
                assert i == j or np.array_equal(now, then), (i, j)
            again = leaves(later())
            assert all(np.array_equal(a, b) for a, b in zip(again, known, strict=True)), i
    finally:
        W[...] = saved


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", ["vjp", "linearize"])
def test_a_map_outlives_donated_arguments(name: str, kind: str):
    """What was donated later belongs to another result; the map has its own."""
    step = dlvm.function(lambda x: x * 100, donate=("x",))
    x = np.array([1.1, 1.2, 1.3])
    _, later = TRANSFORMED[kind](FUNCTIONS[name], x)
    before = [np.array(a) for a in leaves(later())]
    at = x.ctypes.data
    x = step(x)
    assert x.ctypes.data == at
    assert all(np.array_equal(a, b) for a, b in zip(leaves(later()), before, strict=True))


@pytest.mark.parametrize("name", ["captured", "loop", "recursion"])
def test_a_captured_array_that_is_donated_is_copied(name: str):
    """What is captured keeps its numbers."""
    f = dlvm.function(lambda w: FUNCTIONS[name](w), donate=("w",))
    before, wanted = W.copy(), dlvm.function(FUNCTIONS[name])(W)
    assert np.array_equal(f(W), wanted)
    assert np.array_equal(W, before)
