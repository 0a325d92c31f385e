"""Losses of margins, angles, overlaps and counts, beside those of ``distances``."""

from __future__ import annotations

import math
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .activations import sigmoid
from .distances import binary_cross_entropy_with_logits, check_pair
from .normalised import softmax
from .reductions import reduced


@exported("nn.smooth_l1_loss")
def smooth_l1_loss(
    predictions: Any, targets: Any, beta: float = 1.0, *, reduction: str = "none"
) -> Any:
    """``d**2 / (2 * beta)`` of differences up to ``beta``, and ``|d| - beta / 2`` beyond."""
    check_pair("smooth_l1_loss", predictions, targets)
    if isinstance(plain(beta), int | float) and not beta > 0:
        raise UserError(
            f"smooth_l1_loss: expected a positive beta, found {beta}",
            origin=user_origin(),
            remedy="for a beta of 0 call l1_loss",
        )
    away = xp.subtract(predictions, targets) * 1.0
    beta = xp.astype(beta, away.dtype)
    near = xp.clip(away, -beta, beta)
    return reduced("smooth_l1_loss", near * (away - 0.5 * near) / beta, reduction)


@exported("nn.log_cosh")
def log_cosh(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """``log(cosh(d))`` of the difference: ``d**2 / 2`` near 0, ``|d| - log(2)`` far from it."""
    check_pair("log_cosh", predictions, targets)
    away = xp.subtract(predictions, targets) * 1.0
    return reduced("log_cosh", xp.logaddexp(away, -away) - math.log(2), reduction)


@exported("nn.hinge_loss")
def hinge_loss(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """``max(0, 1 - x * t)`` of scores x and targets t, which are -1 or 1."""
    check_pair("hinge_loss", predictions, targets)
    return reduced("hinge_loss", xp.maximum(1.0 - xp.multiply(predictions, targets), 0), reduction)


@exported("nn.gaussian_nll_loss")
def gaussian_nll_loss(
    predictions: Any,
    targets: Any,
    var: Any,
    *,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "none",
) -> Any:
    """``(log(var) + d**2 / var) / 2`` of the difference d, with a variance of at least ``eps``.

    ``var`` stretches to the shape of the predictions; ``full`` adds ``log(2 * pi) / 2``.
    """
    check_pair("gaussian_nll_loss", predictions, targets)
    away = xp.subtract(predictions, targets) * 1.0
    spread = xp.maximum(xp.astype(xp.asarray(var), away.dtype), eps)
    losses = 0.5 * (xp.log(spread) + away * away / spread)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return reduced("gaussian_nll_loss", losses, reduction)


@exported("nn.poisson_nll_loss")
def poisson_nll_loss(
    predictions: Any,
    targets: Any,
    *,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "none",
) -> Any:
    """``exp(x) - t * x`` of log-rates x and counts t; ``x - t * log(x + eps)`` of rates.

    ``full`` adds Stirling's approximation of ``log(t!)`` where t is above 1.
    """
    check_pair("poisson_nll_loss", predictions, targets)
    x = xp.asarray(xp.multiply(predictions, 1.0))
    t = xp.astype(xp.asarray(targets), x.dtype)
    losses = xp.exp(x) - t * x if log_input else x - t * xp.log(x + eps)
    if full:
        many = xp.greater(t, 1)
        safe = xp.where(many, t, 1)
        stirling = safe * xp.log(safe) - safe + 0.5 * xp.log(2 * math.pi * safe)
        losses = losses + xp.where(many, stirling, 0)
    return reduced("poisson_nll_loss", losses, reduction)


@exported("nn.cosine_similarity")
def cosine_similarity(
    predictions: Any, targets: Any, *, epsilon: float = 0.0, axis: int = -1
) -> Any:
    """The cosine of the angle of vectors along ``axis``; 0 where one of them is 0.

    Squares of norms are at least ``epsilon``.
    """
    check_pair("cosine_similarity", predictions, targets)
    x, y = (_direction(xp.multiply(v, 1.0), epsilon, axis) for v in (predictions, targets))
    return xp.sum(x * y, axis=axis)


@exported("nn.cosine_distance")
def cosine_distance(
    predictions: Any,
    targets: Any,
    *,
    epsilon: float = 0.0,
    axis: int = -1,
    reduction: str = "none",
) -> Any:
    """``1 - cosine_similarity``: from 0 for the same direction to 2 for the opposite one."""
    check_pair("cosine_distance", predictions, targets)
    near = cosine_similarity(predictions, targets, epsilon=epsilon, axis=axis)
    return reduced("cosine_distance", 1.0 - near, reduction)


def _direction(x: Any, epsilon: float, axis: int) -> Any:
    square = xp.sum(x * x, axis=axis, keepdims=True)
    square = xp.maximum(square, epsilon) if epsilon else square
    return x / xp.sqrt(xp.where(xp.equal(square, 0), 1, square))


@exported("nn.sigmoid_focal_loss")
def sigmoid_focal_loss(
    logits: Any,
    labels: Any,
    *,
    alpha: float | None = None,
    gamma: float = 2.0,
    reduction: str = "none",
) -> Any:
    """Binary cross-entropy times ``(1 - p) ** gamma``, with the probability p of what is true.

    ``alpha`` is the weight of positive labels, and 1 less it that of others (Lin et al., 2017).
    """
    check_pair("sigmoid_focal_loss", logits, labels)
    losses = binary_cross_entropy_with_logits(logits, labels)
    x = xp.asarray(xp.multiply(logits, 1.0))
    t = xp.astype(xp.asarray(labels), x.dtype)
    missed = sigmoid(x) * (1 - t) + sigmoid(xp.negative(x)) * t
    losses = losses * missed**gamma
    if alpha is not None:
        losses = losses * (alpha * t + (1 - alpha) * (1 - t))
    return reduced("sigmoid_focal_loss", losses, reduction)


@exported("nn.dice_loss")
def dice_loss(
    predictions: Any,
    targets: Any,
    *,
    class_weights: Any = None,
    smooth: float = 1.0,
    alpha: float = 0.5,
    beta: float = 0.5,
    apply_softmax: bool = True,
    ignore_background: bool = False,
    axis: int | tuple[int, ...] | None = None,
    reduction: str = "none",
) -> Any:
    """For each example, 1 less the overlap of probabilities and targets, the mean over classes.

    Logits and one-hot targets have the shape (examples, ..., classes); the overlap is summed over
    ``axis``, by default all axes between. Of one class the logits are those of a sigmoid. ``alpha``
    and ``beta`` weigh what is found wrongly and what is missed: 0.5 for both is the Dice
    coefficient, 1 the Jaccard index (Salehi et al., 2017). ``ignore_background`` leaves out the
    first class, and without ``apply_softmax`` predictions are probabilities.
    """
    check_pair("dice_loss", predictions, targets)
    shape = shape_of(plain(predictions))
    if len(shape) < 2:
        raise ShapeError(
            f"dice_loss: expected predictions of shape (examples, ..., classes), found "
            f"{shown_shape(shape)}",
            origin=user_origin(),
            remedy="give one class an axis: x[..., None]",
        )
    one = shape[-1] == 1
    shares: Any = xp.multiply(predictions, 1.0)
    if apply_softmax:
        shares = sigmoid(shares) if one else softmax(shares)
    axes = tuple(range(1, len(shape) - 1)) if axis is None else axis
    truth = xp.astype(xp.asarray(targets), shares.dtype)
    both = xp.sum(shares * truth, axis=axes) if axes != () else shares * truth
    found, there = (xp.sum(x, axis=axes) if axes != () else x for x in (shares, truth))
    below = both + alpha * (found - both) + beta * (there - both) + smooth
    losses = 1.0 - (both + smooth) / below
    losses = losses if class_weights is None else losses * class_weights
    losses = losses[..., 1:] if ignore_background and not one else losses
    return reduced("dice_loss", xp.mean(losses, axis=-1), reduction)
