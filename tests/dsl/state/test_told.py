"""What Python does while tracing and will not do again is an error, or is told."""

from __future__ import annotations

import datetime
import functools
import os
import random
import threading
import time
import types
import warnings
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import TraceError, TraceWarning

X = np.ones(3)
COUNT = 0
RNG = np.random.default_rng(0)


def _counter() -> Any:
    state = {"n": 0}

    def f(x: Any) -> Any:
        state["n"] += 1
        return x * state["n"]

    return f


def _attribute() -> Any:
    made = types.SimpleNamespace(n=1)

    def f(x: Any) -> Any:
        made.n = made.n + 1
        return x

    return f


def _written_only() -> Any:
    made = types.SimpleNamespace()

    def f(x: Any) -> Any:
        made.last = x.ndim
        return x

    return f


def _global() -> Any:
    def f(x: Any) -> Any:
        global COUNT
        COUNT += 1
        return x + COUNT

    return f


def _variable() -> Any:
    n = 0

    def f(x: Any) -> Any:
        nonlocal n
        n += 1
        return x * n

    return f


def _array_of_an_object() -> Any:
    made = types.SimpleNamespace(w=np.zeros(3))

    def f(x: Any) -> Any:
        made.w += 1
        return x * made.w

    return f


def _shifted() -> Any:
    buf = np.arange(3.0)

    def f(x: Any) -> Any:
        buf[:-1] = buf[1:]
        return x * buf

    return f


def _filled() -> Any:
    buf = np.arange(3.0)

    def f(x: Any) -> Any:
        buf.fill(2)
        return x * buf

    return f


def _appended() -> Any:
    seen: list[int] = []

    def f(x: Any) -> Any:
        seen.append(1)
        return x * len(seen)

    return f


def _in_a_method() -> Any:
    class Meter:
        def __init__(self) -> None:
            self.calls = 0

        def step(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    meter = Meter()
    return lambda x: meter.step(x)


def _consumed() -> Any:
    rows = [1.0, 2.0, 3.0]

    def f(x: Any) -> Any:
        return x * rows.pop()

    return f


def _kept_for_later() -> Any:
    log: dict[str, Any] = {}

    def f(x: Any) -> Any:
        log["x"] = x * 2
        return x

    return f


CHANGES = [
    _counter,
    _attribute,
    _written_only,
    _global,
    _variable,
    _array_of_an_object,
    _shifted,
    _filled,
    _appended,
    _in_a_method,
    _consumed,
    _kept_for_later,
]
WRAPPED = {
    "function": dlvm.function,
    "grad": lambda f: dlvm.grad(lambda x: f(x).sum()),
    "vjp": lambda f: lambda x: dlvm.vjp(f, x),
    "jvp": lambda f: lambda x: dlvm.jvp(f, (x,), (x,)),
    "vmap": lambda f: dlvm.vmap(f),
    "inside": lambda f: dlvm.function(lambda x: dlvm.grad(lambda y: f(y).sum())(x)),
}


@pytest.mark.parametrize("make", CHANGES)
@pytest.mark.parametrize("how", WRAPPED)
def test_what_is_changed_while_it_is_traced_is_an_error(make: Any, how: str):
    with pytest.raises(TraceError, match=r"while it is traced|outlives the trace") as caught:
        WRAPPED[how](make())(X)
    text = str(caught.value)
    assert "help: " in text and "--> test_told.py" in text


def test_the_remedy_of_a_counter_works_to_the_letter():
    with pytest.raises(TraceError, match=r"pass state\['n'\] as an argument and return its new"):
        dlvm.function(_counter())(X)

    @dlvm.function
    def f(x: Any, n: Any) -> Any:
        n = n + 1
        return x * n, n

    n: Any = 0
    for i in range(1, 4):
        y, n = f(X, n)
        assert np.array_equal(y, X * i)


def test_what_is_made_once_and_kept_is_no_change():
    class Lazy:
        def __init__(self) -> None:
            self.table: Any = None
            self.known: dict[int, float] = {}

        @functools.cached_property
        def rate(self) -> float:
            return 2.0

        def go(self, x: Any) -> Any:
            if self.table is None:
                self.table = np.arange(3.0)
            if 3 not in self.known:
                self.known[3] = 5.0
            return x * self.table * self.known[3] * self.rate

    made = Lazy()
    f = dlvm.function(made.go)
    assert np.array_equal(f(X), [0, 10, 20])
    made.table[0] = 7
    assert np.array_equal(f(X), [70, 10, 20])
    made.known[3] = 1.0
    made.rate = 1.0
    assert np.array_equal(f(X), [7, 1, 2])


def _draws(draw: Any) -> Any:
    return lambda x: x * draw()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: RNG.normal(),
        lambda: np.random.normal(),
        lambda: np.random.rand(3),
        lambda: random.random(),
        lambda: random.gauss(0, 1),
    ],
)
@pytest.mark.parametrize("how", WRAPPED)
def test_random_numbers_are_an_error(draw: Any, how: str):
    with pytest.raises(TraceError, match=r"draws random numbers from(.|\n)*as an argument"):
        WRAPPED[how](_draws(draw))(X)


