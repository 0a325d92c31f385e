"""``@dlvm.function``: the cache, static and dynamic arguments, donation, methods, threads."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
import threading
from collections import namedtuple

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def compiles(f):
    return [c.reason for c in f.explain().compiles]


# -- arguments -----------------------------------------------------------------------------------


def test_trees_of_every_kind():
    Pair = namedtuple("Pair", "left right")

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: object
        y: object

    @dlvm.function
    def f(d, p, q, nothing, *rest, scale=2.0, **more):
        assert nothing is None
        total = d["b"] + p.left + q.x + rest[0] + more["extra"]
        return {"sum": total * scale, "point": Point(q.y, (p.right, [None])), "none": None}

    out = f({"b": X, "a": 1}, Pair(X, 2), Point(X, 3.0), None, X, X, extra=X, scale=np.float32(0.5))
    assert np.allclose(out["sum"], 5 * X * 0.5)
    assert isinstance(out["point"], Point)
    assert out["point"].y == (2, [None])
    assert out["none"] is None
    names = [
        p.name
        for p in f.trace({"b": X, "a": 1}, Pair(X, 2), Point(X, 3.0), None, X, extra=X).main.params
    ]
    assert names == ["d_a", "d_b", "p_left", "p_right", "q_x", "q_y", "rest_0", "more_extra"]


def test_defaults_that_are_not_passed_belong_to_the_code():
    @dlvm.function
    def f(x, power=2, shift=0.0):
        return x**power + shift

    assert np.array_equal(f(X), X**2)
    assert [p.name for p in f.trace(X).main.params] == ["x"]
    assert np.array_equal(f(X, shift=1.0), X**2 + 1)
    assert [p.name for p in f.trace(X, shift=1.0).main.params] == ["x", "shift"]


def test_keywords_and_positions_are_one_signature():
    f = dlvm.function(lambda x, y: x - y)
    f(X, X)
    f(x=X, y=X)
    f(X, y=X)
    assert len(compiles(f)) == 1


def test_results_are_arrays_of_their_own():
    @dlvm.function
    def f(x):
        return x, x, x.T, x.sum(), 3

    same, again, turned, total, three = f(X)
    for a in (same, again, turned, total, three):
        assert isinstance(a, np.ndarray)
        assert a.flags.writeable
        assert not np.shares_memory(a, X)
    assert not np.shares_memory(same, again)
    assert total.shape == () and three == 3


def test_other_arrays_come_in():
    class Boxed:
        def __array__(self, dtype=None, copy=None):
            return X

    f = dlvm.function(lambda x: x * 2)
    assert np.array_equal(f(Boxed()), 2 * X)
    assert np.array_equal(f(memoryview(X)), 2 * X)
    assert np.array_equal(f(X[:, ::-1]), 2 * X[:, ::-1])
    assert f(np.float32(3)) == 6


# -- the cache -----------------------------------------------------------------------------------


def test_one_compile_for_each_signature_with_its_reason(caplog):
    f = dlvm.function(lambda x: x * 2)
    with caplog.at_level(logging.INFO, "dlvm.compile"):
        f(X)
        f(X + 1)
        f(X.astype(np.float64))
        f(X[:1])
        f(2.0)
        f(2)
    assert compiles(f) == [
        "first call",
        "x was f32[2,3], is f64[2,3]",
        "x was f64[2,3], is f32[1,3]",
        "x was f32[1,3], is a Python float",
        "x was a Python float, is a Python int",
    ]
    assert len(caplog.records) == 5
    assert "compiled for (x: f64[2,3]): x was f32[2,3], is f64[2,3]" in caplog.text


def test_static_values_by_type_and_value():
    @dlvm.function(static=("n", "mode"))
    def f(x, n, mode="sum"):
        return (x * n).sum() if mode == "sum" else x * n

    assert f(X, 2) == 30
    assert f(X, 2, mode="none").shape == (2, 3)
    f(X, 2)
    f(X, 2.0)
    f(X, True, "none")
    assert compiles(f) == [
        "first call",
        "mode was not given, is 'none'",
        "n was 2, is 2.0",
        "n was 2, is True",
    ]
    with pytest.raises(UserError, match="static argument n is a list, which has no hash"):
        f(X, [2])
    with pytest.raises(UserError, match=r"static='k': there is no such parameter"):
        dlvm.function(static="k")(lambda x: x)


@pytest.mark.parametrize("option", ["static", "donate", "debug"])
@pytest.mark.parametrize("given", [None, 1.5], ids=str)
def test_options_that_are_no_names_are_refused(option, given):
    """They were said to be faults of dlvm."""
    with pytest.raises(UserError, match=rf"{option}={given}: expected names"):
        dlvm.function(**{option: given})(lambda x: x)


def test_dynamic_by_name_compiles_once():
    @dlvm.function(dynamic={"x": "B,3", "y": "B"})
    def f(x, y):
        return x * y[:, None], x.shape[0] * 2.0

    for n in (0, 1, 4):
        x, y = np.ones((n, 3)), np.arange(float(n))
        rows, twice = f(x, y)
        assert np.array_equal(rows, x * y[:, None])
        assert twice == 2 * n
    assert len(compiles(f)) == 1
    with pytest.raises(UserError, match="axis 0 of f64\\[B\\] must be B where B = 2, found 3"):
        f(np.ones((2, 3)), np.ones(3))
    with pytest.raises(UserError, match=r"x: dynamic= says \(B, 3\), found f64\[2,4\]"):
        f(np.ones((2, 4)), np.ones(2))


def test_dynamic_true_opens_leading_sizes_that_stand_nowhere_else():
    @dlvm.function(dynamic=True)
    def f(w, x, y):
        return x @ w + y[:, None]

    w = np.ones((3, 2))
    for n in (5, 7, 1):
        assert f(w, np.ones((n, 3)), np.ones(n)).shape == (n, 2)
    assert len(compiles(f)) == 1
    assert [str(p.type) for p in f.trace(w, np.ones((5, 3)), np.ones(5)).main.params] == [
        "f64[3,2]",
        "f64[N,3]",
        "f64[N]",
    ]


def test_a_program_compiled_for_a_spec_serves_every_size():
    f = dlvm.function(lambda x: x.sum(axis=0) / x.shape[0])
    program = f.compile(dlvm.spec("f32[B,3]"))
    assert np.array_equal(program(X), X.mean(axis=0))
    assert np.array_equal(f(X), X.mean(axis=0))
    assert np.array_equal(f(X[:1]), X[0])
    assert len(compiles(f)) == 1
    f(X.astype(np.float64))
    assert len(compiles(f)) == 2
    with pytest.raises(UserError, match="is no type"):
        dlvm.spec("g32[B]")


def test_a_size_as_a_number():
    @dlvm.function(dynamic={"x": "B"})
    def f(x):
        n = x.shape[0]
        return x / n, 1.0 / n, n - 0.5, 2 * n, x * (n + 1), dlvm.asarray(n), n * x

    x = np.ones(4, np.float32)
    out = f(x)
    expected = (x / 4, 1 / 4, 3.5, 8, x * 5, 4, 4 * x)
    for found, e in zip(out, expected, strict=True):
        assert np.array_equal(found, e)
    assert out[0].dtype == out[4].dtype == out[6].dtype == np.float32


# -- donation ------------------------------------------------------------------------------------


def test_a_donated_argument_is_the_result_that_fits():
    @dlvm.function(donate=("state",))
    def f(state, x):
        return {"w": state["w"] + x, "n": state["n"] + 1}, state["w"].sum()

    state = {"w": np.zeros((2, 3), np.float32), "n": np.zeros((), np.int64)}
    places = {k: x.ctypes.data for k, x in state.items()}
    state, total = f(state, X)
    assert {k: x.ctypes.data for k, x in state.items()} == places
    assert total == 0
    assert np.array_equal(state["w"], X)
    assert state["n"] == 1
    assert any("state_w is overwritten" in line for line in f.explain().donations)


def test_what_can_not_be_given_away_is_copied(caplog):
    @dlvm.function(donate="x")
    def f(x, y):
        return x + y

    before = X.copy()
    assert np.array_equal(f(X, X), 2 * before)
    assert np.array_equal(X, before)
    whole = np.zeros((4, 3), np.float32)
    frozen = np.zeros((2, 3), np.float32)
    frozen.setflags(write=False)
    with caplog.at_level(logging.WARNING, "dlvm.compile"):
        part = whole[:2]
        part = f(part, X)
        assert np.array_equal(part, X)
        assert np.array_equal(f(frozen, X), X)
    assert not whole.any() and not frozen.any()
    assert "a view of other memory" in caplog.text

    g = dlvm.function(donate="x")(lambda x: x.sum())
    x = np.ones(3)
    g(x)
    assert np.array_equal(x, np.ones(3))
    assert "not reused" in str(g.explain())


# -- methods, binding, threads -------------------------------------------------------------------


class Model:
    def __init__(self, w, scale):
        self.w, self.scale = w, scale

    @dlvm.function
    def apply(self, x):
        return x @ self.w * self.scale


def test_methods_read_their_object():
    a, b = Model(np.ones((3, 2), np.float32), 2.0), Model(np.zeros((3, 2), np.float32), 1.0)
    assert np.array_equal(a.apply(X), X @ a.w * 2)
    assert not b.apply(X).any()
    a.w = a.w * 3
    assert np.array_equal(a.apply(X), X @ a.w * 2)
    assert len(compiles(a.apply)) == 1
    a.scale = 5.0
    assert np.array_equal(a.apply(X), X @ a.w * 5)
    assert compiles(a.apply)[1] == "self.scale was 2.0, is 5.0"


def test_a_dataclass_with_methods_is_an_argument():
    @dataclasses.dataclass
    class Layer:
        w: np.ndarray

        @dlvm.function
        def apply(self, x):
            return x @ self.w

    layer = Layer(np.ones((3, 2), np.float32))
    assert np.array_equal(layer.apply(X), X @ layer.w)
    assert layer.apply.trace(X).main.params[0].name == "self_w"
    assert np.array_equal(layer.apply.compile(X)(layer, X), X @ layer.w)
    g = dlvm.grad(lambda layer: layer.apply(X).sum())(layer)
    assert isinstance(g, Layer)
    assert np.allclose(g.w, X.sum(0)[:, None])


def test_bind_copies_and_freezes():
    f = dlvm.function(lambda w, x: x @ w)
    w = np.ones((3, 2), np.float32)
    bound = f.bind(w=w)
    w[:] = 0
    assert np.array_equal(bound(X), X @ np.ones((3, 2)))
    with pytest.raises(UserError, match="no such parameter"):
        f.bind(v=w)


def test_what_is_bound_is_a_constant_of_the_program():
    f = dlvm.function(static=("kind",))(lambda w, x, rate, kind: x @ w["a"] * rate + len(kind))
    w = np.ones((3, 2), np.float32)
    bound = f.bind(w={"a": w}, rate=0.5, kind="long")
    for _ in range(2):
        found = bound(X)
        assert found.dtype == np.float32 and np.array_equal(found, X @ w * 0.5 + 4)
    module = bound.trace(X)
    assert [p.name for p in module.main.params] == ["x"] and "constant" in str(module)
    told = bound.explain()
    assert not told.captures and not told.constants and not told.guards
    again = bound.bind(x=X)
    assert np.array_equal(again(), X @ w * 0.5 + 4)
    assert np.array_equal(dlvm.grad(lambda x: bound(x).sum())(X), np.full((2, 3), 1, np.float32))


def test_threads_compile_once_and_agree():
    f = dlvm.function(lambda x: dlvm.tanh(x).sum())
    results, gate = [], threading.Barrier(8)

    def work(i):
        gate.wait()
        results.append((i % 2, float(f(X if i % 2 else X[:1]))))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 8
    assert len(set(results)) == 2
    assert len(compiles(f)) == 2


def test_options_are_checked():
    with pytest.raises(UserError, match="target"):
        dlvm.function(target="abacus")(lambda x: x)
    with pytest.raises(UserError, match="threads"):
        dlvm.function(threads=0)(lambda x: x)


# -- inspection ----------------------------------------------------------------------------------


def test_the_interpreter_on_demand(monkeypatch):
    f = dlvm.function(lambda x: dlvm.exp(x) @ x.T)
    compiled = f(X)
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    assert np.allclose(f(X), compiled, rtol=1e-6)


def test_every_stage_has_a_text():
    @dlvm.function
    def f(x):
        return dlvm.grad(lambda x: dlvm.tanh(x).sum())(x)

    program = f.compile(X)
    assert "adjoint @" in program.text("traced")
    assert "adjoint @" not in program.text("differentiated")
    assert dlvm.parse(program.text("optimized")).verify()
    with pytest.raises(UserError, match="no stage 'nothing'"):
        program.text("nothing")


def test_the_ordinal_of_an_operation_is_its_place_in_print_order():
    def f(x):
        y = dlvm.cond(x.sum() > 0, lambda: dlvm.tanh(x), lambda: x * 2)
        return dlvm.exp(y)

    module = dlvm.trace(f, X)
    ops = [op for fn in module.functions for op in fn.walk()]
    assert [op.origin.ordinal for op in ops] == list(range(len(ops)))
    exp = next(op for op in ops if op.name == "exp")
    assert exp.origin.source() == "return dlvm.exp(y)"


def test_module_round_trip_and_run():
    def f(p, x):
        return dlvm.tanh(x @ p["w"]), x.shape[0] * 1.0

    module = dlvm.trace(f, {"w": X.T.copy()}, dlvm.spec("f32[B,3]"))
    assert dlvm.parse(str(module)) == module
    assert module.main.name == "f"
    assert [p.name for p in module.main.params] == ["p_w", "x"]
    out, size = module.run("f", X.T.copy(), X)
    assert np.allclose(out, np.tanh(X @ X.T))
    assert size == 2


@dlvm.function
def doubled(x):
    return x * 2


class Owner:
    def __init__(self, w):
        self.w = np.asarray(w, float)
        self.step = dlvm.function(self.scaled)

    def scaled(self, x):
        return self.w * x


def test_a_staged_function_is_copied_and_pickled_as_a_python_function_is():
    x = np.arange(3.0)
    doubled(x)
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.copy(doubled) is doubled and copy.deepcopy({"f": doubled})["f"] is doubled
    with pytest.raises(TypeError, match="cloudpickle"):
        pickle.dumps(dlvm.function(lambda x: x))


def test_a_deep_copy_of_an_object_calls_its_own_staged_methods():
    model = Owner([1, 2, 3])
    assert (model.step(1.0) == [1, 2, 3]).all()
    other = copy.deepcopy(model)
    other.w[:] = 7
    assert (other.step(1.0) == 7).all() and (model.step(1.0) == [1, 2, 3]).all()
