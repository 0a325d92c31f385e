"""``dlvm.default_dtype``: what follows it and what does not; programs are kept apart by it."""

from __future__ import annotations

import contextvars
import inspect
import threading
import warnings
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import nn, random

KEY = random.key(7)
X = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
DONE = np.array([True, False, True])
COUNT = np.arange(3)
CREATED = {
    "zeros": lambda: dlvm.zeros(3),
    "ones": lambda: dlvm.ones((2, 3)),
    "empty": lambda: dlvm.empty(3),
    "full": lambda: dlvm.full(3, 0.5),
    "arange": lambda: dlvm.arange(0.0, 1.5, 0.5),
    "linspace": lambda: dlvm.linspace(0, 1, 3),
    "logspace": lambda: dlvm.logspace(0, 1, 3),
    "geomspace": lambda: dlvm.geomspace(1, 8, 3),
    "eye": lambda: dlvm.eye(3),
    "identity": lambda: dlvm.identity(3),
    "tri": lambda: dlvm.tri(3),
    "asarray": lambda: dlvm.asarray([0.5, 1.5]),
    "a number": lambda: dlvm.asarray(0.5),
    "exp": lambda: dlvm.exp(0.5),
    "mean": lambda: dlvm.mean(dlvm.arange(3)),
    "one_hot": lambda: nn.one_hot(dlvm.arange(3), 3),
    "uniform": lambda: random.uniform(KEY, (3,)),
    "normal": lambda: random.normal(KEY, (3,)),
    "exponential": lambda: random.exponential(KEY, (3,)),
    "gumbel": lambda: random.gumbel(KEY, (3,)),
}
"""Functions that make floats of no array of floats."""
LINES = {
    "a root of NumPy's": lambda x: x / np.sqrt(8),
    "a mask": lambda x: x * (0.99 * (1 - dlvm.asarray(DONE))),
    "captured counts": lambda x: x * COUNT,
    "counted": lambda x: x * dlvm.arange(3),
    "normal": lambda x: x + random.normal(KEY, x.shape),
    "one_hot": lambda x: x @ nn.one_hot(COUNT, 4),
    "zeros": lambda x: x + dlvm.zeros(3),
    "where": lambda x: dlvm.where(x > 2, x, dlvm.ones(3)),
    "concat": lambda x: dlvm.concat([x, dlvm.zeros((1, 3))]),
    "a share": lambda x: x * (x > 2).mean(),
    "a list": lambda x: dlvm.add(x, [0.5, 1.5, 2.5]),
    "interp": lambda x: dlvm.interp(x, x[0], x[1]),
    "cov": lambda x: dlvm.cov(x),
}
"""Lines that make f64 of f32."""


@pytest.mark.parametrize("name", CREATED)
def test_what_is_made_is_of_the_default(name: str) -> None:
    made = CREATED[name]
    assert made().dtype == np.float64
    with dlvm.default_dtype("f32"):
        assert made().dtype == dlvm.function(made)().dtype == np.float32
        np.testing.assert_allclose(made(), dlvm.function(made)(), rtol=1e-6)
    assert made().dtype == dlvm.function(made)().dtype == np.float64


def test_an_element_type_that_is_named_holds() -> None:
    with dlvm.default_dtype("f32"):
        assert dlvm.zeros(3, dtype="f64").dtype == np.float64
        assert random.normal(KEY, (3,), dtype="f64").dtype == np.float64
        assert nn.one_hot(COUNT, 3, dtype="i32").dtype == np.int32
        assert dlvm.arange(3).dtype == dlvm.full(3, 1).dtype == np.int64
        assert dlvm.zeros_like(np.ones(3)).dtype == np.float64


def test_random_numbers_are_those_of_the_type() -> None:
    drawn = (random.uniform, random.normal, random.exponential, random.gumbel)
    for draw in drawn:
        expected = draw(KEY, (5,), "f32")
        with dlvm.default_dtype("f32"):
            np.testing.assert_array_equal(draw(KEY, (5,)), expected)
    with dlvm.default_dtype("f32"):
        jax = np.float32([0.6740899, 0.9746169, 0.30284357])
        np.testing.assert_array_equal(random.uniform(KEY, (3,)), jax)
        np.testing.assert_array_equal(dlvm.function(lambda k: random.uniform(k, (3,)))(KEY), jax)


@pytest.mark.parametrize("name", LINES)
def test_everyday_lines_keep_f32(name: str) -> None:
    line = LINES[name]
    with warnings.catch_warnings(action="ignore"):
        wide = dlvm.function(line)(X)
    assert wide.dtype == np.float64
    with dlvm.default_dtype("f32"):
        found = dlvm.function(line)(X)
        gradient = dlvm.grad(lambda x: line(x).sum())(X)
    assert found.dtype == gradient.dtype == np.float32
    if name != "normal":
        np.testing.assert_allclose(found, wide, rtol=1e-5)


def test_arrays_of_f64_widen_all_the_same() -> None:
    captured = np.ones(3)
    with dlvm.default_dtype("f32"):
        assert dlvm.function(lambda x: x + captured)(X).dtype == np.float64
        assert dlvm.function(lambda x, y: x + y)(X, np.ones(3)).dtype == np.float64
        assert dlvm.function(lambda x: x.astype("f64") * 2)(X).dtype == np.float64
        assert dlvm.function(lambda x: x * np.linspace(0, 1, 3))(X).dtype == np.float64


