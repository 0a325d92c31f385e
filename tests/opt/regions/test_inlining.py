"""Calls are replaced by their callees up to a budget, beyond which they stay calls.

A chain of functions that call the one before twice has 2^30 operations when it is written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError
from dlvm.opt.regions.inlining import LIMIT, inline_calls, keep_reachable
from dlvm.passes import run

X = np.linspace(0.1, 1.0, 3, dtype=np.float32)


def chain(length: int, looped: bool = False) -> Any:
    """A function that calls another twice, which calls another twice, and so on."""

    @dlvm.function
    def first(x: Any) -> Any:
        return dlvm.sin(x)

    found: Any = first
    for _ in range(length - 1):

        @dlvm.function
        def twice(x: Any, inner: Any = found) -> Any:
            if looped:
                return dlvm.fori_loop(0, 2, lambda k, y: inner(y), x)
            return inner(inner(x))

        found = twice
    return found


def gradient(f: Any) -> Any:
    """The gradient of the sum of a function's elements, staged."""

    def total(x: Any) -> Any:
        return f(x).sum()

    return dlvm.function(dlvm.grad(total))


def test_calls_stay_calls_beyond_the_budget_of_the_whole_module():
    module = chain(31).trace(X)
    found = run(module, (inline_calls, keep_reachable))
    found.verify()
    assert 1000 < found.operations() <= LIMIT + module.operations()
    assert run(chain(6).trace(X), (inline_calls, keep_reachable)).operations() == 2**5


def test_what_stays_a_call_computes_the_same(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dlvm.opt.regions.inlining.LIMIT", 20)
    wanted = X
    for _ in range(2**9):
        wanted = np.sin(wanted)
    np.testing.assert_allclose(chain(10)(X), wanted, rtol=1e-4)


def test_a_chain_that_doubles_compiles_for_every_transformation(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("dlvm.opt.regions.inlining.LIMIT", 100)
    f = chain(31)

    def both(x: Any, dx: Any) -> Any:
        return dlvm.jvp(f, (x,), (dx,))

    dlvm.function(dlvm.vmap(f)).compile(np.ones((2, 3), np.float32))
    dlvm.function(both).compile(X, X)


def test_a_gradient_that_would_keep_too_much_names_the_function_and_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("dlvm.ad.control.KEPT_OF_CALLS", 50)
    with pytest.raises(UserError, match=r"derivative of twice_\d+ keeps .* of calls") as caught:
        gradient(chain(31)).compile(X)
    assert "in a loop of dlvm" in str(caught.value) and "inner(inner(x))" in str(caught.value)
    gradient(chain(12, looped=True)).compile(X)


@pytest.mark.parametrize("format", ["onnx", "stablehlo"])
def test_formats_without_calls_refuse_what_the_budget_leaves(
    monkeypatch: pytest.MonkeyPatch, format: str
):
    monkeypatch.setattr("dlvm.opt.regions.inlining.LIMIT", 100)
    with pytest.raises(UserError, match=r"export: expected at most 100 operations"):
        dlvm.export(chain(31), X, format=format)
