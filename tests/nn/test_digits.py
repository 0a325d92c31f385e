"""Digits of losses and layers: where numbers cancel, overflow, or are infinite, NaN or missing."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import ArgumentError, ShapeError

ENDS = [-1e4, -700.0, -100.0, -20.0, -1.0, -1e-3, -1e-6, 0.0]
FINITE = np.array([*ENDS, *(-x for x in ENDS)])
ALL = np.array([*FINITE, np.inf, -np.inf, np.nan])
HALVES = pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
Long = np.longdouble


def close(found, expected, kind, atol=None):
    limits = np.finfo(kind)
    expected = np.asarray(expected).astype(kind)
    atol = limits.smallest_normal if atol is None else atol
    np.testing.assert_allclose(np.asarray(found), expected, rtol=8 * float(limits.eps), atol=atol)


def log_cosh(x):
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.logaddexp(x, -x) - np.log(Long(2))
        return np.where(np.abs(x) < 0.1, x**2 / 2 - x**4 / 12 + x**6 / 45, far)


@HALVES
def test_log_cosh_and_its_slope_keep_all_digits_near_0_and_far_out(kind):
    x = ALL.astype(kind)
    close(nn.log_cosh(x, np.zeros_like(x)), log_cosh(x.astype(Long)), kind)
    slope = dlvm.grad(lambda x: nn.log_cosh(x, np.zeros_like(FINITE, kind)).sum())
    close(slope(x[: len(FINITE)]), np.tanh(FINITE.astype(kind).astype(Long)), kind)


@HALVES
@pytest.mark.parametrize("label", [0, 1])
def test_binary_entropy_keeps_the_digits_of_small_losses_and_takes_infinite_logits(kind, label):
    x = ALL.astype(kind)
    t = np.full_like(x, label)
    wrong = (1 - 2 * label) * x.astype(Long)
    with np.errstate(over="ignore", invalid="ignore"):
        power = 1 / (1 + np.exp(-wrong))
        expected = np.logaddexp(0, wrong)
    close(nn.binary_cross_entropy_with_logits(x, t), expected, kind)
    slope = dlvm.grad(lambda x: nn.binary_cross_entropy_with_logits(x, t).sum())(x)
    close(slope, (1 - 2 * label) * power, kind)
    finite = slice(len(FINITE))
    close(nn.sigmoid_focal_loss(x, t), expected * power**2, kind)
    for gamma in (0.0, 0.5, 2.0):
        found = dlvm.grad(lambda x, g=gamma: nn.sigmoid_focal_loss(x, t[finite], gamma=g).sum())
        assert np.isfinite(found(x[finite])).all()


def test_the_slope_of_binary_entropy_is_right_at_0_and_with_respect_to_targets():
    def loss(x, t):
        return nn.binary_cross_entropy_with_logits(x, t, pos_weight=3.0)

    by_x, by_t = dlvm.grad(loss, wrt=(0, 1))(0.0, 0.25)
    np.testing.assert_allclose([by_x, by_t], [0.75 / 2 - 3 * 0.25 / 2, 2 * np.log(2)])
    assert dlvm.grad(lambda x: dlvm.grad(loss)(x, 0.0))(0.0) == 0.25


@HALVES
def test_dice_of_many_places_overflows_nowhere_and_keeps_the_digits_of_small_losses(kind):
    x = np.full((1, 400, 400, 1), 8, kind)
    missed = 1 / (1 + np.exp(8.0))
    count = 400 * 400
    expected = 0.5 * missed * count / (count * (1 - missed / 2) + 1)
    np.testing.assert_allclose(nn.dice_loss(x, np.ones_like(x)), [expected], rtol=2e-3)
    many = np.zeros((1, 300, 300, 2), kind)
    np.testing.assert_allclose(nn.dice_loss(many, np.ones_like(many)), [1 / 3], rtol=1e-3)


def test_halves_of_losses_are_computed_wide_and_rounded_once():
    x, zero = np.full(512, 300.0, np.float16), np.zeros(512, np.float16)
    assert nn.cosine_similarity(x, x) == 1 and nn.cosine_distance(x, -x) == 2
    assert nn.mse_loss(x, zero + np.float16(299), reduction="sum") == 512
    assert nn.mse_loss(x[:1], zero[:1]) == np.inf
    assert nn.poisson_nll_loss(zero, zero, log_input=False, reduction="sum") == 0
    rows = np.zeros((2, 70000), np.float16)
    for found in (nn.log_softmax(rows), -nn.cross_entropy(rows, np.array([0, 1]))):
        assert found.dtype == np.float16
        np.testing.assert_allclose(found, -np.log(70000), rtol=1e-3)
    np.testing.assert_allclose(nn.softmax(rows).astype(float), 1 / 70000, rtol=0.01)
    labels = np.full((2, 70000), 1 / 70000)
    assert nn.cross_entropy(rows, labels).dtype == np.float64


def test_integers_are_floats_before_they_are_subtracted_or_multiplied():
    one, two = np.array([1], np.uint8), np.array([2], np.uint8)
    assert nn.l1_loss(one, two) == 1 == nn.mse_loss(one, two) == 2 * nn.huber_loss(one, two)
    assert nn.hinge_loss(np.array([100], np.int8), np.array([-100], np.int8)) == 10001


def test_a_variance_or_a_weight_that_would_make_more_losses_is_refused():
    x = np.ones((2, 3))
    with pytest.raises(ShapeError, match="does not stretch"):
        nn.gaussian_nll_loss(x[0], x[0], np.ones((3, 1)))
    with pytest.raises(ShapeError, match="does not stretch"):
        nn.dice_loss(x, x, class_weights=np.ones((4, 1, 1)))


def test_ctc_of_infinite_logits_and_of_a_blank_that_is_no_class():
    logits, ends = np.zeros((1, 3, 3)), np.zeros((1, 3))
    logits[..., 2] = -np.inf
    args = (ends, np.array([[1, 1]]), np.zeros((1, 2)))
    np.testing.assert_allclose(nn.ctc_loss(logits, *args), 3 * np.log(2))
    slope = dlvm.grad(lambda x: nn.ctc_loss(x, *args).sum())(logits)
    assert np.isfinite(slope).all()
    assert nn.ctc_loss(logits[:, :2], ends[:, :2], *args[1:], log_epsilon=-np.inf) == np.inf
    for blank in (-1, 3):
        with pytest.raises(ArgumentError, match="a blank_id from 0 to 2"):
            nn.ctc_loss(logits, *args, blank_id=blank)


def test_what_is_in_one_window_does_not_reach_another():
    x = np.arange(10.0).reshape(1, 10, 1)
    x[0, :2, 0] = np.nan, np.inf
    np.testing.assert_array_equal(nn.adaptive_avg_pool(x, 3).ravel(), [np.nan, 4.5, 7.5])
    np.testing.assert_array_equal(nn.adaptive_avg_pool(x[:, 1:], 3).ravel(), [np.inf, 5, 8])


def test_bags_of_halves_are_summed_wide_and_the_largest_may_be_infinite():
    table = np.full((2, 1), 6e4, np.float16)
    ids = np.array([[0, 1], [1, 1]])
    assert (nn.embedding_bag(table, ids) == table).all()
    lowest = np.full((2, 1), -np.inf, np.float16)
    assert (nn.embedding_bag(lowest, ids, "max") == lowest).all()
    ints = np.array([[1], [4]])
    assert nn.embedding_bag(ints, ids[:1]) == 2.5 and nn.embedding_bag(ints, ids[:1], "max") == 4


def test_a_score_of_nan_is_not_right():
    top = nn.metrics.TopK(1)
    scores = np.array([[np.nan, 1.0], [1.0, np.nan], [2.0, 1.0]])
    assert top.compute(top.update(top.init(), scores, np.zeros(3, int))) == 1 / 3


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_images_without_places_have_no_other_size(mode):
    x = np.ones((2, 0, 3))
    assert nn.interpolate(x, None, 2, mode).shape == (2, 0, 3)
    with pytest.raises(ArgumentError, match="no places to take"):
        nn.interpolate(x, 3, None, mode)
