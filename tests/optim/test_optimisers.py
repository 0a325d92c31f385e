"""What holds for every optimiser: trees, element types, capture, derivatives, donation, errors."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm import optim
from dlvm.base.errors import UserError

MAKERS = {
    "sgd": optim.sgd,
    "momentum": lambda rate: optim.sgd(rate, momentum=0.9, nesterov=True),
    "adam": optim.adam,
    "adamw": optim.adamw,
    "lion": optim.lion,
    "rmsprop": optim.rmsprop,
    "centred": lambda rate: optim.rmsprop(rate, centered=True, momentum=0.5),
    "adagrad": optim.adagrad,
    "clipped": lambda rate: optim.chain(optim.clip_by_global_norm(0.5), optim.adam(rate)),
    "accumulated": lambda rate: optim.accumulate(optim.adam(rate), 2),
    "finite": lambda rate: optim.apply_if_finite(optim.adam(rate), 3),
    "scaled": lambda rate: optim.loss_scale(optim.adam(rate)),
}
SMOOTH = sorted(set(MAKERS) - {"lion", "scaled"})


@dataclass
class Model:
    w: Any
    steps: Any
    rest: Any
    act: str = "tanh"
    width: dlvm.static[int] = 3


def model():
    return Model(np.array([1.0, 0.0, -2.0]), 3, {"none": None, "b": np.float32([0.5])})


def energy(m):
    return (m.w**2).sum() + (m.rest["b"] ** 2).sum().astype(np.float64)


def step_of(make, rate=0.1):
    optimiser = make(rate)

    def step(params, state):
        updates, state = optimiser.update(dlvm.grad(energy)(params), state, params)
        return optim.apply(params, updates), state

    return optimiser, step


@pytest.mark.parametrize("name", MAKERS)
def test_leaves_without_a_gradient_stay_and_each_keeps_its_type(name):
    optimiser, step = step_of(MAKERS[name])
    for run in (step, dlvm.function(step)):
        params = model()
        state = optimiser.init(params)
        for _ in range(4):
            params, state = run(params, state)
        assert params.steps == 3 and params.rest["none"] is None
        assert (params.act, params.width) == ("tanh", 3)
        assert params.w.dtype == np.float64 and params.rest["b"].dtype == np.float32
        assert energy(params) < energy(model())
        assert params.w[1] == 0 and np.isfinite(params.w).all()


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_step_is_that_of_f64_in_every_element_type(name, dtype):
    made = MAKERS[name](0.125)
    p = np.array([1.0, 0.0, -0.375, 2.0**-12]).astype(dtype)

    @dlvm.function
    def steps(p, state):
        for _ in range(2):
            updates, state = made.update(p, state, p)
            p = optim.apply(p, updates)
        return p, state

    found, state = steps(p, made.init(p))
    expected, _ = steps(p.astype(np.float64), made.init(p.astype(np.float64)))
    assert found.dtype == dtype
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=4 * eps, atol=eps)
    kinds = {x.dtype for x in dlvm.tree.leaves(state) if x.dtype.kind not in "ib"}
    wide = np.float32 if np.dtype(dtype).itemsize == 2 else dtype
    assert kinds <= {np.dtype(wide), np.dtype(np.float32)}  # a scale of losses is f32 always


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", SMOOTH)
def test_the_slope_of_a_loss_by_the_learning_rate_goes_through_the_updates(name):
    """One of the parameters is 0, where square roots of moments have no slope."""

    def after(rate):
        params, made = model(), MAKERS[name](rate)
        state = made.init(params)
        for _ in range(4):
            updates, state = made.update(dlvm.grad(energy)(params), state, params)
            params = optim.apply(params, updates)
        return energy(params)

    h, f = 1e-5, dlvm.function(after)
    expected = (f(0.05 + h) - f(0.05 - h)) / (2 * h)
    np.testing.assert_allclose(dlvm.grad(after)(0.05), expected, rtol=1e-4)


def test_hyperparameters_may_be_differentiated_and_are_then_arguments():
    g = np.array([1.0, -2.0])

    @dlvm.function
    def moved(b1, b2, eps, decay):
        made = optim.adamw(0.1, b1=b1, b2=b2, eps=eps, weight_decay=decay)
        state = made.init(g)
        for k in range(2):
            updates, state = made.update(g * (k + 1), state, g)
        return (updates * np.array([1.0, 3.0])).sum()

    at = (0.9, 0.99, 0.1, 0.01)
    slopes = dlvm.grad(moved, wrt=(0, 1, 2, 3))(*at)
    for k, slope in enumerate(slopes):
        up, down = (moved(*(a + s * 1e-6 * (i == k) for i, a in enumerate(at))) for s in (1, -1))
        np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-6, atol=1e-9)
    assert len(moved.explain().compiles) == 1


def test_a_learning_rate_that_is_an_argument_compiles_once():
    g = {"w": np.ones(2)}

    @dlvm.function
    def by_rate(g, state, rate):
        return optim.adam(rate).update(g, state, g)[0]

    @dlvm.function
    def by_optimiser(g, state, made):
        return made.update(g, state, g)[0]

    for run, last in ((by_rate, lambda r: r), (by_optimiser, optim.adam)):
        for rate in (0.1, 0.2):
            found = run(g, optim.adam(1.0).init(g), last(rate))
            np.testing.assert_allclose(found["w"], -rate, rtol=1e-6)
        assert len(run.explain().compiles) == 1


def test_a_captured_optimiser_is_part_of_the_code_and_compared():
    g = np.ones(2)
    made = first = optim.sgd(0.1)
    factor = 0.25

    @dlvm.function
    def step(g, state):
        return made.update(g, state, g)[0]

    for made, expected in (
        (first, 0.1),
        (optim.sgd(0.1), 0.1),
        (optim.sgd(0.5), 0.5),
        (optim.sgd(optim.constant_schedule(0.3)), 0.3),
        (optim.sgd(lambda step: factor), 0.25),
    ):
        np.testing.assert_allclose(step(g, made.init(g)), -expected)
    assert len(step.explain().compiles) == 4
    factor = 0.75
    np.testing.assert_allclose(step(g, made.init(g)), -0.75)
    made = optim.chain(optim.clip(1.0), optim.sgd(lambda step: factor))
    np.testing.assert_allclose(step(g, made.init(g)), -0.75)
    factor = 0.5
    np.testing.assert_allclose(step(g, made.init(g)), -0.5)


def test_a_captured_array_as_a_learning_rate_is_read_at_each_call():
    g, rate = np.ones(2), np.array(0.25)
    made = optim.adam(rate)
    step = dlvm.function(lambda g, state: made.update(g, state, g)[0])
    with pytest.warns(dlvm.TraceWarning, match="pass it as an argument"):
        np.testing.assert_allclose(step(g, made.init(g)), -0.25, rtol=1e-6)
    rate[...] = 0.5
    np.testing.assert_allclose(step(g, made.init(g)), -0.5, rtol=1e-6)


def test_a_captured_array_that_a_schedule_computes_with_is_compared():
    g, rate = np.ones(2), np.array(0.25)
    made = optim.sgd(lambda step: rate * 2)
    step = dlvm.function(lambda g, state: made.update(g, state, g)[0])
    np.testing.assert_allclose(step(g, made.init(g)), -0.5)
    rate[...] = 0.5
    np.testing.assert_allclose(step(g, made.init(g)), -1.0)


def test_a_donated_state_is_written_in_place():
    params = {"w": np.ones((8, 8)), "b": np.ones(8)}
    made = optim.adam(0.1)

    @dlvm.function(donate=("params", "state"))
    def step(params, state):
        updates, state = made.update(params, state, params)
        return optim.apply(params, updates), state

    state = made.init(params)
    gc.collect()
    memory = {x.ctypes.data for x in dlvm.tree.leaves((params, state)) if x.ndim}
    params, state = step(params, state)
    assert {x.ctypes.data for x in dlvm.tree.leaves((params, state)) if x.ndim} == memory
    assert state[0].count.dtype == np.int64 and state[0].count == 1


def test_parameters_have_batches_under_vmap():
    rates, g = np.array([0.1, 0.2]), np.array([1.0, -1.0])

    def step(rate):
        made = optim.adam(rate)
        return made.update(g, made.init(g), g)[0]

    np.testing.assert_allclose(dlvm.vmap(step)(rates), -np.outer(rates, g), rtol=1e-6)


def test_a_whole_training_is_a_scan():
    made, target = optim.adam(optim.cosine_decay_schedule(0.2, 200)), np.array([1.0, -3.0])

    @dlvm.function
    def train(p):
        def step(carry, _):
            p, state = carry
            updates, state = made.update(p - target, state, p)
            return (optim.apply(p, updates), state), None

        return dlvm.scan(step, (p, made.init(p)), None, length=200)[0][0]

    np.testing.assert_allclose(train(np.zeros(2)), target, atol=1e-3)


P = {"w": np.ones(3), "b": np.ones(2)}
ADAM = optim.adam(0.1)
STATE = ADAM.init(P)
WRONG = {
    "gradients\\['w'\\].*found nothing": lambda: ADAM.update({"b": P["b"]}, STATE, P),
    "shape \\(2,\\).*the state.*\\(3,\\)": lambda: ADAM.update({**P, "w": np.ones(2)}, STATE, P),
    "gradients\\['w'\\] is i64": lambda: ADAM.update({**P, "w": np.ones(3, int)}, STATE, P),
    "tuple of 2 states": lambda: ADAM.update(P, STATE[0], P),
    "needs the parameters": lambda: optim.adamw(0.1).update(P, optim.adamw(0.1).init(P)),
    "the mask has another structure": lambda: _decayed({"v": True}),
    "the mask holds True and False, found int": lambda: _decayed({"w": 1, "b": False}),
    "params\\['n'\\] is i64": lambda: optim.apply({"n": 3}, {"n": 1.0}),
    "updates\\['w'\\] has the shape": lambda: optim.apply(P, {**P, "w": np.ones(2)}),
    "found 'fast'": lambda: optim.adam("fast"),
    "one number, found the shape": lambda: optim.adam(np.ones(2)),
    "missing a required argument: 'learning_rate'": lambda: optim.adam(),
    "found function": lambda: optim.chain(optim.adam),
    "k is a number of gradients": lambda: optim.accumulate(ADAM, 0),
    "decay_steps is a number of steps": lambda: optim.cosine_decay_schedule(0.1, 0),
    "2 schedules have 1 boundaries": lambda: optim.join_schedules([abs, abs], []),
    "did you mean dlvm.optim.adamw": lambda: optim.adam_w,
}


def _decayed(mask):
    made = optim.add_decayed_weights(0.1, mask)
    return made.update(P, made.init(P), P)


@pytest.mark.parametrize("said", WRONG)
def test_mistakes_are_told(said):
    with pytest.raises(UserError, match="(?s)" + said) as caught:
        WRONG[said]()
    assert caught.value.remedy and "test_optimisers.py" in str(caught.value)


def test_mistakes_in_a_trace_are_told_at_the_users_line():
    with pytest.raises(UserError, match=r"(?s)gradients\['w'\].*--> .*ADAM\.update"):
        dlvm.function(lambda p, s: ADAM.update({"b": p["b"]}, s, p))(P, STATE)


def test_an_error_of_a_schedule_is_the_users():
    with pytest.raises(AttributeError, match="nowhere"):
        optim.sgd(lambda step: step.nowhere).update(P, optim.sgd(0.1).init(P))


def test_a_mask_may_hold_for_subtrees_and_is_part_of_the_code():
    params = {"a": {"w": np.ones(2), "b": np.ones(2)}, "c": np.ones(2), "n": None}
    mask = {"a": True, "c": False, "n": False}
    made = optim.add_decayed_weights(0.5, mask)
    zeros = dlvm.tree.map(np.zeros_like, params)
    step = dlvm.function(lambda g, p: made.update(g, (), p)[0])
    for found in (made.update(zeros, (), params)[0], step(zeros, params)):
        assert found["a"]["w"][0] == found["a"]["b"][0] == 0.5 and found["c"][0] == 0
