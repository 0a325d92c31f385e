"""f32 that becomes f64 without anyone having written f64 is told once, with the code to write."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import nn, random

KEY = random.key(0)
X = np.ones((4, 8), np.float32)
COUNT = np.arange(8)
WIDE = np.ones(8)
SCALE = np.sqrt(8)


def told(f: Callable[..., Any], *args: Any) -> list[Any]:
    """The warnings of a first and a second call."""
    staged = dlvm.function(f)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        staged(*args)
        staged(*args)
    return found


def a_number(x):
    return x / np.sqrt(8)


def a_captured_number(x):
    return SCALE * x


def in_place(x):
    y = x + 1
    y *= np.float64(2)
    return y


def a_mask(x):
    left = 0.99 * (1 - (x > 0))
    return x * left


def by_counts(x):
    return x * COUNT


def a_share(x):
    share = (x > 0).mean()
    return x - share


def counted(x):
    return x + 2 * dlvm.arange(8)


def drawn(x):
    return x + random.normal(KEY, x.shape)


def labels(x):
    return x @ nn.one_hot(COUNT, 3)


def made(x):
    return dlvm.concat([x, dlvm.zeros((1, 8))])


def chosen(x):
    nothing = dlvm.full((8,), 0.5)
    return dlvm.where(x > 0, x, nothing + 1)


def spread(x):
    return x * dlvm.logspace(0, 1, 8)


def sloped(x):
    return dlvm.polyder(x[0])


def in_a_loop(x):
    return dlvm.fori_loop(0, 3, lambda i, c: c + (x * dlvm.ones(8)).sum(), dlvm.zeros(()))


CASES = [
    (a_number, 1, "write float(np.sqrt(8))"),
    (a_captured_number, 1, "write float(SCALE)"),
    (in_place, 2, "write float(np.float64(2))"),
    (a_mask, 1, 'write (1 - (x > 0)).astype("f32")'),
    (by_counts, 1, 'write COUNT.astype("f32")'),
    (a_share, 1, 'convert them: .astype("f32")'),
    (counted, 1, 'write dlvm.arange(8, dtype="f32")'),
    (drawn, 1, 'write random.normal(KEY, x.shape, dtype="f32")'),
    (labels, 1, 'write nn.one_hot(COUNT, 3, dtype="f32")'),
    (made, 1, 'write dlvm.zeros((1, 8), dtype="f32")'),
    (chosen, 1, 'write dlvm.full((8,), 0.5, dtype="f32")'),
    (spread, 1, 'write dlvm.logspace(0, 1, 8).astype("f32")'),
    (sloped, 1, "because of polyder, which was given no element type"),
    (in_a_loop, 1, 'write dlvm.ones(8, dtype="f32")'),
]


@pytest.mark.parametrize(("f", "line", "remedy"), CASES, ids=[c[0].__name__ for c in CASES])
def test_it_is_told_once_with_the_line_and_the_code_to_write(
    f: Callable[..., Any], line: int, remedy: str
) -> None:
    (found,) = told(f, X)
    assert found.category is dlvm.TraceWarning
    assert remedy in str(found.message)
    assert (found.filename, found.lineno) == (__file__, inspect.getsourcelines(f)[1] + line)


REMEDIES = {
    "a number": lambda x: x / float(np.sqrt(8)),
    "a mask": lambda x: x * (0.99 * (1 - (x > 0)).astype("f32")),
    "by counts": lambda x: x * COUNT.astype("f4"),
    "counted": lambda x: x + 2 * dlvm.arange(8, dtype="f32"),
    "drawn": lambda x: x + random.normal(KEY, x.shape, dtype="f32"),
    "labels": lambda x: x @ nn.one_hot(COUNT, 3, dtype="f32"),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_remedies_keep_f32(name: str) -> None:
    assert not told(REMEDIES[name], X)
    assert dlvm.function(REMEDIES[name])(X).dtype == np.float32


def test_halves_are_told_their_own_type() -> None:
    (found,) = told(lambda x: x + dlvm.zeros(8), X.astype(np.float16))
    assert "is given f16" in str(found.message) and 'dtype="f16")' in str(found.message)


ASKED = {
    "astype": lambda x: x.astype("f64") + x,
    "astype of whole numbers": lambda x: x * dlvm.arange(8).astype("f64"),
    "a named type": lambda x: x + dlvm.zeros(8, dtype="f64") * dlvm.ones(8),
    "drawn as f64": lambda x: x + random.normal(KEY, x.shape, dtype="f64"),
    "an array of NumPy's": lambda x: x * np.linspace(0, 1, 8),
    "a captured array": lambda x: x + WIDE * np.sqrt(8),
    "a mean that is named": lambda x: x + (x > 0).mean(dtype="f64"),
    "joined as f64": lambda x: dlvm.concat([x, dlvm.zeros((1, 8))], dtype="f64"),
    "curves": lambda x: dlvm.interp(x, x[0], x[1]) + x,
    "a comparison": lambda x: x > np.sqrt(8),
    "one number": lambda x: x.sum() / COUNT.sum(),
    "not mixed": lambda x: (x, dlvm.zeros(8)),
    "no float": lambda x: (x > 0) * np.sqrt(8),
    "narrow integers": lambda x: x * dlvm.arange(8, dtype="i16"),
}
"""Functions in which f64 was written, or in which no array of f32 becomes f64."""


@pytest.mark.parametrize("name", ASKED)
def test_nothing_is_told_of_what_was_asked_for(name: str) -> None:
    assert not told(ASKED[name], X)


def test_nothing_is_told_where_an_argument_or_a_captured_array_is_f64() -> None:
    assert not told(lambda x, y: (x / np.sqrt(8), y), X, WIDE)
    assert not told(lambda x: (x / np.sqrt(8), dlvm.sin(WIDE)), X)
    assert not told(a_number, X.astype(np.float64))
    assert told(lambda x, rate: rate * x / np.sqrt(8), X, 0.5)


def test_the_gradient_of_a_function_is_told_too() -> None:
    found = told(lambda x: dlvm.grad(lambda x: a_number(x).sum())(x), X)
    assert ["float(np.sqrt(8))" in str(w.message) for w in found] == [True]


def test_a_state_that_comes_back_wider_for_it_is_not_told_again() -> None:
    step = dlvm.function(lambda x: x / np.sqrt(8))
    x = X
    with pytest.warns(dlvm.TraceWarning, match="is given f32") as found:
        for _ in range(3):
            x = step(x)
    assert len(found) == 1


def test_without_source_the_remedy_is_in_words() -> None:
    space: dict[str, Any] = {"np": np}
    exec("def f(x):\n    return x / np.sqrt(8)", space)
    (found,) = told(space["f"], X)
    assert "make it a Python number: float(...)" in str(found.message)
