"""Captured state: arrays are read at each call, scalars and functions are guards."""

from __future__ import annotations

import functools
import types

import numpy as np
import pytest

import dlvm
from dlvm.dsl.state.captures import Captures

X = np.ones(3)
WEIGHT = np.arange(3.0)
RATE = 0.5
CONFIG = {"scale": 2.0, "layers": [np.ones(3), np.ones(3) * 2], "deep": {"name": "a"}}
module = types.SimpleNamespace(bias=np.ones(3))


def helper(x):
    return x * RATE


def reasons(f):
    return [c.reason for c in f.explain().compiles]


def test_a_global_array_is_a_hidden_argument(monkeypatch):
    f = dlvm.function(lambda x: x + WEIGHT)
    assert np.array_equal(f(X), X + WEIGHT)
    monkeypatch.setitem(globals(), "WEIGHT", np.ones(3) * 7)
    assert np.array_equal(f(X), X + 7)
    WEIGHT[0] = 100
    assert f(X)[0] == 101
    assert reasons(f) == ["first call"]
    assert f.trace(X).main.params[-1].name == "captured_WEIGHT"
    assert f.explain().captures == ("WEIGHT: f64[3], read at each call",)
    monkeypatch.setitem(globals(), "WEIGHT", np.ones(3, np.float32))
    f(X)
    assert reasons(f)[1] == "the captured WEIGHT was f64[3], is f32[3]"


def test_views_of_a_captured_array_follow_it(monkeypatch):
    m = np.arange(6.0).reshape(2, 3)
    f = dlvm.function(lambda x: x @ m.T + m[0, :2])
    assert np.array_equal(f(X), X @ m.T + m[0, :2])
    m[:] = 1
    assert np.array_equal(f(X), X @ m.T + 1)
    m = np.zeros((2, 3))
    assert not f(X).any()
    assert reasons(f) == ["first call"]


def test_a_closure_cell_that_is_rebound():
    w, k = np.ones(3), 2

    @dlvm.function
    def f(x):
        return x * w * k

    assert f(X).sum() == 6
    w = w * 3
    assert f(X).sum() == 18
    k = 5
    assert f(X).sum() == 45
    assert reasons(f) == ["first call", "k was 2, is 5"]
    k = 2
    assert f(X).sum() == 18
    assert len(reasons(f)) == 2


def test_scalars_and_helpers_that_helpers_read(monkeypatch):
    f = dlvm.function(lambda x: helper(x))
    assert np.array_equal(f(X), X * 0.5)
    monkeypatch.setitem(globals(), "RATE", 0.25)
    assert np.array_equal(f(X), X * 0.25)
    monkeypatch.setitem(globals(), "helper", lambda x: x * 9)
    assert np.array_equal(f(X), X * 9)
    assert reasons(f)[1] == "RATE was 0.5, is 0.25"
    assert reasons(f)[2].startswith("helper was")


def test_containers_are_followed(monkeypatch):
    def f(x):
        for layer in CONFIG["layers"]:
            x = x * layer
        return x * CONFIG["scale"]

    g = dlvm.function(f)
    assert np.array_equal(g(X), f(X))
    names = [p.name for p in g.trace(X).main.params]
    assert names == ["x", "captured_CONFIG_layers_0", "captured_CONFIG_layers_1"]
    monkeypatch.setitem(CONFIG, "scale", 3.0)
    assert np.array_equal(g(X), f(X))
    CONFIG["layers"].append(np.ones(3) * 5)
    assert np.array_equal(g(X), f(X))
    CONFIG["layers"].pop()
    assert "structure of CONFIG['layers']" in reasons(g)[2]


def test_partials_and_functions_of_functions():
    def affine(w, b, x):
        return x * w + b

    f = dlvm.function(functools.partial(affine, X * 2, 1.0))
    assert np.array_equal(f(X), X * 2 + 1)
    g = dlvm.function(lambda x: f(x) * WEIGHT)
    assert np.array_equal(g(X), (X * 2 + 1) * WEIGHT)
    assert "captured_WEIGHT" in {p.name for p in g.trace(X).main.params}


def test_objects_are_followed():
    class Layer:
        def __init__(self, w):
            self.w, self.calls = w, 0

        def __call__(self, x):
            return x * self.w

    class Net:
        def __init__(self):
            self.layers, self.gain = [Layer(X * 2), Layer(X * 3)], 1.0

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x * self.gain

    net = Net()
    f = dlvm.function(net.forward)
    assert np.array_equal(f(X), X * 6)
    net.layers[0].w = X * 4
    net.layers[0].calls += 1
    assert np.array_equal(f(X), X * 12)
    assert len(reasons(f)) == 1
    net.gain = 2.0
    assert np.array_equal(f(X), X * 24)
    assert reasons(f)[1] == "self.gain was 1.0, is 2.0"


def test_a_name_that_is_gone_is_an_ordinary_error(monkeypatch):
    f = dlvm.function(lambda x: x * WEIGHT)
    f(X)
    monkeypatch.delitem(globals(), "WEIGHT")
    with pytest.raises(NameError, match="WEIGHT"):
        f(X)


def test_arrays_made_while_tracing_are_listed():
    f = dlvm.function(lambda x: x + np.random.default_rng(0).normal(size=3))
    f(X)
    (line,) = f.explain().constants
    assert "f64[3] computed while tracing at test_captures.py" in line


def test_captures_inside_regions_and_transformations():
    w = np.ones(3) * 2

    @dlvm.function
    def f(x):
        step = lambda c, a: (c * a + dlvm.sum(w), None)  # noqa: E731
        return dlvm.grad(lambda x: dlvm.scan(step, 1.0, x)[0])(x)

    before = f(X)
    assert np.allclose(before, [1, 7, 13])
    w = w * 10
    assert np.allclose(f(X), [1, 61, 121])
    assert len(reasons(f)) == 1


def test_a_derivative_reads_what_its_function_captures(monkeypatch):
    g = dlvm.grad(lambda x: (x * WEIGHT * RATE).sum())
    assert np.allclose(g(X), WEIGHT * 0.5)
    monkeypatch.setitem(globals(), "WEIGHT", np.ones(3) * 4)
    monkeypatch.setitem(globals(), "RATE", 2.0)
    assert np.allclose(g(X), 8)


@pytest.mark.parametrize("fn", [np.sum, np.linalg.norm, np.allclose])
def test_a_function_of_numpys_is_not_searched(fn):
    """What it can reach is all of NumPy, and nothing of the user's."""
    found = Captures([fn])
    assert not found.seen.guards and not found.arrays


def test_a_large_array_that_nobody_can_write_to_is_compared_by_identity():
    kept = {"w": np.ones(1 << 18)}
    kept["w"].setflags(write=False)
    f = dlvm.function(lambda x: x * (kept["w"] * 2)[:3])
    np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])
    kept["w"] = np.full(1 << 18, 3.0)
    kept["w"].setflags(write=False)
    np.testing.assert_array_equal(f(np.ones(3)), [6, 6, 6])
    kept["w"] = np.ones(1 << 18)
    with pytest.raises(dlvm.UserError, match="too large to be compared"):
        f(np.ones(3))
