"""``dlvm.debug``: the operation that first made a NaN or an infinity is named, nothing changes."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import NotFinite, UserError


def told(f, *args, nans=True, infs=False) -> NotFinite:
    with pytest.raises(NotFinite) as found, dlvm.debug(nans=nans, infs=infs):
        f(*args)
    assert len(str(found.value).splitlines()) <= 12
    assert isinstance(found.value, FloatingPointError | UserError)
    return found.value


def test_the_first_operation_its_line_and_the_range_of_its_operands():
    @dlvm.function
    def f(x, scale):
        y = x * scale
        z = dlvm.log(y)  # here
        return (z + 1.0).sum()

    x = np.array([0.5, 2.0, -3.0, 0.0])
    error = told(f, x, 2.0)
    assert error.message == "log made a NaN out of finite numbers"
    assert error.origin.source().endswith("# here")
    assert "1 of 4 elements, the first at [2]" in error.notes
    assert "operand 0, f64[4]: from -6 to 4, 1 zeros" in error.notes
    assert np.isnan(f(x, 2.0))  # nobody looks now


def test_an_adjoint_is_named_with_the_line_of_its_operation():
    def loss(x):
        return (dlvm.sqrt(x) * x).sum()  # here

    error = told(dlvm.grad(loss), np.array([0.0, 1.0]))
    assert error.message.startswith("the adjoint of sqrt made a NaN")
    assert error.origin.source().endswith("# here")
    assert "in the gradient of loss" in error.notes
    push = dlvm.function(lambda x: dlvm.jvp(loss, (x,), (np.ones(2),)))
    tangent = told(push, np.array([0.0, 1.0]), infs=True)
    assert tangent.message.startswith("the tangent of sqrt")


def test_infinities_are_their_own_question():
    f = dlvm.function(lambda x: 1.0 / x)
    x = np.array([0.0, 1.0])
    with dlvm.debug(nans=True):
        assert np.isinf(f(x)[0])
    error = told(f, x, nans=False, infs=True)
    assert error.message == "div made an infinity out of finite numbers"


def test_a_nan_of_infinities_tells_where_those_came_from():
    def f(x):
        e = dlvm.exp(x)  # here
        return e - e * 2.0

    error = told(dlvm.function(f), np.array([1.0, 1000.0]))
    assert error.message == "sub made a NaN out of infinities"
    line = f.__code__.co_firstlineno + 1
    assert f"the first infinity came from exp at test_looking.py:{line}" in error.notes


def test_what_a_where_leaves_out_is_nobodys_business():
    f = dlvm.function(lambda x: dlvm.where(x > 0, dlvm.log(x), 0.0))
    with dlvm.debug(nans=True, infs=True):
        assert f(np.array([1.0, -1.0, 0.0])).tolist() == [0.0, 0.0, 0.0]

    both = dlvm.function(lambda x: dlvm.where(x > 0, dlvm.log(x), 0.0) + dlvm.sqrt(x))
    assert told(both, np.array([1.0, -1.0])).message.startswith("sqrt")


def test_trips_branches_and_calls_are_named():
    @dlvm.function
    def inner(c):
        return dlvm.log(c)

    @dlvm.function
    def f(x):
        def step(i, c):
            return dlvm.cond(i >= 2, inner, lambda c: c - 0.9, c)

        return dlvm.fori_loop(0, 6, step, x)

    error = told(f, 2.0)
    assert error.message.startswith("log made a NaN")
    assert any(n.startswith("in trip 3 of the loop at test_looking.py") for n in error.notes)
    assert any("in the branch for a condition that holds" in n for n in error.notes)
    assert "in inner" in error.notes
    assert "operand 0, f64: from -1.60944 to -1.60944" in error.notes


def test_a_scan_backwards_and_slices():
    @dlvm.function
    def f(xs):
        def step(c, x):
            return c + x, dlvm.sqrt(x)

        return dlvm.scan(step, 0.0, xs)

    xs = np.array([1.0, -2.0, 4.0])
    assert any("in trip 1 of the loop" in n for n in told(f, xs).notes)
    slope = told(dlvm.grad(lambda xs: f(xs)[1].sum()), np.array([1.0, 0.0, 4.0]), infs=True)
    assert slope.message.startswith("the adjoint of sqrt made an infinity")


def test_the_lane_of_a_batch_is_named():
    batched = dlvm.vmap(lambda x, s: dlvm.log(x * s).sum(), in_axes=(0, None))
    error = told(batched, np.array([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]]), 2.0)
    assert "1 of 6 elements, the first in lane 2 at [1]" in error.notes
    assert any(n.startswith("in vmap of") for n in error.notes)


def test_what_was_bad_when_it_came_is_no_operations_fault():
    f = dlvm.function(lambda params: params["w"] * 2.0)
    error = told(f, {"w": np.array([1.0, np.nan])})
    assert error.message == "params['w'] contains a NaN already"
    nearby = dlvm.function(lambda x, y: dlvm.log(x) + y)
    assert told(nearby, np.array([-1.0]), np.array([np.nan])).message.startswith("log")


def test_no_result_changes_by_a_bit_and_donated_arguments_are_seen_as_they_were():
    @dlvm.function(donate="x")
    def f(x):
        return dlvm.log(x) * 1.1

    x = np.random.default_rng(0).uniform(0.1, 3, 1000)
    plain = f(x.copy())
    with dlvm.debug(nans=True, infs=True):
        y = x.copy()
        at = y.ctypes.data
        y = f(y)
    assert y.ctypes.data == at and y.tobytes() == plain.tobytes()
    error = told(f, np.array([1.0, -4.0]))
    assert "operand 0 (x), f64[2]: from -4 to 1" in error.notes


def test_a_function_can_be_looked_at_in_every_call():
    @dlvm.function(debug="nans")
    def f(x):
        return dlvm.log(x)

    for _ in range(3):
        assert f(np.array(1.0)) == 0.0
        with pytest.raises(NotFinite):
            f(np.array(-1.0))
    with pytest.raises(UserError, match="found 'nan'"):
        dlvm.function(debug="nan")(lambda x: x)


def test_the_environment_says_the_same(monkeypatch):
    monkeypatch.setenv("DLVM_CHECK", "nans,infs")
    f = dlvm.function(lambda x: 1.0 / x)
    for _ in range(2):
        with pytest.raises(NotFinite):
            f(np.array(0.0))
    monkeypatch.setenv("DLVM_CHECK", "nan")
    with pytest.raises(UserError, match="DLVM_CHECK"):
        f(np.array(1.0))


def test_contexts_nest_and_belong_to_their_thread():
    f = dlvm.function(lambda x: dlvm.log(x))
    f(np.array(1.0))
    seen = []
    with dlvm.debug(nans=True):
        with dlvm.debug(infs=True), pytest.raises(NotFinite):
            f(np.array(0.0))
        assert np.isinf(f(np.array(0.0)))
        thread = threading.Thread(target=lambda: seen.append(f(np.array(-1.0))))
        thread.start()
        thread.join()
    assert np.isnan(seen[0])
    assert np.isnan(f(np.array(-1.0)))


def test_prints_and_taps_are_not_repeated(capsys):
    @dlvm.function
    def f(x):
        dlvm.print("x", x)
        return dlvm.tap(dlvm.log(x), "y")

    with dlvm.taps() as taps:
        told(f, np.array(-1.0))
    assert capsys.readouterr().out == "x -1.0\n"
    assert len(taps["y"]) == 1


def test_the_interpreter_is_looked_at_as_well(monkeypatch):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    assert told(dlvm.function(dlvm.log), np.array(-1.0)).message.startswith("log")


def test_unstaged_code_is_looked_at_operation_by_operation():
    def f(x):
        y = dlvm.exp(x)
        return dlvm.log(1.0 - y)  # here

    error = told(f, np.array([1.0, 2.0]))
    assert error.message == "log made a NaN out of finite numbers"
    assert error.origin.source().endswith("# here")
    assert np.isnan(f(np.array([1.0]))).all()


def test_half_precisions_overflow():
    error = told(dlvm.function(lambda x: x * x), np.float16([300.0]), infs=True)
    assert error.message == "mul made an infinity out of finite numbers"


@pytest.mark.skipif(
    getattr(sys.flags, "thread_inherit_context", 0), reason="this Python gives threads the context"
)
def test_a_thread_looks_where_it_is_given_the_context():
    f = dlvm.function(dlvm.log)
    seen: list[object] = []

    def work():
        try:
            seen.append(f(np.array(-1.0)))
        except NotFinite as error:
            seen.append(error)

    with dlvm.debug(nans=True):
        for target in ((work,), (contextvars.copy_context().run, work)):
            thread = threading.Thread(target=target[0], args=target[1:])
            thread.start()
            thread.join()
    alone, given = seen
    assert np.isnan(alone) and isinstance(given, NotFinite)


def test_tasks_look_that_are_started_inside():
    f = dlvm.function(dlvm.log)

    async def work():
        return f(np.array(-1.0))

    async def both():
        before = asyncio.create_task(work())
        with dlvm.debug(nans=True):
            inside = asyncio.create_task(work())
            found = await asyncio.gather(before, inside, return_exceptions=True)
            late = asyncio.create_task(work())
        return (*found, await late)

    alone, given, late = asyncio.run(both())
    assert np.isnan(alone) and isinstance(given, NotFinite)
    assert np.isnan(late)  # nobody looks any more
