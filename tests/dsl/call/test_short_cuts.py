"""Calls that go past the slow path give what it gives, and leave to it what it must decide."""

from __future__ import annotations

import dataclasses
import gc
import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import IndexOutOfRange, NumberOutOfRange, UserError
from dlvm.dsl.call import function as function_room

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that took the slow path, one for each call."""
    found: list[str] = []
    real: Any = function_room.StagedFunction._slowly

    def slowly(self: Any, args: Any, kwargs: Any, kept: Any = ()) -> Any:
        found.append(self.label)
        return real(self, args, kwargs, kept)

    monkeypatch.setattr(function_room.StagedFunction, "_slowly", slowly)
    return found


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any


def test_the_second_call_takes_the_short_cut(slow: list[str]):
    f = dlvm.function(lambda x, y: x @ y.T)
    for i in range(4):
        assert np.array_equal(f(X + i, X), (X + i) @ X.T)
    assert len(slow) == 1


TREES: dict[str, Any] = {
    "dict": {"b": X, "a": X + 1, "c": None},
    "nested": [{"w": X, "b": (X, [X])}, (), {}],
    "named": Pair(X, {"x": X}),
    "dataclass": Layer(X, [X, X]),
    "bare": X,
    "scalars": {"x": X, "n": 2, "rate": 0.5, "flag": True},
}


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())
def test_trees_come_in_and_go_out(tree: Any, slow: list[str]):
    f = dlvm.function(lambda t, x: dlvm.tree.map(lambda leaf: leaf + x, t))
    first, second = f(tree, X), f(tree, X)
    assert len(slow) == 1
    assert dlvm.tree.structure(first) == dlvm.tree.structure(second)
    pairs = zip(dlvm.tree.leaves(first), dlvm.tree.leaves(second), strict=True)
    for a, b in pairs:
        assert type(b) is np.ndarray and a.dtype == b.dtype and np.array_equal(a, b)


def test_arguments_by_name_and_static_ones(slow: list[str]):
    @dlvm.function(static=("kind",))
    def f(x: Any, y: Any = 1, *, kind: Any = "a") -> Any:
        return x + y if kind == "a" else x - y

    for _ in range(2):
        assert np.array_equal(f(X), X + 1)
        assert np.array_equal(f(X, X), X + X)
        assert np.array_equal(f(y=X, x=X * 2), X * 3)
        assert np.array_equal(f(X * 2, y=X, kind="b"), X)
        assert np.array_equal(f(X * 2, y=X, kind="a"), X * 3)
    assert len(slow) == 5


def test_static_values_are_told_apart_by_type(slow: list[str]):
    f = dlvm.function(static=("n",))(lambda x, n: x + (1 if isinstance(n, bool) else 2))
    for _ in range(2):
        assert [f(X, n)[0, 0] for n in (1, True, 1.0)] == [2, 1, 2]


@dataclasses.dataclass(frozen=True)
class Rate:
    value: Any


ALIKE = [
    (0.0, -0.0),
    ((1,), (1.0,), (True,)),
    ((0.0,), (-0.0,)),
    (Rate(1), Rate(1.0), Rate(True)),
    (frozenset({1}), frozenset({1.0})),
]


def _number(k: Any) -> Any:
    k = getattr(k, "value", k)
    return next(iter(k)) if isinstance(k, tuple | frozenset) else k


@pytest.mark.parametrize("values", ALIKE, ids=str)
def test_values_that_are_equal_and_not_the_same_have_programs_of_their_own(values: Any):
    @dataclasses.dataclass
    class Model:
        w: Any
        k: dlvm.static[Any]

    x, held = np.arange(3), Rate(None)
    static = dlvm.function(lambda x, k: x * _number(k), static="k")
    field = dlvm.function(lambda m: m.w * _number(m.k))
    captured = dlvm.function(lambda x: x * _number(held.value))
    for k in values * 2:
        object.__setattr__(held, "value", k)
        expected = x * _number(k)
        for found in (static(x, k), field(Model(x, k)), captured(x)):
            assert found.dtype == expected.dtype
            assert np.array_equal(np.signbit(found), np.signbit(expected))


def test_arguments_that_options_take_in_are_told_apart_by_name():
    @dlvm.function
    def f(**options: Any) -> Any:
        return {k: v * 2 for k, v in options.items()}, options["a"] - options.get("b", 0)

    x, y = np.float32([5]), np.float32([3])
    for _ in range(2):
        assert f(a=x, b=y)[1] == 2 and f(b=y, a=x)[1] == 2 and f(a=y, b=x)[1] == -2
        assert list(f(a=x, c=y)[0]) == ["a", "c"] and f(a=x, c=y)[1] == 5


def test_other_shapes_types_and_structures_have_programs_of_their_own(slow: list[str]):
    f = dlvm.function(lambda t: dlvm.tree.leaves(t)[0] * 2)
    arguments: list[Any] = [X, X[0], X.astype(np.float64), [X], {"a": X}, (X, X), 2.0, 2, True]
    for _ in range(3):
        for t in arguments[:7]:
            found = f(t)
            assert np.array_equal(found, np.multiply(dlvm.tree.leaves(t)[0], 2))
            assert found.dtype == np.multiply(dlvm.tree.leaves(t)[0], 2).dtype
    assert len(slow) == 7
    for t in arguments:
        assert f(t) == f(t) if not isinstance(t, np.ndarray | list | dict | tuple) else True
    assert f(2).dtype == np.int64


def test_what_is_unusual_takes_the_slow_path_and_is_right(slow: list[str]):
    f = dlvm.function(lambda x: x * 2)
    f(X)
    wide = np.arange(12, dtype=np.float32).reshape(2, 6)
    for x in (wide[:, ::2], np.asfortranarray(X), X.astype(">f4").astype(np.float32)[::-1]):
        assert np.array_equal(f(x), x * 2)
    assert np.array_equal(f(memoryview(X)), X * 2)
    assert f(np.float32(3)) == 6 and f(np.float32(4)) == 8


def test_errors_of_a_call_name_the_users_line(slow: list[str]):
    f = dlvm.function(lambda x, i: x[i])
    assert f(X, 1).shape == (3,)
    for bad in (2, -3, 9):
        with pytest.raises(IndexOutOfRange, match=f"index {bad} is out of range") as found:
            f(X, bad)
        assert found.value.origin is not None and found.value.origin.file == __file__
        files = {at.path.name for at in found.traceback}
        assert files == {"test_short_cuts.py", "function.py"}
    assert len(slow) == 1


def test_an_integer_that_does_not_fit_is_an_error_as_before():
    f = dlvm.function(lambda x, n: x + n)
    f(X, 1)
    with pytest.raises(NumberOutOfRange, match="does not fit in i64"):
        f(X, 2**63)
    assert np.array_equal(f(X, 2), X + 2)


def test_the_interpreter_can_be_switched_on_between_calls(monkeypatch: pytest.MonkeyPatch):
    f = dlvm.function(lambda x: x + 1)
    f(X)
    assert f._short
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    assert np.array_equal(f(X), X + 1)
    assert [c.reason for c in f.explain().compiles] == ["first call", "DLVM_INTERPRET changed"]
    monkeypatch.delenv("DLVM_INTERPRET")
    assert np.array_equal(f(X), X + 1)


def test_a_short_cut_is_not_taken_inside_a_trace():
    inner = dlvm.function(lambda x: x * 2)
    inner(X)
    outer = dlvm.function(lambda x: inner(x) + inner(np.ones((2, 3), np.float32)))
    assert np.array_equal(outer(X), X * 2 + 2)


# -- captured state --------------------------------------------------------------------------------


def test_captured_arrays_are_read_at_each_call(slow: list[str]):
    state: dict[str, Any] = {"w": X.copy(), "rate": 2.0}
    f = dlvm.function(lambda x: x * state["rate"] + state["w"])
    f(X)
    state["w"] += 1
    assert np.array_equal(f(X), X * 2 + state["w"])
    state["w"] = X * 5
    assert np.array_equal(f(X), X * 7)
    assert len(slow) == 1
    state["rate"] = 3.0
    assert np.array_equal(f(X), X * 8)
    state["rate"] = float("3.0")
    assert np.array_equal(f(X), X * 8)
    assert len(slow) == 2 and len(f.explain().compiles) == 2
    state["w"] = np.ones(3)
    assert np.array_equal(f(X), X * 3 + np.ones(3))
    assert "the captured state['w'] was" in f.explain().compiles[-1].reason


@pytest.mark.parametrize(
    ("was", "now"), [(0.0, -0.0), (1, True), (1, 1.0), (np.float32(0), np.float32(-0.0)), (0j, -0j)]
)
def test_captured_numbers_that_only_look_equal_are_told_apart(was: Any, now: Any):
    holder = {"n": was}
    f = dlvm.function(lambda x: x if str(holder["n"]) == str(was) else x + 1)
    assert np.array_equal(f(X), X) and np.array_equal(f(X), X)
    holder["n"] = now
    assert np.array_equal(f(X), X + 1)
    holder["n"] = was
    assert np.array_equal(f(X), X)


def test_one_of_many_captured_numbers():
    numbers = [0.0] * 100
    f = dlvm.function(lambda x: x + (1 if any(str(n) == "-0.0" for n in numbers) else 2))
    assert f(X)[0, 0] == 2 and f(X)[0, 0] == 2
    numbers[70] = -0.0
    assert f(X)[0, 0] == 1


class Model:
    def __init__(self) -> None:
        self.w = X.copy()
        self.rate = 1.0
        self.child: Any = None

    @dlvm.function
    def step(self, x: Any) -> Any:
        return x * self.rate + self.w


def test_methods_read_their_object_at_each_call_and_do_not_keep_it(slow: list[str]):
    model = Model()
    model.child = model
    assert np.array_equal(model.step(X), X + model.w)
    model.w = X * 3
    assert np.array_equal(model.step(X), X * 4)
    assert len(slow) == 1
    model.rate = 2.0
    assert np.array_equal(model.step(X), X * 5)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_a_closure_that_loses_its_variable_is_an_error_of_python():
    w = X.copy()

    def make() -> Any:
        v = w

        def drop() -> None:
            nonlocal v
            del v

        return dlvm.function(lambda x: x + v), drop

    f, drop = make()
    assert np.array_equal(f(X), X + w)
    drop()
    with pytest.raises(NameError):
        f(X)


# -- donation --------------------------------------------------------------------------------------


def test_a_training_loop_donates_by_the_short_cut(slow: list[str]):
    step = dlvm.function(donate=("p",))(lambda p, x: {k: v - x for k, v in p.items()})
    p: Any = {"a": X.copy(), "b": X * 2}
    mine = p["a"].ctypes.data
    for _ in range(4):
        p = step(p, X)
    assert p["a"].ctypes.data == mine and np.array_equal(p["a"], X * -3) and len(slow) == 1


def test_results_of_a_program_can_be_given_away(slow: list[str], caplog: Any):
    make = dlvm.function(lambda x: x * 2)
    step = dlvm.function(donate=("p",))(lambda p, x: p + x)
    p = make(X)
    mine = p.ctypes.data
    for _ in range(3):
        p = step(p, X)
        assert p.ctypes.data == mine
    assert "a copy is overwritten" not in caplog.text


def test_what_can_not_be_given_away_is_copied_at_each_call():
    step = dlvm.function(donate=("p",))(lambda p, x: p + x)
    mine = X.copy()
    mine = step(mine, X)
    assert np.array_equal(step(mine, mine), 4 * X) and np.array_equal(mine, 2 * X)
    frozen = X.copy()
    frozen.setflags(write=False)
    with pytest.warns(dlvm.TraceWarning, match="2 calls copied so far"):
        assert np.array_equal(step(frozen, X), X + X)
    assert np.array_equal(frozen, X)


# -- compiled programs -----------------------------------------------------------------------------


def test_a_compiled_program_takes_its_short_cut_and_refuses_the_rest():
    w = X.copy()
    compiled = dlvm.function(lambda t, n: t["a"] * n + w).compile({"a": X}, 2)
    for n in (2, 3):
        assert np.array_equal(compiled({"a": X}, n), X * n + w)
        assert np.array_equal(compiled(n=n, t={"a": X}), X * n + w)
    w += 1
    assert np.array_equal(compiled({"a": X}, 2), X * 2 + w)
    for bad in ({"a": X[0]}, {"b": X}, {"a": X, "b": X}, X):
        with pytest.raises(UserError):
            compiled(bad, 2)


# -- many calls ------------------------------------------------------------------------------------


def test_python_threads_call_at_once():
    state = {"w": X}
    f = dlvm.function(lambda t, x: {k: v @ x + state["w"] for k, v in t.items()})
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        for i in range(200):
            rows = 1 + (seed + i) % 3 if i % 50 == 0 else 2
            t = {"a": np.full((rows, 3), seed, np.float32), "b": np.full((rows, 3), i, np.float32)}
            try:
                found = f(t, square) if rows == 2 else None
            except Exception as error:
                wrong.append(error)
                return
            if found and not all(np.array_equal(found[k], t[k] @ square + X) for k in t):
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
