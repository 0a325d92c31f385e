"""Optimisers and schedules against results of optax, which ``stored`` has written."""

from __future__ import annotations

import json

import numpy as np
import pytest

import dlvm
from dlvm import optim
from dlvm.base.errors import UserError

from .problem import SHAPES, STEPS, arrays, loss, optimisers, schedules
from .stored import FILE

STORED = json.loads(FILE.read_text("utf8"))
OURS = optimisers(
    optim, lambda params: dlvm.tree.map(lambda p: p.ndim > 1, params), optim.accumulate
)
SCHEDULES = schedules(optim)


def trained(name, dtype, steps, staged=True, donate=()):
    """Parameters after some steps of an optimiser, and its state."""
    data, optimiser = arrays(dtype), OURS[name]
    x, y = data["x"], data["y"]

    def step(params, state):
        slope = dlvm.grad(lambda p: loss(p, x, y, dlvm))(params)
        updates, state = optimiser.update(slope, state, params)
        return optim.apply(params, updates), state

    step = dlvm.function(step, donate=donate) if staged else step
    params = {k: data[k] for k in SHAPES}
    state = optimiser.init(params)
    for _ in range(steps):
        params, state = step(params, state)
    return params, state


DRAWN = {"radam of Nesterov", "adamax", "amsgrad", "adadelta", "adabelief", "lamb", "lars"}
DRAWN |= {"adafactor with all", "muon with all", "smoothed", "groups"}
"""Cases of which a run takes one in three."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.drawn(3)] if n in DRAWN else []) for n in OURS]
)
def test_fifty_steps_in_f64_are_those_of_optax(name):
    params, _ = trained(name, np.float64, STEPS, donate=("params", "state"))
    digits = 1e-7 if name == "adafactor with all" else 1e-9  # optax keeps its momentum in f32
    for key, expected in STORED["f64"][name].items():
        np.testing.assert_allclose(params[key], expected, rtol=digits, atol=digits, err_msg=key)


@pytest.fixture
def interpreted(monkeypatch):
    """Types and formulas are at stake: machine code is that of the fifty steps."""
    monkeypatch.setenv("DLVM_INTERPRET", "1")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", OURS)
def test_a_step_in_f32_is_that_of_optax(name, interpreted):
    params, _ = trained(name, np.float32, 1)
    for key, expected in STORED["f32"][name].items():
        assert params[key].dtype == np.float32
        np.testing.assert_allclose(params[key], expected, rtol=1e-5, atol=1e-6, err_msg=key)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", OURS)
def test_steps_outside_of_staged_functions_are_the_same(name, interpreted):
    staged, unstaged = (trained(name, np.float64, 4, s) for s in (True, False))
    assert dlvm.tree.structure(staged) == dlvm.tree.structure(unstaged)
    for a, b in zip(dlvm.tree.leaves(staged), dlvm.tree.leaves(unstaged), strict=True):
        assert type(a) is type(b) is np.ndarray and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_those_of_optax(name):
    schedule, expected = SCHEDULES[name], STORED["schedules"][name]
    steps = range(len(expected))
    np.testing.assert_allclose([schedule(i) for i in steps], expected, rtol=1e-14)
    staged = dlvm.function(schedule)
    np.testing.assert_allclose([staged(np.asarray(i)) for i in steps], expected, rtol=1e-14)


def test_every_optimiser_and_schedule_is_compared():
    assert set(OURS) == set(STORED["f64"]) == set(STORED["f32"])
    assert set(SCHEDULES) == set(STORED["schedules"])


def test_schedules_refuse_what_has_no_meaning():
    with pytest.raises(UserError, match="transition_steps is a number of steps above 0"):
        optim.cosine_onecycle_schedule(0, 0.1)
    with pytest.raises(UserError, match="expected 'linear' or 'cosine', found 'cubic'"):
        optim.piecewise_interpolate_schedule("cubic", 1.0, {3: 0.5})
    with pytest.raises(UserError, match="the arguments of one cycle or more"):
        optim.sgdr_schedule([])