@pytest.mark.parametrize("make", [lambda: np.random.default_rng(), lambda: random.Random()])
def test_a_generator_without_a_seed_is_an_error_where_it_is_made(make: Any):
    with pytest.raises(TraceError, match=r"draws random numbers from(.|\n)*as an argument"):
        dlvm.function(lambda x: x + make().random())(X)


def test_random_numbers_of_a_seed_are_a_constant():
    f = dlvm.function(lambda x: x + np.random.default_rng(0).normal(size=3))
    assert np.array_equal(f(X), X + np.random.default_rng(0).normal(size=3))


@pytest.mark.parametrize(
    "read",
    [
        lambda: time.time(),
        lambda: time.perf_counter() * 1.0,
        lambda: float(datetime.datetime.now().year),
        lambda: float(len(os.environ["PATH"])),
        lambda: float(os.urandom(1)[0]),
        lambda: np.random.default_rng().normal() if len(WRAPPED) else 0.0,
    ],
)
def test_clocks_and_the_like_are_told_once(read: Any):
    f = dlvm.function(_draws(read))
    with pytest.warns(TraceWarning, match=r"at test_told\.py:\d+, which happens once") as told:
        f(X)
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)
        f(np.ones(4))


@pytest.mark.parametrize("make", [lambda: iter([1.0, 2.0]), lambda: (float(i) for i in range(9))])
def test_an_iterator_that_is_consumed_is_told(make: Any):
    values = make()
    with pytest.warns(TraceWarning, match=r"reads the next of values at test_told\.py"):
        dlvm.function(lambda x: x * next(values))(X)


# -- what a call costs -------------------------------------------------------------------------


class Node:
    """A part of a large tree of objects."""

    def __init__(self, depth: int) -> None:
        self.w = np.ones(3)
        self.rate = 2.0
        self.log: list[float] = []
        self.names = {f"n{i}": float(i) for i in range(20)}
        self.children = [Node(depth - 1) for _ in range(4)] if depth else []


def reads(f: Any) -> int:
    """How many places a call of a staged function reads."""
    ((made, _),) = next(iter(f._short.values()))
    return made.state.watch.reads


class Layered(dlvm.nn.Linear):
    """A layer of a user, whose class is given its equality while it is made."""


@pytest.mark.parametrize("layer", [dlvm.nn.Linear, Layered])
def test_a_call_reads_nothing_of_the_class_of_a_layer(layer: Any):
    f = dlvm.function(lambda net, x: net(x))
    f(layer(dlvm.random.key(0), 3, 2), np.ones(3, np.float32))
    assert reads(f) < 9  # the functions that it calls, and no fields


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_a_call_costs_by_what_is_read(depth: int):
    tree = Node(depth)
    f = dlvm.function(lambda x: x * tree.rate)
    f(X)
    assert reads(f) == 2  # tree, and its rate
    f = dlvm.function(lambda x: x * tree.w + tree.names["n3"])
    f(X)
    assert reads(f) == 4  # tree, its w, its names, one of them


def test_a_name_that_only_another_object_has_is_not_read():
    tree = Node(1)
    f = dlvm.function(lambda x: dlvm.log(x) * tree.rate)
    for i in range(4):
        tree.log.append(float(i))
        assert not f(X).any()
    assert len(f.explain().compiles) == 1
    assert not any("log" in guard for guard in f.explain().guards)


# -- threads -----------------------------------------------------------------------------------


def _together(work: list[Any]) -> list[BaseException]:
    wrong: list[BaseException] = []

    def run(task: Any) -> None:
        try:
            task()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


@pytest.mark.parametrize("how", ["function", "grad", "vjp"])
def test_captured_state_that_threads_rebind_is_right_or_refused(how: str):
    """Each call is one of the states that there were; a trace that met a change says so."""
    state = types.SimpleNamespace(w=np.ones(3), k=1.0)
    f = {
        "function": dlvm.function(lambda x: x * state.w * state.k),
        "grad": dlvm.grad(lambda x: (x * state.w * state.k).sum()),
        "vjp": lambda x: dlvm.vjp(lambda x: x * state.w * state.k, x)[1](X)[0],
    }[how]
    arrays = [np.full(n, float(v)) for v in (1, 2, 3) for n in (3, 1)]
    allowed = {float(a[0]) * k for a in arrays for k in (1.0, 2.0)}
    refused: list[str] = []

    def write() -> None:
        for i in range(200):
            state.w = arrays[i % len(arrays)]
            state.k = 1.0 + i % 2

    def read() -> None:
        for _ in range(60 if how != "vjp" else 10):
            try:
                out = f(X)
            except TraceError as error:
                refused.append(str(error))
                continue
            assert len(set(out)) == 1 and out[0] in allowed, out

    assert not _together([write, write, *[read] * 6])
    assert all("changes" in text for text in refused)
    assert set(f(X)) <= allowed


def test_captured_arrays_that_threads_write_are_read_at_each_call():
    w = np.zeros(3)
    f = dlvm.function(lambda x: x + w)
    f(X)

    def write() -> None:
        for i in range(500):
            w[:] = i % 7

    def read() -> None:
        for _ in range(200):
            assert all(v in range(1, 8) for v in f(X))

    assert not _together([write, write, *[read] * 6])
    w[:] = 41
    assert set(f(X)) == {42}
    assert len(f.explain().compiles) == 1
