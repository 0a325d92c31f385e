"""``eval_shape``: what a call would return, without a compile."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError


@dataclasses.dataclass
class Net:
    w: Any
    act: str = "tanh"

    @dlvm.function
    def apply(self, x):
        return dlvm.tanh(x @ self.w)


def types(tree):
    return dlvm.tree.map(lambda s: (s.shape, str(s.dtype)), tree)


def test_results_are_specs_in_the_structure_of_the_call(caplog):
    def f(net, x, k):
        return Net(net.w.T, net.act), {"y": x @ net.w, "k": k, "none": None}

    with caplog.at_level(logging.INFO, "dlvm"):
        net, rest = dlvm.eval_shape(f, Net(np.ones((3, 2))), np.ones((4, 3), np.float32), k=2)
    assert (net.w.shape, net.act) == ((2, 3), "tanh")
    assert rest["y"].shape == (4, 2) and rest["y"].dtype == np.float64
    assert rest["k"].shape == () and rest["k"].dtype == np.int64 and rest["none"] is None
    assert not caplog.records  # nothing is compiled


def test_the_types_are_those_of_the_results():
    def f(x, i):
        return {"a": x * 2, "b": x[i], "c": (x > 0, x.astype(dlvm.bfloat16)), "d": x.sum() / 3}

    args = np.ones((3, 2), np.float32), np.array([0, 2, 1, 1])
    found = dlvm.eval_shape(f, *args)
    for spec, x in zip(*map(dlvm.tree.leaves, (found, dlvm.function(f)(*args))), strict=True):
        assert (spec.shape, spec.dtype) == (x.shape, x.dtype)


def test_arguments_may_be_specs_with_open_sizes():
    found = dlvm.eval_shape(lambda x: (x.T, x[1:]), dlvm.spec("f32[B,4]"))
    assert str(found[0].type) == "f32[4,B]" and found[1].shape[1] == 4


def test_staged_functions_and_methods_are_asked_about_these_sizes():
    double = dlvm.function(lambda x, n: dlvm.tile(x, n), static="n", dynamic={"x": "B"})
    assert dlvm.eval_shape(double, np.ones(3), 2).shape == (6,)
    assert dlvm.eval_shape(Net(np.ones((3, 2))).apply, np.ones((5, 3))).shape == (5, 2)


@pytest.mark.parametrize("dynamic", [False, True])
def test_inside_a_trace_it_leaves_nothing_behind(dynamic):
    def f(x):
        form = dlvm.eval_shape(lambda a: dlvm.outer(a, x)[None], x)  # it captures a staged value
        return dlvm.zeros(form.shape, form.dtype) + x

    staged = dlvm.function(f, dynamic=dynamic)
    np.testing.assert_array_equal(staged(np.ones(3)), np.ones((1, 3, 3)))
    assert "outer" not in str(dlvm.trace(f, np.ones(3)))
    assert len(dlvm.trace(f, np.ones(3)).functions) == 1
    nested = dlvm.trace(lambda x: dlvm.zeros(dlvm.eval_shape(lambda a: a @ a, x).shape), np.ones(3))
    assert len(nested.functions) == 1 and "dot" not in str(nested) and "matmul" not in str(nested)


def test_a_function_that_was_asked_about_inside_a_trace_can_be_called_there():
    @dlvm.function
    def inner(x):
        return x * 2

    @dlvm.function
    def f(x):
        return inner(x).reshape(dlvm.eval_shape(inner, x).shape)

    np.testing.assert_array_equal(f(np.ones(3)), [2, 2, 2])


def test_parameters_are_sized_before_any_is_made():
    def init(key):
        return {"w": dlvm.random.normal(key, (3, 2), "f32"), "b": dlvm.zeros(2)}

    assert types(dlvm.eval_shape(init, dlvm.random.key(0))) == {
        "w": ((3, 2), "float32"),
        "b": ((2,), "float64"),
    }


def test_a_mistake_in_the_function_is_told():
    with pytest.raises(UserError, match="matmul"):
        dlvm.eval_shape(lambda x: x @ x, np.ones((2, 3)))
    with pytest.raises(UserError, match=r"dlvm\.eval_shape takes a function"):
        dlvm.eval_shape(np.ones(3))  # type: ignore[arg-type]
