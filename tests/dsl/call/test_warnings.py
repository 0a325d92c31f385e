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


def _caught(x):
    try:
        return x * 2 if x[0] > 0 else x
    except Exception:
        return x


def _caught_too(x):
    try:
        y = dlvm.reshape(x, (7,))
    except ValueError:
        y = x
    return y


def _raised(x):
    return float(x[0])


def _around(x):
    try:
        return _raised(x)
    finally:
        pass


@pytest.mark.parametrize(("f", "said"), [(_caught, "dlvm.where"), (_caught_too, "7")])
def test_a_refusal_that_the_user_catches_is_told_once(f: Any, said: str) -> None:
    staged = dlvm.function(f)
    with pytest.warns(dlvm.TraceWarning, match=f"catches a refusal.*{said}") as told:
        assert np.array_equal(staged(np.ones(3)), np.ones(3))
    assert told[0].filename == __file__ and len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        staged(np.ones(4))


def test_a_refusal_that_ends_the_trace_is_an_error_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (_raised, _around):
            with pytest.raises(dlvm.TraceError, match="can't become float"):
                dlvm.function(f)(np.ones(3))


def _array(x):
    return x * 2 if isinstance(x, np.ndarray) else x


def _number(x):
    return x * 2 if type(x) is float else x


def _matched(x):
    match x:
        case float() | int():
            return x * 2
        case _:
            return x


def _several(x):
    return x * 2 if isinstance(x, (np.ndarray, float)) else x


def _changed(x):
    x = x + 1
    return x * 2 if isinstance(x, float) else x


@pytest.mark.parametrize(
    ("f", "x", "remedy"),
    [
        (_array, np.ones(3), r"no np\.ndarray.*hasattr\(x"),
        (_several, np.ones(3), r"no \(np\.ndarray, float\)"),
        (_number, 3.0, r"no float.*static=\(.x.,\)"),
        (_matched, 3.0, "no float"),
        (_matched, 3, "no int"),
        (lambda x: x * 2 if isinstance(x, np.floating) else x, np.float32(3), "no np.floating"),
    ],
)
def test_a_question_for_the_type_of_a_staged_value_is_told_once(
    f: Any, x: Any, remedy: str
) -> None:
    staged = dlvm.function(f)
    with pytest.warns(dlvm.TraceWarning, match=remedy) as told:
        assert np.array_equal(staged(x), x)
    assert told[0].filename == __file__ and len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        staged(x)
        staged(np.ones(7))


def test_remedies_of_questions_for_types_work() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = dlvm.function(lambda x: x * 2 if hasattr(x, "shape") else x)
        assert np.array_equal(f(np.ones(3)), 2 * np.ones(3))
        assert dlvm.function(_number, static=("x",))(3.0) == 6.0
        dlvm.function(_changed)(3.0)
        dlvm.function(lambda x: x if isinstance(x, list) else x * 2)(np.ones(3))
        dlvm.function(lambda x: x if isinstance(x, int) else x * 2)(np.ones(3))


def test_a_state_that_came_back_wider_is_told_once() -> None:
    @dlvm.function
    def step(params: Any, n: Any) -> Any:
        return {"w": params["w"] * n}, n + 1

    state = {"w": np.ones(3, np.float32)}, np.array(1.0)
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
