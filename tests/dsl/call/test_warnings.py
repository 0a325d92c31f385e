"""What is told once, with the line and a remedy: many compiles, wider states, unrolled loops."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.dsl.trace import warned


def test_the_tenth_compile_is_told_once_with_what_differs() -> None:
    f = dlvm.function(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 10):
            f(np.ones(n))
    with pytest.warns(dlvm.TraceWarning, match=r"tenth time.*f64\[10\].*dynamic=True") as told:
        f(np.ones(10))
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(np.ones(11))


def test_the_remedy_for_static_values_says_static() -> None:
    f = dlvm.function(lambda x, n: x * n, static="n")
    with pytest.warns(dlvm.TraceWarning, match="tenth time.*not as static="):
        for n in range(10):
            f(np.ones(2), n)


def test_a_state_that_came_back_wider_is_told_once() -> None:
    @dlvm.function
    def step(params: Any, n: Any) -> Any:
        return {"w": params["w"] * n}, n + 1

    state = {"w": np.ones(3, np.float32)}, np.array(1)
    with pytest.warns(
        dlvm.TraceWarning, match=r"w.* was f32\[3\] and came back as f64\[3\]"
    ) as told:
        for _ in range(3):
            state = step(*state)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_a_wider_argument_of_its_own_is_not_told() -> None:
    f = dlvm.function(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(np.ones(3, np.float32))
        f(np.ones(3, np.float64))


def test_a_wider_argument_that_looks_like_a_result_is_not_told() -> None:
    f = dlvm.function(lambda x: (x, dlvm.astype(x, "float64")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(np.ones(3, np.float32))
        f(np.ones(3, np.float64))


def test_an_unrolled_loop_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warned, "UNROLLED", 300)

    @dlvm.function
    def f(x: Any) -> Any:
        for _ in range(200):
            x = x * 1.0001 + 0.1
        return x

    line = f.python.__code__.co_firstlineno + 3
    with pytest.warns(dlvm.TraceWarning, match=r"records \d+ operations.*dlvm\.fori_loop") as told:
        f(np.ones(2))
    assert (told[0].filename, told[0].lineno, len(told)) == (__file__, line, 1)
