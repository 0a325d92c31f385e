"""Optimisers of some of the parameters: masks, groups, and parameters that stay."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn, optim
from dlvm.base.errors import UserError

PARAMS = {"body": {"w": np.ones((2, 3)), "b": np.ones(3)}, "head": np.ones(2), "n": 3}
GRADS = {"body": {"w": np.full((2, 3), 0.5), "b": np.full(3, 2.0)}, "head": -np.ones(2), "n": None}


def runs(made):
    """Two steps of an optimiser, outside of a staged function and in one."""

    def steps(params, state):
        for _ in range(2):
            updates, state = made.update(GRADS, state, params)
            params = optim.apply(params, updates)
        return params, state

    return [run(PARAMS, made.init(PARAMS)) for run in (steps, dlvm.function(steps))]


def is_matrix(params):
    return dlvm.tree.map(lambda x: np.ndim(x) == 2, params)


@pytest.mark.parametrize(
    "mask", [is_matrix, {"body": {"w": True, "b": False}, "head": False, "n": True}]
)
def test_a_masked_optimiser_moves_and_remembers_what_the_mask_says(mask):
    inner = optim.adam(0.1)
    for params, state in runs(optim.chain(optim.masked(inner, mask), optim.scale(0.5))):
        np.testing.assert_allclose(params["body"]["w"], 0.9)
        np.testing.assert_allclose(params["body"]["b"], 3.0)  # these updates are the gradients
        np.testing.assert_allclose(params["head"], 0.0)
        assert params["n"] == 3
        mu = state[0].inner_state[0].mu
        assert mu["body"]["b"] is None and mu["head"] is None and mu["body"]["w"].shape == (2, 3)


def test_each_group_has_its_optimiser_and_its_rate():
    groups = {"slow": optim.sgd(0.1), "fast": optim.adamw(0.2), "fixed": optim.set_to_zero()}
    labels = {"body": {"w": "slow", "b": "fixed"}, "head": "fast", "n": "slow"}
    alone = optim.adamw(0.2)
    expected, state = PARAMS["head"], alone.init(PARAMS["head"])
    for _ in range(2):
        updates, state = alone.update(GRADS["head"], state, expected)
        expected = expected + updates
    for params, state in runs(optim.partition(groups, labels)):
        np.testing.assert_allclose(params["body"]["w"], 0.9)
        np.testing.assert_allclose(params["body"]["b"], 1.0)
        np.testing.assert_allclose(params["head"], expected, rtol=1e-12)
        assert state.inner_states["fast"].inner_state[0].mu["body"]["w"] is None


def test_a_label_may_stand_for_a_subtree_and_rates_of_groups_may_be_arguments():
    labels = {"body": "slow", "head": "fast", "n": "fast"}

    @dlvm.function
    def step(params, state, slow, fast):
        made = optim.partition({"slow": optim.sgd(slow), "fast": optim.sgd(fast)}, labels)
        return made.update(GRADS, state, params)[0]

    made = optim.partition({"slow": optim.sgd(1.0), "fast": optim.sgd(1.0)}, labels)
    for slow, fast in ((0.1, 1.0), (0.2, 2.0)):
        updates = step(PARAMS, made.init(PARAMS), slow, fast)
        np.testing.assert_allclose(updates["body"]["b"], -2 * slow)
        np.testing.assert_allclose(updates["head"], fast)
    assert len(step.explain().compiles) == 1


@pytest.mark.parametrize("freezes", [True, False], ids=["freeze", "partition"])
def test_layers_of_a_model_may_be_frozen(freezes):
    net = dlvm.tree.map(np.asarray, nn.MLP(dlvm.random.key(0), [3, 4, 2]))
    mask = dlvm.tree.map(lambda x: x.ndim == 2, net)
    made = optim.chain(optim.sgd(1.0), optim.freeze(mask))
    if not freezes:
        labels = dlvm.tree.map(lambda x: "fixed" if x.ndim == 2 else "free", net)
        made = optim.partition({"fixed": optim.set_to_zero(), "free": optim.sgd(1.0)}, labels)
    moved, _ = made.update(net, made.init(net), net)
    for x, p in zip(dlvm.tree.leaves(moved), dlvm.tree.leaves(net), strict=True):
        np.testing.assert_array_equal(x, 0 * p if p.ndim == 2 else -p)


def test_weights_of_a_model_may_decay_by_a_mask():
    net = dlvm.tree.map(np.asarray, nn.MLP(dlvm.random.key(0), [3, 4, 2]))
    mask = dlvm.tree.map(lambda x: x.ndim == 2, net)
    zeros = dlvm.tree.map(np.zeros_like, net)
    for marks in (mask, lambda params: mask):
        moved, _ = optim.add_decayed_weights(0.5, marks).update(zeros, (), net)
        for x, p in zip(dlvm.tree.leaves(moved), dlvm.tree.leaves(net), strict=True):
            np.testing.assert_array_equal(x, p / 2 if p.ndim == 2 else 0 * p)


def test_a_slope_goes_through_a_group():
    def after(rate):
        made = optim.partition(
            {"a": optim.adam(rate), "b": optim.set_to_zero()}, {"x": "a", "y": "b"}
        )
        params = {"x": np.ones(2), "y": np.ones(2)}
        updates, _ = made.update({"x": np.ones(2), "y": np.ones(2)}, made.init(params), params)
        return (optim.apply(params, updates)["x"] ** 2).sum()

    np.testing.assert_allclose(dlvm.grad(after)(0.25), -3.0, rtol=1e-6)


P = {"w": np.ones(3), "b": np.ones(2)}
GROUPS = {"a": optim.sgd(0.1), "b": optim.set_to_zero()}
WRONG = {
    "partition: expected one of the labels 'a', 'b' for params\\['b'\\], found 'c'": lambda: (
        optim.partition(GROUPS, {"w": "a", "b": "c"}).init(P)
    ),
    "labels have another structure": lambda: optim.partition(GROUPS, {"w": "a"}).init(P),
    "^the mask has another structure": lambda: optim.masked(optim.sgd(0.1), {"v": True}).init(P),
    "found function": lambda: optim.masked(optim.sgd, True),
    "partition: a part is an optimiser": lambda: optim.partition({"a": 3}, "a"),
    "found nothing": lambda: optim.freeze(True).update({"w": P["w"]}, ((),), P),
    "write dlvm.optim.partition": lambda: optim.multi_transform,
    "write dlvm.optim.accumulate": lambda: optim.MultiSteps,
    "write dlvm.optim.adamw": lambda: optim.AdamW,
    "write dlvm.optim.reduce_on_plateau": lambda: optim.ReduceLROnPlateau,
    "write dlvm.optim.apply": lambda: optim.apply_updates,
}


@pytest.mark.parametrize("said", WRONG)
def test_mistakes_are_told(said):
    with pytest.raises(UserError, match="(?s)" + said) as caught:
        WRONG[said]()
    assert caught.value.remedy and "test_grouping.py" in str(caught.value)
