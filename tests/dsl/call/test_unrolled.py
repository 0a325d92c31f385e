"""A profile tells which Python loops were written out, and what states them once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.dsl.call.unrolled import COPIES, WITHOUT_LOOP, unrolled

ROWS, W = np.ones((40, 3)), np.ones((3, 3))


def carried(x, w):
    for _ in range(20):  # the loop
        x = np.tanh(x @ w)  # its body
    return x.sum()


def apart(x, w):
    return dlvm.stack([np.tanh(x[i] @ w) @ w for i in range(40)])  # the loop, its body


def turn(x):
    return np.sin(x) * 0.5  # its body


def by_calls(x, w):
    for _ in range(WITHOUT_LOOP):
        x = turn(x)
    return x @ w


def short(x, w):
    for _ in range(COPIES - 1):
        x = np.tanh(x @ w)
    return x


def counted(x, w):
    return dlvm.fori_loop(0, 100, lambda _, c: np.tanh(c @ w), x)


def line_of(mark: str) -> str:
    lines = Path(__file__).read_text("utf8").splitlines()
    return f"test_unrolled.py:{next(i for i, t in enumerate(lines, 1) if t.endswith(mark))}"


@pytest.mark.parametrize(
    ("fn", "copies", "line", "loop", "instead"),
    [
        (carried, 20, "tanh(x @ w)  # its body", "# the loop", "dlvm.fori_loop(0, 20, "),
        (apart, 40, "# the loop, its body", "# the loop, its body", "dlvm.vmap"),
        (by_calls, 64, "0.5  # its body", None, "dlvm.fori_loop(0, 64, "),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
@pytest.mark.parametrize("derive", [lambda f: f, lambda f: dlvm.grad(lambda x, w: f(x, w).sum())])
def test_a_loop_that_was_written_out_is_told_with_its_line(
    fn: Any, copies: int, line: str, loop: str | None, instead: str, derive: Callable[..., Any]
):
    (found,) = unrolled(dlvm.trace(derive(fn), ROWS, W))
    assert (found.copies, str(found.line)) == (copies, line_of(line))
    assert str(found.loop) == (line_of(loop) if loop else "None")
    assert instead in str(found) and str(found).startswith(f"{copies} copies of one loop: ")


@pytest.mark.parametrize("fn", [short, counted])
def test_few_copies_and_loops_of_dlvm_are_not_told(fn: Any):
    assert unrolled(dlvm.trace(fn, ROWS, W)) == []


def test_a_profile_has_the_hint_and_its_advice_is_the_same_function():
    compiled = dlvm.function(carried).compile(ROWS, W)
    found = compiled.profile(ROWS, W, seconds=0.01)
    (hint,) = found.hints
    assert str(found).endswith(f"hint: {hint}") and hint in found._repr_html_()
    assert found.to_dict()["hints"] == (hint,)
    code = hint.partition("write it as ")[2].partition(", or")[0]
    advised = eval(f"lambda carry, body: {code}.sum()", {"dlvm": dlvm})
    advice = dlvm.function(lambda x, w: advised(x, lambda _, c: np.tanh(c @ w)))
    np.testing.assert_allclose(advice(ROWS, W), compiled(ROWS, W), rtol=1e-12)
