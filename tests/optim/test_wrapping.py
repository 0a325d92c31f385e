"""Gradients that are clipped, added up, scaled or not finite."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import optim


def runs(made):
    """Its update, outside of a staged function and in one."""
    return made.update, dlvm.function(lambda g, state, params: made.update(g, state, params))


def test_the_norm_is_that_of_all_leaves_and_of_its_gradient_at_zero():
    tree = {"a": np.full((2, 2), 3.0, np.float32), "b": [np.array([8.0]), None]}
    assert optim.global_norm(tree) == 10 and optim.global_norm({"a": None}) == 0
    slope = dlvm.grad(optim.global_norm)(dlvm.tree.map(np.zeros_like, tree))
    assert not slope["a"].any()
    half = optim.global_norm(np.full(4, 300.0, np.float16))
    assert half.dtype == np.float32 and half == 600  # the sum of squares is beyond f16


@pytest.mark.parametrize("norm, factor", [(5.0, 0.5), (20.0, 1.0)])
def test_clipping_keeps_the_direction(norm, factor):
    tree = {"a": np.full((2, 2), 3.0, np.float32), "b": np.array([8.0])}
    for update in runs(optim.clip_by_global_norm(norm)):
        found, _ = update(tree, (), tree)
        np.testing.assert_allclose(found["a"], 3 * factor)
        np.testing.assert_allclose(found["b"], 8 * factor)


def test_a_mean_of_gradients_makes_one_step():
    made = optim.accumulate(optim.sgd(1.0), 3)
    for update in runs(made):
        state, found = made.init(np.zeros(2)), []
        for g in range(1, 7):
            moved, state = update(np.full(2, float(g)), state, np.zeros(2))
            found.append(moved[0])
        np.testing.assert_allclose(found, [0, 0, -2, 0, 0, -5])
        assert state.gradient_step == 2 and state.mini_step == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_step_that_is_not_finite_changes_nothing_but_counts(bad):
    made = optim.apply_if_finite(optim.adam(0.1), 2)
    for update in runs(made):
        before = made.init(np.zeros(2))
        _, before = update(np.ones(2), before, np.zeros(2))
        moved, after = update(np.array([1.0, bad]), before, np.zeros(2))
        assert not moved.any() and after.notfinite_count == 1 and not after.last_finite
        for a, b in zip(*map(dlvm.tree.leaves, (before.inner, after.inner)), strict=True):
            np.testing.assert_array_equal(a, b)
        _, again = update(np.ones(2), after, np.zeros(2))
        assert again.notfinite_count == 0 and again.total_notfinite == 1 and again.last_finite


def test_after_too_many_bad_steps_one_is_taken():
    made = optim.apply_if_finite(optim.sgd(1.0), 2)
    for update in runs(made):
        state, found = made.init(np.zeros(1)), []
        for _ in range(4):
            moved, state = update(np.array([np.nan]), state, np.zeros(1))
            found.append(np.isnan(moved).all())
        assert found == [False, False, True, True]


def test_a_loss_is_scaled_and_steps_that_overflow_are_left_out():
    """In f16 the gradient of this loss is below the least number until it is scaled."""
    made = optim.loss_scale(optim.sgd(2.0**20), initial=2.0**20, interval=2)

    @dlvm.function
    def step(params, state):
        def loss(p):
            small = (p.astype("f16") * np.float16(2.0**-14)).sum() * np.float16(2.0**-12)
            return small.astype("f32") * state.scale

        updates, state = made.update(dlvm.grad(loss)(params), state, params)
        return optim.apply(params, updates), state

    params, scales, skipped = np.ones(2, np.float32), [], []
    state = made.init(params)
    for _ in range(8):
        params, state = step(params, state)
        scales.append(float(np.log2(state.scale)))
        skipped.append(int(state.total_notfinite))
    assert scales == [19, 18, 17, 16, 15, 15, 16, 15]
    assert skipped == [1, 2, 3, 4, 5, 5, 5, 6]
    assert params.dtype == np.float32 and (params == 1 - 2 * 2.0 ** (20 - 26)).all()


def test_the_scale_shrinks_and_grows_as_stated():
    made = optim.loss_scale(optim.sgd(1.0), initial=8.0, interval=2, factor=4.0)
    for update in runs(made):
        state, found = made.init(np.zeros(1)), []
        for g in (8.0, np.inf, 2.0, 2.0, 8.0):
            moved, state = update(np.array([g]), state, np.zeros(1))
            found.append((float(moved[0]), float(state.scale)))
        assert found == [(-1.0, 8.0), (0.0, 2.0), (-1.0, 2.0), (-1.0, 8.0), (-1.0, 8.0)]
        assert state.total_notfinite == 1


def test_infinities_of_plain_arrays_warn_of_nothing():
    g = np.array([1e300, np.inf, np.nan])
    for made in (optim.adam(0.1), optim.clip_by_global_norm(1.0), optim.adamw(0.1)):
        made.update(g, made.init(g), g)
