"""Functions are traced again, which tells of state that changes unseen."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import random
import threading
import time
import types
import weakref
import xml.etree.ElementTree as xml
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import StaleState, TraceWarning
from dlvm.dsl.call.audit import LAST, SHARE, Audit
from dlvm.ir.equality import first_difference


def settings() -> xml.Element:
    """An object that keeps its state where only C finds it, so that no comparison does."""
    return xml.fromstring("<all><rate>1.5</rate></all>")


def rate(of: xml.Element) -> float:
    return float(str(of.findtext("rate")))


def change(of: xml.Element, value: float) -> None:
    found = of.find("rate")
    assert found is not None
    found.text = str(value)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLVM_VERIFY", "state")


def test_state_that_changes_unseen_is_told_at_the_next_power_of_two():
    of = settings()
    f = dlvm.function(lambda x: x * rate(of))
    for _ in range(20):
        assert float(f(2.0)) == 3.0
    change(of, 2.5)
    for _ in range(11):
        assert float(f(2.0)) == 3.0  # nothing at a call sees it
    with pytest.raises(
        StaleState, match=r"1\.5 : f64 is now the constant 2\.5 : f64.*up to number 16.*number 32"
    ) as told:
        f(2.0)
    assert told.value.origin is not None and "test_audit.py" in str(told.value.origin)
    assert float(f(2.0)) == 5.0  # it is compiled for what it is now


@pytest.mark.usefixtures("state")
def test_each_call_is_audited_where_that_is_asked_for():
    of = settings()
    f = dlvm.function(lambda x: x * rate(of))
    assert [float(f(2.0)) for _ in range(3)] == [3.0] * 3
    change(of, 2.5)
    with pytest.raises(StaleState, match="up to number 3 were right, this is number 4"):
        f(2.0)
    assert float(f(2.0)) == 5.0


@pytest.mark.usefixtures("state")
def test_another_array_in_the_place_of_one_is_told():
    kept = [np.ones(3), np.full(3, 2.0)]
    of = settings()
    f = dlvm.function(lambda x: x * kept[int(rate(of))])
    assert f(1.0).tolist() == [2.0] * 3
    change(of, 0.5)
    with pytest.raises(StaleState, match="another array is read than "):
        f(1.0)
    assert f(1.0).tolist() == [1.0] * 3


@pytest.mark.usefixtures("state")
def test_two_arrays_that_change_places_are_told():
    a, b = np.ones(3), np.full(3, 2.0)
    of = settings()

    def f(x: Any) -> Any:
        first, second = (a, b) if rate(of) > 1 else (b, a)
        return x * first - second

    staged = dlvm.function(f)
    assert staged(1.0).tolist() == f(1.0).tolist()
    change(of, 0.5)
    with pytest.raises(StaleState, match="another array is read than "):
        staged(1.0)
    assert staged(1.0).tolist() == f(1.0).tolist()


@pytest.mark.usefixtures("state")
def test_an_error_of_python_is_one_of_the_call():
    of = settings()
    f = dlvm.function(lambda x: x * rate(of))
    f(2.0)
    found = of.find("rate")
    assert found is not None
    found.text = "fast"
    with pytest.raises(StaleState, match="could not convert string to float"):
        f(2.0)


W = np.arange(3.0)


@dlvm.function
def inner(x: Any) -> Any:
    return dlvm.sin(x * W)


def _programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    table = {"w": np.ones((3, 3)), "b": [1.0, 2.0]}
    rows = np.arange(12.0).reshape(4, 3)

    def looped(x: Any) -> Any:
        return dlvm.scan(lambda c, r: (c + r @ table["w"], c.sum()), x, rows)

    return {
        "plain": (lambda x: dlvm.exp(x) * 2, (1.0,)),
        "table": (lambda x: x @ table["w"] + table["b"][0], (np.ones(3),)),
        "views": (
            lambda x: x * rows[1] + x * rows[2] + rows[:2].T @ x[:2],
            (np.ones(3),),
        ),
        "view": (lambda x: x * rows[1] + rows[:, 0].sum() + rows[1:3].T @ rows[:2, 0], (1.0,)),
        "nested": (lambda x: inner(x) + inner(2 * x), (np.ones(3),)),
        "loop": (looped, (np.ones(3),)),
        "gradient": (dlvm.grad(lambda x: (inner(x) ** 2).sum()), (np.ones(3),)),
        "computed": (lambda x: x * np.sin(rows[2]), (np.ones(3),)),
        "tree": (lambda p: {"a": p["a"] + 1, "n": (p["b"], None)}, ({"a": 1.0, "b": np.ones(2)},)),
    }


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("name", _programs())
def test_what_does_not_change_is_the_same_program(name: str):
    program, given = _programs()[name]
    f = dlvm.function(program)
    first = [np.asarray(x) for x in dlvm.tree.leaves(f(*given))]
    for _ in range(3):
        again = [np.asarray(x) for x in dlvm.tree.leaves(f(*given))]
        assert all(np.array_equal(x, y) for x, y in zip(first, again, strict=True))
    assert "calls up to 4 of 4" in str(f.explain())


@pytest.mark.usefixtures("state")
def test_open_sizes_static_values_and_donated_arrays_are_audited():
    f = dlvm.function(lambda x, n: x * n + x.shape[0], static="n", dynamic=True, donate="x")
    for n in (3, 3, 5, 5):
        x = np.ones(n)
        x = f(x, 2)
        assert x.tolist() == [2.0 + n] * n
    assert "calls up to 4 of 4" in str(f.explain())


def _writes() -> Callable[[Any], Any]:
    kept = {"n": 0.0}

    def f(x: Any) -> Any:
        kept["n"] = 0.0
        return x + rate(SETTINGS)

    return f


def _prints() -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        print("traced")
        return x + rate(SETTINGS)

    return f


def _reads_a_clock() -> Callable[[Any], Any]:
    return lambda x: x + rate(SETTINGS) + 0 * time.time()


def _knows_a_generator() -> Callable[[Any], Any]:
    dice = random.Random(0)
    return lambda x: x + rate(SETTINGS) + (dice.random() if rate(SETTINGS) < 0 else 0)


def _counts() -> Callable[[Any], Any]:
    numbers = itertools.cycle([1.0, 2.0])
    return lambda x: x + rate(SETTINGS) + 0 * next(numbers)


SETTINGS = settings()


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_writes, "assigns kept"),
        (_prints, "calls print"),
        (_reads_a_clock, "reads time"),
        (_knows_a_generator, "draws random numbers from dice"),
        (_counts, "numbers"),
    ],
)
def test_a_function_that_does_more_than_read_is_traced_once_and_says_so(
    make: Callable[[], Callable[[Any], Any]], why: str
):
    plain, traces = make(), []

    def counted(x: Any) -> Any:
        return plain(x)

    f, out = dlvm.function(counted), io.StringIO()
    with contextlib.redirect_stdout(out), pytest.warns(TraceWarning) as told:
        for _ in range(5):
            traces.append(float(f(1.0)))
    assert len(set(traces)) == 1 and out.getvalue().count("traced") <= 1
    assert [w for w in told if why in str(w.message)]
    assert why in str(f.explain())


def test_calls_that_are_audited_by_themselves():
    audit, audited = Audit("f", always=False), []
    for call in range(1, LAST + 50):
        if audit.due():
            audited.append(call)
            audit.passed(1.0)
    assert audited == [2, 4, 8, 16, 32, 64, 128]
    slow = audit.counted(lambda given: audit.__setattr__("_spent", audit._spent + given[0]))  # pyright: ignore[reportPrivateUsage]
    assert slow([SHARE - 1.0]) is None
    assert not audit.due()
    assert slow([1.0]) is None
    assert slow([0.0]) is NotImplemented and audit.due()


def test_what_is_compared_whole_is_not_audited():
    table = {"a": [1.0, 2.0], "w": np.ones(3)}
    f = dlvm.function(lambda x: x * table["w"] + table["a"][1])
    for _ in range(5):
        f(1.0)
    assert "traced again" not in str(f.explain())


def test_the_first_difference_of_modules():
    def module(n: float, last: bool = False) -> Any:
        def f(x: Any) -> Any:
            y = dlvm.cond(x > 0, lambda x: x * n, lambda x: x, x)
            return (y, x) if last else (x, y)

        return dlvm.trace(f, 1.0)

    assert first_difference(module(2.0).entries, module(2.0).entries) is None
    found = first_difference(module(2.0).entries, module(3.0).entries)
    assert found is not None and [float(op.value) for op in found] == [2.0, 3.0]  # type: ignore[union-attr]
    assert first_difference(module(2.0).entries, module(2.0, True).entries) == (None, None)
    assert module(2.0) == module(2.0) != module(3.0)


class Scaled(dict[str, float]):
    """A container with a way of its own to be read."""

    factor = 1.0

    def __getitem__(self, key: str) -> float:
        return super().__getitem__(key) * self.factor

    def __bool__(self) -> bool:
        return self.factor > 2


def test_containers_with_ways_of_their_own_to_be_read_are_audited():
    table = Scaled(a=2.0)

    def plain(x: Any) -> Any:
        return x * table["a"] + (1.0 if table else 0.0)

    f = dlvm.function(plain)
    for call in range(1, 65):
        if call == 20:
            table.factor = 3.0
        try:
            got = float(f(1.0))
        except StaleState:
            break
        if call == 64:
            assert got == plain(1.0)
    assert float(f(1.0)) == plain(1.0) == 7.0


@pytest.mark.usefixtures("state")
def test_threads_that_meet_a_stale_program_go_on_with_a_new_one():
    of = settings()
    f = dlvm.function(lambda x: x * rate(of))
    f(2.0)
    change(of, 2.5)
    told: list[BaseException] = []
    meeting = threading.Barrier(4)

    def call() -> None:
        meeting.wait()
        try:
            assert float(f(2.0)) == 5.0
        except Exception as error:
            told.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told and all(isinstance(error, StaleState) for error in told)
    assert float(f(2.0)) == 5.0


def test_a_program_keeps_no_object_alive_that_is_reached_by_two_ways():
    class Part:
        def __init__(self) -> None:
            self.rate = 1.5

    held = types.SimpleNamespace(a=Part())
    held.b = held.a
    f = dlvm.function(lambda x: x * sum(p.rate for p in vars(held).values()))
    assert float(f(1.0)) == 3.0
    seen = weakref.ref(held.a)
    held.a = held.b = None
    gc.collect()
    assert seen() is None
