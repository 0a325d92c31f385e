"""Values that a call gives out on its way: in their order, by machine code and the interpreter."""

from __future__ import annotations

import subprocess
import sys
import threading

import numpy as np
import pytest

import dlvm
from tests.test_house import ROOT

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


def test_an_effect_in_a_branch_or_loop_whose_result_nobody_reads_happens():
    @dlvm.function
    def doubled(x):
        dlvm.cond(x.sum() > 0, lambda: dlvm.tap(x * 3, "branch"), lambda: x)
        dlvm.scan(lambda c, row: (dlvm.tap(c + row, "loop"), row), x[0], x)
        return x * 2

    with dlvm.taps() as found:
        assert np.array_equal(doubled(X), 2 * X)
    assert np.array_equal(found["branch"], [3 * X])
    assert np.array_equal(found["loop"], [0, 1, 3])


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


def test_prints_before_an_error_are_seen_in_order(capsys):
    @dlvm.function
    def f(x, i):
        dlvm.print("before", x.sum())
        y = x[i]
        dlvm.print("after", y)
        return y

    with pytest.raises(dlvm.UserError):
        f(X, 7)
    assert capsys.readouterr().out == "before 3.0\n"

    @dlvm.function
    def g(x):
        def step(i, c):
            dlvm.print("step", c)
            dlvm.assert_(c < 3.0, "too large")
            dlvm.print("kept", c)
            return c + 1.0

        return dlvm.fori_loop(0, 9, step, x)

    with pytest.raises(dlvm.UserError, match="too large"):
        g(2.0)
    assert capsys.readouterr().out == "step 2.0\nkept 2.0\nstep 3.0\n"


def test_what_is_printed_is_seen_whatever_happens_next():
    code = (
        "import os, numpy as np, dlvm\n"
        "@dlvm.function\n"
        "def f(x):\n    dlvm.print('x', x)\n    return x\n"
        "f(np.ones(2))\n"
        "os.environ['DLVM_INTERPRET'] = '1'\n"
        "f(np.zeros(2))\n"
        "os._exit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (3, "x [1. 1.]\nx [0. 0.]\n")


def test_a_cotangent_is_shown_by_an_identity_with_a_rule_of_its_own(capsys):
    @dlvm.custom_vjp
    def watched(x):
        return x

    def backward(kept, dy):
        dlvm.print("cotangent", dy)
        return (dlvm.tap(dy, "dy"),)

    watched.defvjp(lambda x: (x, ()), backward)

    def product(x):
        def step(c, v):
            c = watched(c * v)
            return c, c

        return dlvm.scan(step, 1.0, x)[0]

    with dlvm.taps() as found:
        slope = dlvm.grad(product)(np.array([1.0, 2.0, 3.0]))
    assert slope.tolist() == [6.0, 3.0, 2.0]
    assert capsys.readouterr().out == "cotangent 1.0\ncotangent 3.0\ncotangent 6.0\n"
    assert [float(dy) for dy in found["dy"]] == [1.0, 3.0, 6.0]


@pytest.mark.parametrize("threads", (1, 2))
def test_order_holds_on_threads_of_ours_and_of_pythons(threads):
    @dlvm.function(threads=threads)
    def f(x, n):
        def step(i, x):
            x = dlvm.sin(x) + 1.0
            dlvm.tap(x.sum(), "sum")
            return x

        return dlvm.fori_loop(0, n, step, x)

    x = np.linspace(0, 1, 200_000)
    with dlvm.taps() as found:
        f(x, 5)
    expected = [float(s) for s in found["sum"]]
    assert len(expected) == 5
    heard: dict[int, list[float]] = {}

    def listen(k: int) -> None:
        with dlvm.taps() as mine:
            f(x, 5)
        heard[k] = [float(s) for s in mine["sum"]]

    workers = [threading.Thread(target=listen, args=(k,)) for k in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert list(heard.values()) == [expected] * 4
