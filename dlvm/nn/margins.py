"""Losses other than differences and cross-entropies: hinge, likelihoods, angles, focal, Dice."""

from __future__ import annotations

import math
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import DType

from .activations import sigmoid
from .distances import binary_entropy, both_wide, difference, predicted
from .normalised import softmax
from .precision import wide
from .reductions import reduced


@exported("nn.hinge_loss")
def hinge_loss(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """``max(0, 1 - x * t)`` of scores x and targets t, which are -1 or 1."""
    x, t, kind = predicted("hinge_loss", predictions, targets)
    return reduced("hinge_loss", xp.maximum(1 - x * t, 0), reduction, kind=kind)


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
    away, kind = difference("gaussian_nll_loss", predictions, targets)
    spread = xp.maximum(xp.broadcast_to(wide(var, kind), shape_of(plain(away))), eps)
    losses = 0.5 * (xp.log(spread) + away * away / spread)
    losses = losses + 0.5 * math.log(2 * math.pi) if full else losses
    return reduced("gaussian_nll_loss", losses, reduction, kind=kind)


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
    x, t, kind = predicted("poisson_nll_loss", predictions, targets)
    losses = xp.exp(x) - t * x if log_input else x - t * xp.log(x + eps)
    if full:
        many = xp.greater(t, 1)
        safe = xp.where(many, t, 1)
        stirling = safe * xp.log(safe) - safe + 0.5 * xp.log(2 * math.pi * safe)
        losses = losses + xp.where(many, stirling, 0)
    return reduced("poisson_nll_loss", losses, reduction, kind=kind)


@exported("nn.cosine_similarity")
def cosine_similarity(
    predictions: Any, targets: Any, *, epsilon: float = 0.0, axis: int = -1
) -> Any:
    """The cosine of the angle between vectors along ``axis``; 0 where one of them is 0.

    A squared norm below ``epsilon`` counts as ``epsilon``.
    """
    near, kind = _cosine("cosine_similarity", predictions, targets, epsilon, axis)
    return xp.astype(near, kind)


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
    near, kind = _cosine("cosine_distance", predictions, targets, epsilon, axis)
    return reduced("cosine_distance", 1 - near, reduction, kind=kind)


def _cosine(name: str, x: Any, y: Any, epsilon: float, axis: int) -> tuple[Any, DType]:
    """The cosine in the type in which it is computed, and the type of the result."""
    *vectors, kind = both_wide(name, x, y)
    x, y = (_direction(v, epsilon, axis) for v in vectors)
    return xp.sum(x * y, axis=axis), kind


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
    """Binary cross-entropy times ``(1 - p) ** gamma``, p the probability of the true label.

    ``alpha`` is the weight of positive labels, and ``1 - alpha`` that of negative ones (Lin et al.,
    2017).
    """
    x, t, kind = predicted("sigmoid_focal_loss", logits, labels)
    missed = sigmoid(x) * (1 - t) + sigmoid(xp.negative(x)) * t
    missed = xp.maximum(missed, xp.finfo(missed.dtype).smallest_normal)  # 0**-0.5 in the slope
    losses = binary_entropy(x, t) * missed**gamma
    if alpha is not None:
        losses = losses * (alpha * t + (1 - alpha) * (1 - t))
    return reduced("sigmoid_focal_loss", losses, reduction, kind=kind)


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
    """For each example, ``1 - overlap`` of probabilities and targets, averaged over classes.

    Logits and one-hot targets have the shape (examples, ..., classes); the overlap is summed over
    ``axis``, by default over all axes between these two. The logit of a single class goes through a
    sigmoid. ``alpha`` and ``beta`` are the weights of false positives and of false negatives: 0.5
    for both is the Dice coefficient, 1 the Jaccard index (Salehi et al., 2017).
    ``ignore_background`` leaves out the first class, and without ``apply_softmax`` predictions are
    probabilities.
    """
    shares, truth, kind = predicted("dice_loss", predictions, targets)
    shape = shape_of(plain(predictions))
    if len(shape) < 2:
        raise ShapeError(
            f"dice_loss: expected predictions of shape (examples, ..., classes), found "
            f"{shown_shape(shape)}",
            origin=user_origin(),
            remedy="give one class an axis: x[..., None]",
        )
    one = shape[-1] == 1
    if apply_softmax:
        shares = sigmoid(shares) if one else softmax(shares)
    axes = tuple(range(1, len(shape) - 1)) if axis is None else axis
    wrong = alpha * shares * (1 - truth) + beta * (1 - shares) * truth
    wrong, both = (xp.sum(x, axis=axes) if axes != () else x for x in (wrong, shares * truth))
    losses = wrong / (both + wrong + smooth)
    if class_weights is not None:
        losses = losses * xp.broadcast_to(wide(class_weights, kind), shape_of(plain(losses)))
    losses = losses[..., 1:] if ignore_background and not one else losses
    return reduced("dice_loss", xp.mean(losses, axis=-1), reduction, kind=kind)
