"""Metrics over batches are those of all examples at once, staged or not."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import UserError
from dlvm.nn import metrics

DICE = np.random.default_rng(0)
SCORES, LABELS = DICE.normal(size=(23, 4)), DICE.integers(0, 4, size=23)
FOUND, KEPT = SCORES.argmax(-1), DICE.random(23) < 0.7
MATRIX = np.array([[((i == LABELS) & (j == FOUND)).sum() for j in range(4)] for i in range(4)])
RIGHT = np.diag(MATRIX)
PRECISION, RECALL = RIGHT / MATRIX.sum(0), RIGHT / MATRIX.sum(1)
SIGNS, CHANCES = LABELS % 2, np.round(DICE.random(23), 1) * 0.999
ABOVE = CHANCES[SIGNS == 1][:, None] - CHANCES[SIGNS == 0]
RANKS = (SCORES[np.arange(23), LABELS][:, None] < SCORES).sum(-1)
CASES = {
    "accuracy": (metrics.Accuracy(), SCORES, LABELS, (FOUND == LABELS).mean()),
    "accuracy of classes": (metrics.Accuracy(), FOUND, LABELS, (FOUND == LABELS).mean()),
    "top 2": (metrics.TopK(2), SCORES, LABELS, (RANKS < 2).mean()),
    "confusion": (metrics.Confusion(4), SCORES, LABELS, MATRIX),
    "precision": (metrics.Precision(4), SCORES, LABELS, PRECISION.mean()),
    "precision of each": (metrics.Precision(4, None), FOUND, LABELS, PRECISION),
    "recall": (metrics.Recall(4, None), SCORES, LABELS, RECALL),
    "micro recall": (metrics.Recall(4, "micro"), SCORES, LABELS, (FOUND == LABELS).mean()),
    "f1": (
        metrics.F1(4, None),
        SCORES,
        LABELS,
        2 * PRECISION * RECALL / np.maximum(PRECISION + RECALL, 1e-9),
    ),
    "auc": (metrics.AUC(), CHANCES, SIGNS, ((ABOVE > 0) + 0.5 * (ABOVE == 0)).mean()),
    "mean": (metrics.Mean(), SCORES, None, SCORES.mean()),
}


def over(metric, update, x, y):
    """The state after batches of 10, 10, 3 and no examples."""
    state = metric.init()
    for k in (0, 10, 20, 30):
        rest = () if y is None else (y[k : k + 10],)
        state = update(state, x[k : k + 10], *rest)
    return state


@pytest.mark.parametrize("name", CASES)
def test_batches_add_up_to_all_examples(name):
    metric, x, y, expected = CASES[name]
    state = over(metric, metric.update, x, y)
    np.testing.assert_allclose(metric.compute(state), expected, rtol=1e-12)
    nothing = np.asarray(metric.compute(metric.init()))
    assert np.isnan(nothing).all() or not nothing.any()


@pytest.mark.parametrize("name", ["accuracy", "top 2", "f1"])
def test_scores_may_be_halves(name):
    metric, x, y, expected = CASES[name]
    half = metric.update(metric.init(), x.astype(np.float16), y)
    np.testing.assert_allclose(metric.compute(half), expected, rtol=1e-12)


def test_all_of_them_run_in_one_staged_loop_and_with_masks():
    made = {k: (m, x, y) for k, (m, x, y, _) in CASES.items()}

    @dlvm.function
    def run(keep):
        states = {k: m.init() for k, (m, _, _) in made.items()}

        def step(states, i):
            after = {}
            for k, (m, x, y) in made.items():
                row = (dlvm.asarray(x)[i], *([] if y is None else [dlvm.asarray(y)[i]]))
                after[k] = m.update(states[k], *row, where=keep[i])
            return after, None

        states, _ = dlvm.scan(step, states, np.arange(23))
        return {k: m.compute(states[k]) for k, (m, _, _) in made.items()}

    for name, found in run(np.ones(23, bool)).items():
        np.testing.assert_allclose(found, CASES[name][-1], rtol=1e-12, err_msg=name)
    for name, found in run(KEPT).items():
        metric, x, y, _ = CASES[name]
        rest = () if y is None else (y[KEPT],)
        some = metric.compute(metric.update(metric.init(), x[KEPT], *rest))
        np.testing.assert_allclose(found, some, rtol=1e-12, err_msg=name)


def test_states_add_up_and_have_batches():
    metric = metrics.Accuracy()
    halves = [metric.update(metric.init(), SCORES[s], LABELS[s]) for s in (slice(9), slice(9, 23))]
    both = dlvm.tree.map(np.add, *halves)
    assert metric.compute(both) == (FOUND == LABELS).mean()
    rows = dlvm.vmap(lambda x, y: metric.compute(metric.update(metric.init(), x, y)))
    np.testing.assert_array_equal(rows(SCORES, LABELS), FOUND == LABELS)


def test_a_mean_has_weights_and_ignores_what_has_none():
    metric = metrics.Mean()
    state = metric.update(metric.init(), np.array([1.0, 3.0, np.nan]), np.array([1.0, 3.0, 0.0]))
    assert metric.compute(state) == 2.5


def test_mistakes_are_told():
    for said, wrong in {
        "Accuracy: expected scores": lambda: metrics.Accuracy().update(
            metrics.Accuracy().init(), SCORES, LABELS[:3]
        ),
        "an average among 'macro'": lambda: metrics.F1(3, "mean"),
        "a score for each label": lambda: metrics.AUC().update(
            metrics.AUC().init(), SCORES, LABELS
        ),
    }.items():
        with pytest.raises(UserError, match=said) as caught:
            wrong()
        assert caught.value.remedy
    assert nn.metrics is metrics
