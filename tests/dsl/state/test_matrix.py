"""Captured state through every transformation: what a call gives is what Python would give now.

Every transformation × every way to hold state × mutated and rebound × in and out of a trace ×
small and large arrays. The oracle is a closed form in NumPy, for the state as it is at the call.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

N = 5
X = np.linspace(0.5, 1.5, N)
V = np.linspace(-1.0, 2.0, N)


class State:
    """One number or array, held in some way: ``get`` is what a traced function calls."""

    def __init__(self, how: str, value: Any) -> None:
        self.how = how
        self.cell = value
        self.space = types.SimpleNamespace(held=types.SimpleNamespace(w=value))
        self.table = {"w": value, "other": 3.0}
        self.rows = [0.0, value]

    def getter(self) -> Callable[[], Any]:
        """A function that reads the state by a path of its own."""
        cell, space, table, rows = self.cell, self.space, self.table, self.rows

        def rebind(new: Any) -> None:
            nonlocal cell
            cell = new

        self._rebind = rebind
        return {
            "variable": lambda: cell,
            "attribute": lambda: space.held.w,
            "entry": lambda: table["w"],
            "element": lambda: rows[1],
        }[self.how]

    def rebind(self, new: Any) -> None:
        """Another object stands there."""
        self._rebind(new)
        self.space.held.w = self.table["w"] = self.rows[1] = new


def scale(w: Any) -> Any:
    """What the functions below make of the state: it goes into the trace as it is."""
    return w


def in_numpy(w: Any) -> Any:
    """What NumPy or Python computes of the state while tracing."""
    return w * 2


Case = tuple[Callable[[Callable[[], Any], Callable[[Any], Any]], Callable[..., Any]], Any]


def _loss(get: Any, use: Any) -> Any:
    return lambda x: (use(get()) * x * x).sum()


def _each(get: Any, use: Any) -> Any:
    return lambda x: use(get()) * x * x


def _custom_vjp(get: Any, use: Any) -> Any:
    f = dlvm.custom_vjp(lambda x: (use(get()) * x * x).sum())
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * 2 * use(get()) * x,))
    return dlvm.grad(f)


def _custom_jvp(get: Any, use: Any) -> Any:
    f = dlvm.custom_jvp(lambda x: (use(get()) * x * x).sum())
    f.defjvp(lambda xs, ds: (f(*xs), (xs[0] * ds[0] * 2 * use(get())).sum()))
    return dlvm.grad(f)


def _vmapped(get: Any, use: Any) -> Any:
    return dlvm.vmap(lambda a: (use(get()) * a * a).sum(), in_axes=0)


TRANSFORMED: dict[str, tuple[Any, Any]] = {
    "function": (_each, lambda w: w * X * X),
    "grad": (lambda g, u: dlvm.grad(_loss(g, u)), lambda w: 2 * w * X),
    "value_and_grad": (
        lambda g, u: (lambda f: lambda x: f(x)[1])(dlvm.value_and_grad(_loss(g, u))),
        lambda w: 2 * w * X,
    ),
    "vjp": (
        lambda g, u: (lambda f: lambda x: dlvm.vjp(f, x)[1](V)[0])(_each(g, u)),
        lambda w: 2 * w * X * V,
    ),
    "jvp": (
        lambda g, u: (lambda f: lambda x: dlvm.jvp(f, (x,), (V,))[1])(_each(g, u)),
        lambda w: 2 * w * X * V,
    ),
    "linearize": (
        lambda g, u: (lambda f: lambda x: dlvm.linearize(f, x)[1](V))(_each(g, u)),
        lambda w: 2 * w * X * V,
    ),
    "vmap": (
        lambda g, u: (lambda f: lambda x: f(x[None] * np.ones((2, 1)))[1])(_vmapped(g, u)),
        lambda w: (w * X * X).sum(),
    ),
    "jacobian": (
        lambda g, u: (lambda f: lambda x: f(x) @ V)(dlvm.jacobian(_each(g, u))),
        lambda w: 2 * w * X * V,
    ),
    "hessian": (
        lambda g, u: (lambda f: lambda x: f(x) @ V)(dlvm.hessian(_loss(g, u))),
        lambda w: 2 * w * V,
    ),
    "checkpoint": (
        lambda g, u: dlvm.grad(dlvm.checkpoint(_loss(g, u))),
        lambda w: 2 * w * X,
    ),
    "custom_vjp": (_custom_vjp, lambda w: 2 * w * X),
    "custom_jvp": (_custom_jvp, lambda w: 2 * w * X),
    "scan": (
        lambda g, u: lambda x: dlvm.scan(lambda c, a: (c + (a * u(g())).sum(), None), 0.0, x)[0],
        lambda w: X.sum() * np.sum(w * np.ones(N) if np.ndim(w) else w),
    ),
}
HOLDERS = ("variable", "attribute", "entry", "element")


def _staged(run: Callable[..., Any], traced: bool) -> Callable[..., Any]:
    return dlvm.function(run) if traced else run


@pytest.mark.drawn(3)
@pytest.mark.parametrize("traced", [False, True], ids=["outside", "in a trace"])
@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.parametrize("name", TRANSFORMED)
@pytest.mark.parametrize("use", [scale, in_numpy])
def test_a_captured_array(name: str, how: str, traced: bool, use: Any):
    make, expected = TRANSFORMED[name]
    state = State(how, np.arange(1.0, N + 1))
    run = _staged(make(state.getter(), use), traced)

    def agree(w: Any) -> None:
        factor = 2 if use is in_numpy else 1
        np.testing.assert_allclose(run(X), expected(w * factor), rtol=1e-12)

    w = state.cell
    agree(w)
    w *= 3
    agree(w)
    w[-1] = np.pi
    agree(w)
    state.rebind(np.full(N, 7.0))
    agree(np.full(N, 7.0))
    if traced and use is scale:  # it is an argument: nothing is compared, and nothing traced again
        assert not [g for g in run.explain().guards if "elements" in g]
        assert len(run.explain().compiles) == 1


@pytest.mark.drawn(3)
@pytest.mark.parametrize("traced", [False, True], ids=["outside", "in a trace"])
@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.parametrize("name", [n for n in TRANSFORMED if n != "scan"])
def test_a_captured_scalar(name: str, how: str, traced: bool):
    make, expected = TRANSFORMED[name]
    state = State(how, 2.0)
    run = _staged(make(state.getter(), in_numpy), traced)
    np.testing.assert_allclose(run(X), expected(4.0), rtol=1e-12)
    for value in (3.0, 2.0, 0.25):
        state.rebind(value)
        np.testing.assert_allclose(run(X), expected(2 * value), rtol=1e-12)


@pytest.mark.parametrize("traced", [False, True], ids=["outside", "in a trace"])
@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.parametrize("name", ["function", "grad", "vjp", "jvp", "linearize", "vmap"])
def test_a_large_array_is_an_argument_and_is_refused_where_numpy_computes(
    name: str, how: str, traced: bool
):
    make, expected = TRANSFORMED[name]
    state = State(how, np.ones(1 << 18))
    get = state.getter()
    first = lambda: dlvm.asarray(get())[:N]  # noqa: E731
    run = _staged(make(first, scale), traced)
    np.testing.assert_allclose(run(X), expected(np.ones(N)), rtol=1e-12)
    state.cell[:N] = 4
    np.testing.assert_allclose(run(X), expected(np.full(N, 4.0)), rtol=1e-12)
    state.rebind(np.full(1 << 18, 5.0))
    np.testing.assert_allclose(run(X), expected(np.full(N, 5.0)), rtol=1e-12)
    computed = _staged(make(lambda: (get() * 2)[:N], scale), True)
    with pytest.raises(dlvm.UserError, match=r"too large to be compared(.|\n)*dlvm\.asarray"):
        computed(X)
