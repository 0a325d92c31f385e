"""Values that a call gives out on its way: in their order, by machine code and the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

X = np.arange(3.0)


@dlvm.function
def halving(x):
    x = dlvm.tap(x * 2, "doubled")
    return dlvm.while_loop(lambda x: x.sum() > 1, lambda x: dlvm.tap(x / 2, "step"), x)


def test_taps_are_collected_where_the_program_is_called():
    with dlvm.taps() as found:
        last = halving(X)
    assert np.array_equal(found["doubled"], [2 * X])
    assert np.array_equal(found["step"], [X, X / 2, X / 4])
    assert np.array_equal(last, X / 4)
    assert np.array_equal(halving(X), last) and len(found["step"]) == 3


@pytest.mark.parametrize("interpret", ("", "1"))
def test_everybody_who_listens_is_told(interpret, monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", interpret)
    with dlvm.taps() as outer:
        halving(X)
        with dlvm.taps() as inner:
            halving(X)
    assert (len(inner["step"]), len(outer["step"])) == (3, 6)
    inner["step"][0][:] = 9
    assert np.array_equal(outer["step"][3], X)


def test_unstaged_code_taps_too():
    with dlvm.taps() as found:
        assert np.array_equal(halving.python(X), halving(X))
    assert len(found["doubled"]) == 2 and np.array_equal(*found["doubled"])


def test_a_gradient_taps_what_its_function_taps_once():
    def loss(x):
        return (dlvm.tap(dlvm.tanh(x), "hidden") ** 2).sum()

    with dlvm.taps() as found:
        dlvm.grad(loss)(X)
    assert len(found["hidden"]) == 1
    np.testing.assert_allclose(found["hidden"][0], np.tanh(X), rtol=1e-12)


def test_taps_before_an_error_are_told(capsys):
    @dlvm.function
    def failing(x, i):
        dlvm.print("before", x)
        dlvm.tap(x, "before")
        return dlvm.tap(x[i], "after")

    with dlvm.taps() as found, pytest.raises(dlvm.UserError, match="index 7"):
        failing(X, 7)
    assert len(found["before"]) == 1 and not found["after"]
    assert capsys.readouterr().out == "before [0. 1. 2.]\n"


def test_a_tap_reads_back_as_text():
    module = dlvm.trace(halving, X)
    assert dlvm.parse(str(module)) == module and 'label="doubled"' in str(module)
