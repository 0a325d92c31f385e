"""Hyperparameters that are read and set while an optimiser runs, and rates that a loss lowers."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import optim
from dlvm.base.errors import UserError

P = {"w": np.ones(3, np.float32)}
VALUES = [3.0, 2.0, 2.1, 2.0, 1.9, 1.9, 2.5, 1.9, 1.9, 1.9, 1.0, 1.2]


def runs(made):
    """Its update, outside of a staged function and in one."""
    return made.update, dlvm.function(lambda g, state, params: made.update(g, state, params))


def test_a_rate_is_read_and_set_and_nothing_is_compiled_again():
    made = optim.inject_hyperparams(optim.adamw)(0.5, weight_decay=0.0)
    for update in runs(made):
        state = made.init(P)
        moved, state = update(P, state, P)
        np.testing.assert_allclose(moved["w"], -0.5, rtol=1e-6)
        assert state.hyperparams["learning_rate"].dtype == np.float32
        state.hyperparams["learning_rate"] = np.float32(0.25)
        moved, state = update(P, state, P)
        np.testing.assert_allclose(moved["w"], -0.25, rtol=1e-6)
        assert state.hyperparams["learning_rate"] == 0.25 and state.count == 2
    assert len(update.explain().compiles) == 1


def test_a_schedule_is_evaluated_at_each_step_and_shown():
    made = optim.inject_hyperparams(optim.sgd)(optim.linear_schedule(1.0, 0.0, 4), momentum=None)
    for update in runs(made):
        state, rates = made.init(P), []
        for _ in range(3):
            moved, state = update(P, state, P)
            rates.append(state.hyperparams["learning_rate"])
            np.testing.assert_allclose(moved["w"], -rates[-1])
        np.testing.assert_allclose(rates, [1.0, 0.75, 0.5])


def test_arguments_may_stay_as_they_are():
    made = optim.inject_hyperparams(optim.adafactor, "min_dim_size_to_factor")(0.1, 4)
    assert "min_dim_size_to_factor" not in made.init(P).hyperparams
    with pytest.raises(UserError, match="names of parameters of adam, found 'rate'"):
        optim.inject_hyperparams(optim.adam, "rate")


@pytest.mark.parametrize(
    "options, scales",
    [  # what optax.contrib.reduce_on_plateau gives
        (
            {"factor": 0.5, "patience": 2, "cooldown": 1},
            [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125],
        ),
        (
            {"factor": 0.5, "patience": 2, "accumulation_size": 2, "rtol": 0.2, "atol": 0.01},
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5],
        ),
        ({"factor": 0.1, "patience": 1, "min_scale": 0.05}, [1, 1, 0.1, *[0.05] * 9]),
    ],
)
def test_a_rate_is_lowered_where_a_loss_no_longer_falls(options, scales):
    made = optim.chain(optim.sgd(1.0), optim.reduce_on_plateau(**options))

    @dlvm.function
    def update(g, state, value):
        return made.update(g, state, value=value)

    for run in (lambda g, state, value: made.update(g, state, value=value), update):
        state, found = made.init(P), []
        for value in VALUES:
            moved, state = run(P, state, value)
            found.append(-moved["w"][0])
        np.testing.assert_allclose(found, scales, rtol=1e-6)


def test_mistakes_are_told():
    made = optim.reduce_on_plateau()
    for said, wrong in {
        "needs the value of the loss": lambda: made.update(P, made.init(P)),
        "a factor between 0 and 1, found 1.5": lambda: optim.reduce_on_plateau(1.5),
        "an atol of 0 or more": lambda: optim.reduce_on_plateau(atol=-1.0),
    }.items():
        with pytest.raises(UserError, match=said) as caught:
            wrong()
        assert caught.value.remedy


@pytest.mark.parametrize("run", [lambda f: f, dlvm.function])
def test_a_state_shares_no_memory_with_the_arrays_it_is_made_of(run):
    params, rate = {"w": np.ones(3)}, np.array(0.1)
    for given in (rate, lambda step: rate):
        made = optim.inject_hyperparams(optim.sgd)(learning_rate=given)
        state = made.init(params)
        assert not np.shares_memory(state.hyperparams["learning_rate"], rate)
        _, state = run(lambda s, made=made: made.update(params, s, params))(state)
        assert not np.shares_memory(state.hyperparams["learning_rate"], rate)
