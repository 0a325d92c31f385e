"""Loops that carry nothing: threads share their trips, with the same bits and the same errors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.ad import expand
from dlvm.base.errors import AssertionFailed, TooDeep
from dlvm.gen.build import build
from dlvm.gen.call.executable import Executable
from dlvm.gen.program import parallel
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.interpreter import run_program
from dlvm.gen.program.memory import plan
from dlvm.ir import Module
from dlvm.ir.interpret import bind
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from tests.gen.values import same_bits

THREADS = (1, 2, 3, 7)


def powers(xs, w):
    def body(x):
        return dlvm.fori_loop(0, 6, lambda i, y: dlvm.tanh(y @ w), x)

    return dlvm.map(body, xs)


def uneven(xs, w):
    """Each trip takes its own number of steps, and a branch."""

    def body(x):
        y = dlvm.while_loop(lambda y: (y * y).sum() < 1e6, lambda y: y * 1.25 + w, x)
        return dlvm.cond(x[0, 0] > 0, lambda: (y, x), lambda: (y @ w.T @ w, w))

    return dlvm.map(body, xs)


def nested(xs, w):
    """Loops whose trips are apart, in one another and in a loop that carries."""

    def step(total, x):
        rows = dlvm.map(lambda row: dlvm.exp(w * row.sum() / 100).sum(1), x)
        halves = dlvm.map(lambda row: dlvm.map(lambda e: (w * e).sum(0), row), x)
        return total + rows.sum(0), (rows, halves)

    return dlvm.scan(step, w[:, 0] * 0, xs)


def backward(xs, w):
    def loss(xs):
        return (powers(xs, w) ** 2).sum()

    return dlvm.grad(loss)(xs)


def downwards(xs, w):
    def body(carry, x):
        return carry, dlvm.cumulative_sum(x @ w, axis=0)

    return dlvm.scan(body, None, xs, reverse=True)


def checked(xs, w):
    def body(x):
        dlvm.assert_(x[0, 0] < 1e3, "too large")
        return dlvm.fori_loop(0, 20, lambda i, y: dlvm.sin(y @ w), x)

    return dlvm.map(body, xs)


def code_of(f, *arrays, dynamic=None) -> tuple[Module, Executable]:
    """The traced module, and its machine code."""
    staged = dlvm.function(f, dynamic=dynamic) if dynamic else dlvm.function(f)
    module = expand(staged.trace(*arrays))
    return module, build(run(module, DEFAULT, verify=True))


def given(n: int, side: int = 24, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, side, side)), rng.normal(size=(side, side)) / side**0.5


@pytest.fixture
def fine(monkeypatch):
    """Any trip is worth a thread."""
    monkeypatch.setattr(parallel, "WORTH", 1)
    monkeypatch.setattr(parallel, "LEAST", 1)


def forks(code: Executable) -> bool:
    """Whether threads share trips, in the text of loops and in that of LLVM."""
    assert ("apart {" in code.texts["loops"]) == (".turns(" in code.texts["llvm"])
    return "apart {" in code.texts["loops"]


@pytest.mark.parametrize("f", [powers, uneven, nested, backward, downwards, checked])
@pytest.mark.parametrize("n", [1, 2, 13])
def test_threads_share_trips_and_change_no_bit(fine, f, n):
    xs, w = given(n, 10)
    module, code = code_of(f, xs, w)
    expected = module.run(module.main.name, xs, w)
    runs = [replace(code, threads=t).run([xs, w]) for t in THREADS]
    for found in runs:
        for a, b, e in zip(found, runs[0], expected, strict=True):
            assert same_bits(a, b)
            np.testing.assert_allclose(a, e, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [powers, uneven, nested, downwards, checked])
def test_what_is_worth_it_is_shared(f):
    _, code = code_of(f, *given(24, 40))
    assert forks(code)


@pytest.mark.parametrize("n", [0, 1, 7, 64])
def test_the_number_of_trips_may_be_open(n):
    module, code = code_of(powers, *given(5), dynamic={"xs": "N,24,24"})
    assert forks(code)
    xs, w = given(n)
    expected = module.run(module.main.name, xs, w)[0]
    runs = [replace(code, threads=t).run([xs, w])[0] for t in THREADS]
    assert all(same_bits(r, runs[0]) for r in runs)
    np.testing.assert_allclose(runs[0], expected, rtol=1e-9)


def test_the_steps_mean_the_same(fine):
    xs, w = given(3, 4)
    for f in (powers, uneven, nested, downwards):
        module, _ = code_of(f, xs, w)
        program = coalesce(to_program(module))
        sizes = bind([p.type for p in module.main.params], [xs, w], ["xs", "w"])
        found = run_program(program, plan(program), [xs, w], sizes).results
        for a, e in zip(found, module.run(module.main.name, xs, w), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12)


def test_the_first_trip_that_fails_is_told(fine):
    def f(xs, i, w):
        def body(x, i):
            y = dlvm.fori_loop(0, 9, lambda _, y: dlvm.sin(y @ w), x)
            return dlvm.take(y, i, axis=0)

        return dlvm.scan(lambda c, both: (None, body(*both)), None, (xs, i))[1]

    xs, w = given(40)
    _, code = code_of(f, xs, np.zeros(40, np.int64), w)
    for bad in ((3, 4), (38, 39), (0, 39)):
        i = np.zeros(40, np.int64)
        i[list(bad)] = 100 + np.array(bad)
        for t in (*THREADS, 2, 2, 2):
            with pytest.raises(IndexError, match=str(100 + bad[0])):
                replace(code, threads=t).run([xs, i, w])
        replace(code, threads=2).run([xs, i * 0, w])


@pytest.mark.parametrize("bad", [(3, 4), (4, 3), (38, 39), (39, 38), (0, 39)])
def test_the_first_trip_whose_check_fails_is_told(fine, bad):
    """Trips went on after one had failed, and the last that failed wrote over it."""

    def f(xs, i, w):
        def body(x, i):
            dlvm.assert_(i != 100, "one")
            dlvm.assert_(i != 101, "other")
            return dlvm.fori_loop(0, 9, lambda _, y: dlvm.sin(y @ w), x)

        return dlvm.scan(lambda c, both: (None, body(*both)), None, (xs, i))[1]

    xs, w = given(40)
    _, code = code_of(f, xs, np.zeros(40, np.int64), w)
    i = np.zeros(40, np.int64)
    i[list(bad)] = 100, 101
    for t in THREADS:
        with pytest.raises(AssertionFailed, match="one" if bad[0] < bad[1] else "other"):
            replace(code, threads=t).run([xs, i, w])


def test_what_is_shown_keeps_its_order():
    def f(xs, w):
        def body(x):
            dlvm.print("sum", x.sum())
            return dlvm.fori_loop(0, 9, lambda i, y: y @ w, x)

        return dlvm.map(body, xs)

    _, code = code_of(f, *given(24))
    assert not forks(code)


def test_small_loops_stay_as_they_are():
    _, code = code_of(lambda xs: dlvm.map(lambda x: x.sum(), xs), np.ones((100, 3)))
    assert not forks(code)


def test_what_is_given_back_unchanged_is_copied():
    def f(xs, w):
        def body(x):
            y = dlvm.fori_loop(0, 9, lambda i, y: dlvm.tanh(y @ w), x)
            return x, y, y, w

        return dlvm.map(body, xs)

    xs, w = given(24, 40)
    _, code = code_of(f, xs, w)
    assert forks(code)
    x, y, again, same = replace(code, threads=2).run([xs, w])
    assert same_bits(x, xs) and same_bits(y, again)
    assert same_bits(same, np.broadcast_to(w, (24, *w.shape)).copy())


def test_calls_of_several_threads_share_their_loops(fine):
    xs, w = given(24)
    _, code = code_of(powers, xs, w)
    expected = code.run([xs, w])[0]
    shared = replace(code, threads=2)
    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(lambda _: shared.run([xs, w])[0], range(40))]
    assert all(same_bits(r, expected) for r in found)


@pytest.mark.parametrize("f", [powers, nested])
def test_trips_are_written_where_they_run_and_ask_for_no_stack(fine, f):
    _, code = code_of(f, *given(13, 10))
    assert "@function.trip0" in code.texts["llvm"] and "function.trip" not in code.texts["asm"]
    assert not code.interface.enters


@dlvm.function
def down(n, x):
    return dlvm.cond(n <= 0, lambda: x, lambda: down(n - 1, x * 0.5) + 1)


def test_a_recursion_beside_trips_still_knows_its_stack(fine):
    xs, w = given(3, 10)

    def f(n, xs, w):
        return powers(xs, w).sum() + down(n, w).sum()

    _, code = code_of(f, 3, xs, w)
    assert forks(code) and code.interface.enters
    with pytest.raises(TooDeep):
        code.run([np.int64(10**9), xs, w])
    shallow = code.run([np.int64(1), xs, w])[0]
    np.testing.assert_allclose(shallow, powers(xs, w).sum() + (w * 0.5 + 1).sum())
