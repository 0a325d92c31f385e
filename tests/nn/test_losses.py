"""Losses beside cross-entropy: values by their formulas, gradients by differences, and edges."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import UserError
from dlvm.testing import gradcheck

DICE = np.random.default_rng(0)
X, T = DICE.normal(size=(5, 3)), DICE.normal(size=(5, 3))
HARD, COUNTS = (T > 0) * 1.0, np.arange(15.0).reshape(5, 3) % 4
VAR = np.abs(T[:, :1]) + 0.1
MAPS = DICE.normal(size=(3, 2, 5, 4))
CLASSES = np.eye(4)[DICE.integers(0, 4, size=(3, 2, 5))]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def smooth_l1(x, t, beta):
    d = np.abs(x - t)
    return np.where(d < beta, d * d / 2 / beta, d - beta / 2)


def focal(x, t, alpha, gamma):
    p = np.where(t == 1, sigmoid(x), sigmoid(-x))
    return -np.where(t == 1, alpha, 1 - alpha) * (1 - p) ** gamma * np.log(p)


def cosine(x, t):
    return (x * t).sum(-1) / np.linalg.norm(x, axis=-1) / np.linalg.norm(t, axis=-1)


def overlap(p, t, alpha=0.5, beta=0.5):
    both, found, there = ((z).sum((1, 2)) for z in (p * t, p, t))
    return 1 - (both + 1) / (both + alpha * (found - both) + beta * (there - both) + 1)


def stirling(t):
    safe = np.maximum(t, 1)
    return np.where(t > 1, safe * np.log(safe) - safe + np.log(2 * np.pi * safe) / 2, 0)


CASES = {
    "smooth_l1_loss": (lambda x: nn.smooth_l1_loss(x, T, 0.5), X, smooth_l1(X, T, 0.5)),
    "log_cosh": (lambda x: nn.log_cosh(x, T), X, np.log(np.cosh(X - T))),
    "hinge_loss": (
        lambda x: nn.hinge_loss(x, 2 * HARD - 1),
        X,
        np.maximum(0, 1 - X * (2 * HARD - 1)),
    ),
    "gaussian_nll_loss": (
        lambda x: nn.gaussian_nll_loss(x, T, VAR, full=True),
        X,
        0.5 * np.log(2 * np.pi * VAR) + (X - T) ** 2 / 2 / VAR,
    ),
    "gaussian_nll_loss of its variance": (
        lambda v: nn.gaussian_nll_loss(X, T, v),
        VAR,
        0.5 * np.log(VAR) + (X - T) ** 2 / 2 / VAR,
    ),
    "poisson_nll_loss": (lambda x: nn.poisson_nll_loss(x, COUNTS), X, np.exp(X) - COUNTS * X),
    "poisson_nll_loss of rates": (
        lambda x: nn.poisson_nll_loss(x, COUNTS, log_input=False, full=True),
        np.abs(X) + 0.1,
        np.abs(X) + 0.1 - COUNTS * np.log(np.abs(X) + 0.1 + 1e-8) + stirling(COUNTS),
    ),
    "cosine_similarity": (lambda x: nn.cosine_similarity(x, T), X, cosine(X, T)),
    "cosine_distance": (lambda x: nn.cosine_distance(x, T, axis=0), X, 1 - cosine(X.T, T.T)),
    "sigmoid_focal_loss": (
        lambda x: nn.sigmoid_focal_loss(x, HARD, alpha=0.25, gamma=1.5),
        X,
        focal(X, HARD, 0.25, 1.5),
    ),
    "dice_loss": (
        lambda x: nn.dice_loss(x, CLASSES),
        MAPS,
        overlap(softmax(MAPS), CLASSES).mean(-1),
    ),
    "dice_loss of one class": (
        lambda x: nn.dice_loss(x, CLASSES[..., :1], alpha=1.0, beta=0.25),
        MAPS[..., :1],
        overlap(sigmoid(MAPS[..., :1]), CLASSES[..., :1], 1.0, 0.25)[:, 0],
    ),
    "dice_loss without the background": (
        lambda x: nn.dice_loss(
            x, CLASSES, class_weights=np.arange(4.0), ignore_background=True, apply_softmax=False
        ),
        softmax(MAPS),
        (overlap(softmax(MAPS), CLASSES) * np.arange(4.0))[:, 1:].mean(-1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_formula_and_gradients_those_of_differences(name, monkeypatch):
    f, x, expected = CASES[name]
    np.testing.assert_allclose(f(x), expected, rtol=1e-9, atol=1e-12)
    half = f(x.astype(np.float16))
    np.testing.assert_allclose(half, expected, rtol=2e-2, atol=2e-2)
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    np.testing.assert_allclose(dlvm.function(f)(x), expected, rtol=1e-9, atol=1e-12)
    gradcheck(f, x, order=2, elements=2)


def test_all_of_them_compile_for_halves_batches_and_open_sizes():
    def each(x, t):
        hard = (t > 0).astype(x.dtype)
        return [
            nn.smooth_l1_loss(x, t),
            nn.log_cosh(x, t),
            nn.hinge_loss(x, 2 * hard - 1),
            nn.gaussian_nll_loss(x, t, dlvm.abs(t) + 1),
            nn.poisson_nll_loss(x, hard),
            nn.cosine_distance(x, t),
            nn.sigmoid_focal_loss(x, hard),
            nn.dice_loss(x, hard),
        ]

    expected = [each(X * k, T) for k in (1.0, 0.5)]
    stacked = np.stack([X, X * 0.5])
    mapped = dlvm.function(dlvm.vmap(each, in_axes=(0, None)))(stacked, T)
    for k, found in enumerate(mapped):
        np.testing.assert_allclose(found, [e[k] for e in expected], rtol=1e-12, atol=1e-14)
    short = dlvm.function(each)(*(x.astype(ml_dtypes.bfloat16) for x in (X, T)))
    for found, value in zip(short, expected[0], strict=True):
        assert found.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(found.astype(float), value, rtol=0.1, atol=0.1)
    assert all(loss.size == 0 for loss in each(X[:0], T[:0]))


def test_the_angle_of_a_vector_of_zeros_is_right_and_has_a_gradient():
    zeros = np.zeros(3)
    assert nn.cosine_similarity(zeros, T[0]) == 0
    assert np.isfinite(dlvm.grad(lambda x: nn.cosine_similarity(x, T[0]))(zeros)).all()


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_losses_are_reduced(reduction):
    found = nn.log_cosh(X, T, reduction=reduction)
    np.testing.assert_allclose(found, getattr(nn.log_cosh(X, T), reduction)(), rtol=1e-12)


LOGITS = DICE.normal(size=(4, 5, 3))
LABELS = np.array([[1, 1], [2, 1], [2, 0], [0, 0]])
LABEL_ENDS = np.array([[0, 0], [0, 0], [0, 1], [1, 1]])
ENDS = np.array([[0] * 5, [0] * 4 + [1], [0, 0, 1, 1, 1], [0] * 5])


def by_all_ways(logits, ends, labels, label_ends):
    """The sum over every sequence of classes that means the labels."""
    logs = np.log(softmax(logits[ends == 0]))
    wanted, total = list(labels[label_ends == 0]), 0.0
    for way in itertools.product(range(3), repeat=len(logs)):
        merged = [k for k, _ in itertools.groupby(way)]
        if [k for k in merged if k] == wanted:
            total += np.exp(sum(logs[i, k] for i, k in enumerate(way)))
    return -np.log(total)


def test_ctc_is_the_sum_over_all_ways_to_place_the_labels(monkeypatch):
    rows = zip(LOGITS, ENDS, LABELS, LABEL_ENDS, strict=True)
    expected = [by_all_ways(*row) for row in rows]

    def loss(logits):
        return nn.ctc_loss(logits, ENDS, LABELS, LABEL_ENDS)

    for f in (loss, dlvm.function(loss)):
        np.testing.assert_allclose(f(LOGITS), expected, rtol=1e-10)
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    half = loss(LOGITS.astype(np.float16))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, expected, rtol=5e-3)
    moved = nn.ctc_loss(LOGITS[..., [1, 2, 0]], ENDS, (LABELS + 2) % 3, LABEL_ENDS, blank_id=2)
    np.testing.assert_allclose(moved, expected, rtol=1e-10)
    batch = dlvm.vmap(loss)(np.stack([LOGITS, 0 * LOGITS]))
    np.testing.assert_allclose(batch, [expected, loss(0 * LOGITS)], rtol=1e-10)
    gradcheck(loss, LOGITS, elements=3)


def test_ctc_of_nothing_and_of_labels_that_do_not_fit():
    nothing = nn.ctc_loss(LOGITS[:0], ENDS[:0], LABELS[:0], LABEL_ENDS[:0])
    assert nothing.shape == (0,)
    blank = nn.ctc_loss(LOGITS, 0 * ENDS, LABELS[:, :0], LABEL_ENDS[:, :0])
    np.testing.assert_allclose(blank, -np.log(softmax(LOGITS))[:, :, 0].sum(1), rtol=1e-12)
    short = nn.ctc_loss(LOGITS[:, :1], ENDS[:, :1], LABELS, 0 * LABEL_ENDS)
    assert (short > 9e4).all()
    slope = dlvm.grad(lambda x: nn.ctc_loss(x, ENDS[:, :1], LABELS, 0 * LABEL_ENDS).sum())
    assert np.isfinite(slope(LOGITS[:, :1])).all()


def test_mistakes_are_told():
    for said, wrong in {
        "expected logits \\(examples, steps, classes\\)": lambda: nn.ctc_loss(
            LOGITS, ENDS, LABELS, ENDS
        ),
        "hinge_loss: expected targets of the shape": lambda: nn.hinge_loss(X, T[0]),
        "a positive beta": lambda: nn.smooth_l1_loss(X, T, 0.0),
        "give one class an axis": lambda: nn.dice_loss(X[0], T[0]),
        "expected a reduction": lambda: nn.log_cosh(X, T, reduction="all"),
    }.items():
        with pytest.raises(UserError, match=said) as caught:
            wrong()
        assert caught.value.remedy