def test_halves_stay_halves() -> None:
    half = X.astype(np.float16)
    with dlvm.default_dtype("f32"):
        assert dlvm.function(lambda x: x / np.sqrt(8))(half).dtype == np.float16
        assert dlvm.function(lambda x: x + dlvm.zeros(3))(half).dtype == np.float32


def test_whole_numbers_are_compared_as_whole_numbers() -> None:
    big = np.array([2**24, 2**24 + 1])
    with dlvm.default_dtype("f32"):
        assert dlvm.less(big, 2.0**24 + 1).tolist() == [True, False]
        assert dlvm.searchsorted(big, 2.0**24 + 1) == 1


def test_functions_compile_again_and_programs_are_kept_apart() -> None:
    @dlvm.function
    def f(x: Any) -> Any:
        return x + dlvm.zeros(3).sum() + dlvm.full((), 2.0**-30)

    with warnings.catch_warnings(action="ignore"):
        for _ in range(3):
            assert f(X).dtype == np.float64
            with dlvm.default_dtype("f32"):
                assert f(X).dtype == f(X).dtype == np.float32
            assert f(X).dtype == np.float64
    assert [c.reason for c in f.explain().compiles] == [
        "first call",
        "dlvm.default_dtype was f64, is f32",
    ]


def test_a_program_that_is_held_stays_as_it_is() -> None:
    program = dlvm.function(lambda x: dlvm.zeros(3)).compile(X)
    with dlvm.default_dtype("f32"):
        assert program(X).dtype == program(X).dtype == np.float64


def test_a_function_that_is_called_in_both_settings_is_traced_for_both() -> None:
    inner = dlvm.function(lambda n: dlvm.zeros(3) + n)

    @dlvm.function
    def outer(n: Any) -> Any:
        with dlvm.default_dtype("f32"):
            narrow = inner(n)
        return narrow, inner(n)

    narrow, wide = outer(np.int8(1))
    assert (narrow.dtype, wide.dtype) == (np.float32, np.float64)


def test_the_setting_is_told_and_restored() -> None:
    def look() -> None:
        assert dlvm.default_dtype() == "f64"
        dlvm.default_dtype(np.float32)
        assert dlvm.default_dtype() == "f32"
        with dlvm.default_dtype("f64"):
            assert dlvm.default_dtype() == "f64"
        with pytest.raises(ZeroDivisionError), dlvm.default_dtype("f64"):
            raise ZeroDivisionError
        assert dlvm.default_dtype() == "f32"
        found: list[str] = []
        for run in (dlvm.default_dtype, contextvars.copy_context().run):
            args = () if run is dlvm.default_dtype else (dlvm.default_dtype,)
            thread = threading.Thread(target=lambda run=run, args=args: found.append(run(*args)))
            thread.start()
            thread.join()
        assert found == ["f64", "f32"]

    contextvars.copy_context().run(look)
    assert dlvm.default_dtype() == "f64"


@pytest.mark.parametrize("dtype", ["f16", "i64", np.int32, "junk", 3, dlvm.bfloat16])
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises(dlvm.ArgumentError, match="expected 'f32' or 'f64'"):
        dlvm.default_dtype(dtype)
    assert dlvm.default_dtype() == "f64"


def test_the_standard_is_told() -> None:
    with dlvm.default_dtype("f32"):
        assert dlvm.__array_namespace_info__().default_dtypes()["real floating"] == np.float32


def test_a_step_of_training_stays_f32() -> None:
    """Scaled by a root of NumPy's, with a mask of bools and labels as numbers."""

    def loss(params: Any, x: Any, labels: Any, keep: Any) -> Any:
        hidden = dlvm.tanh(x @ params["a"] / np.sqrt(x.shape[1])) * keep
        scores = hidden @ params["b"] + random.normal(KEY, (5,)) * 0.01
        return -(nn.one_hot(labels, 5) * nn.log_softmax(scores)).mean() / np.log(2)

    @dlvm.function
    def step(params: Any, x: Any, labels: Any, keep: Any) -> Any:
        value, slope = dlvm.value_and_grad(loss)(params, x, labels, keep)
        return {k: params[k] - np.float64(0.1) * slope[k] for k in params}, value

    with dlvm.default_dtype("f32"):
        params = {"a": random.normal(KEY, (8, 16)), "b": random.normal(KEY, (16, 5))}
        x, labels = random.normal(KEY, (4, 8)), np.array([0, 1, 2, 3])
        first = None
        for _ in range(20):
            params, value = step(params, x, labels, np.arange(16) > 2)
            first = value if first is None else first
    assert value.dtype == params["a"].dtype == params["b"].dtype == np.float32
    assert value < first
    assert not step.explain().widenings
    assert len(step.explain().compiles) == 1


def test_no_function_names_f64_as_its_default() -> None:
    for name in ("uniform", "normal", "exponential", "gumbel"):
        assert inspect.signature(getattr(random, name)).parameters["dtype"].default is None
