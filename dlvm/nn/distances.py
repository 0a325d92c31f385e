"""Losses of differences and of probabilities, for each element or reduced to one number.

Predictions and targets must have one shape: if they were broadcast, each prediction would be
compared with every target, which is never meant. Half precisions are computed in f32, reduced there
and rounded once.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import DType
from dlvm.ir.sizes.equations import unequal

from .precision import wide
from .reductions import reduced


@exported("nn.mse_loss")
def mse_loss(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """The square of the difference."""
    away, kind = difference("mse_loss", predictions, targets)
    return reduced("mse_loss", away * away, reduction, kind=kind)


@exported("nn.l1_loss")
def l1_loss(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """The absolute difference."""
    away, kind = difference("l1_loss", predictions, targets)
    return reduced("l1_loss", xp.abs(away), reduction, kind=kind)


@exported("nn.huber_loss")
def huber_loss(
    predictions: Any, targets: Any, delta: float = 1.0, *, reduction: str = "none"
) -> Any:
    """``d**2 / 2`` of differences up to ``delta``, and ``delta * (|d| - delta / 2)`` beyond."""
    _check_positive("huber_loss", "delta", delta)
    away, kind = difference("huber_loss", predictions, targets)
    return reduced("huber_loss", _bent(away, delta), reduction, kind=kind)


@exported("nn.smooth_l1_loss")
def smooth_l1_loss(
    predictions: Any, targets: Any, beta: float = 1.0, *, reduction: str = "none"
) -> Any:
    """``d**2 / (2 * beta)`` of differences up to ``beta``, and ``|d| - beta / 2`` beyond."""
    _check_positive("smooth_l1_loss", "beta", beta)
    away, kind = difference("smooth_l1_loss", predictions, targets)
    losses = _bent(away, beta) / xp.astype(beta, away.dtype)
    return reduced("smooth_l1_loss", losses, reduction, kind=kind)


def _check_positive(name: str, word: str, limit: Any) -> None:
    if isinstance(plain(limit), int | float) and not limit > 0:
        raise UserError(
            f"{name}: expected a positive {word}, found {limit}",
            origin=user_origin(),
            remedy="pass the difference from which on the loss grows linearly, such as 1.0",
        )


def _bent(away: Any, limit: Any) -> Any:
    """``d**2 / 2`` of differences d up to a limit, then linear with the same slope."""
    limit = xp.astype(limit, away.dtype)
    near = xp.clip(away, -limit, limit)
    return near * (away - 0.5 * near)


@exported("nn.log_cosh")
def log_cosh(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """``log(cosh(d))`` of the difference: ``d**2 / 2`` near 0, ``|d| - log(2)`` far from it."""
    away, kind = difference("log_cosh", predictions, targets)
    half = xp.sinh(0.5 * xp.clip(away, -1, 1))
    near = xp.log1p(2 * half * half)  # cosh(d) = 1 + 2 sinh(d / 2)**2
    far = xp.logaddexp(away, -away) - math.log(2)
    losses = xp.where(xp.less(xp.abs(away), 1), near, far)
    return reduced("log_cosh", losses, reduction, kind=kind)


@exported("nn.kl_div")
def kl_div(
    log_predictions: Any, targets: Any, *, log_target: bool = False, reduction: str = "none"
) -> Any:
    """``p * (log(p) - q)`` of probabilities ``p`` and log-probabilities ``q``; 0 where p is 0.

    With ``log_target`` targets are logarithms of ``p``. ``reduction="batchmean"`` divides the sum
    by the length of the first axis, which is the divergence for each example.
    """
    q, targets, kind = both_wide("kl_div", log_predictions, targets)
    there = xp.greater(targets, -math.inf if log_target else 0)
    safe = xp.where(there, targets, 0 if log_target else 1)
    logs, shares = (safe, xp.exp(safe)) if log_target else (xp.log(safe), safe)
    losses = xp.where(there, shares * (logs - q), 0)
    if reduction == "batchmean":
        shape = shape_of(plain(losses))
        return xp.astype(xp.divide(xp.sum(losses), shape[0] if shape else 1), kind)
    return reduced("kl_div", losses, reduction, kind=kind)


@exported("nn.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    logits: Any,
    targets: Any,
    *,
    weight: Any = None,
    pos_weight: Any = None,
    reduction: str = "none",
) -> Any:
    """``-t * log(sigmoid(x)) - (1 - t) * log(sigmoid(-x))`` of logits x and truths t in 0 to 1.

    ``pos_weight`` is a factor of the first term and ``weight`` of the whole; both stretch.
    """
    name = "binary_cross_entropy_with_logits"
    x, t, kind = predicted(name, logits, targets)
    losses = binary_entropy(x, t, 1 if pos_weight is None else wide(pos_weight, kind))
    losses = losses if weight is None else losses * wide(weight, kind)
    return reduced(name, losses, reduction, kind=kind)


def binary_entropy(x: Any, t: Any, positive: Any = 1) -> Any:
    """``positive * t * softplus(-x) + (1 - t) * softplus(x)``, a sum in which nothing cancels.

    The softplus of a positive number z is that of -z, plus z. An infinite logit that is right has
    no loss: 0 times infinity would be NaN.
    """
    hits, others = positive * t, 1 - t
    low = xp.where(xp.less(x, 0), x, xp.negative(x))
    share = xp.where(xp.less(x, 0), hits, others)
    right = xp.logical_and(xp.equal(share, 0), xp.isinf(low))
    return (hits + others) * xp.logaddexp(low, 0.0) - share * xp.where(right, 0, low)


def difference(name: str, predictions: Any, targets: Any) -> tuple[Any, DType]:
    """``predictions - targets`` in the type of the computation, and the type of the result."""
    x, t, kind = both_wide(name, predictions, targets)
    return x - t, kind


def both_wide(name: str, predictions: Any, targets: Any) -> tuple[Any, Any, DType]:
    """Both in the type of the computation, and the type of the result, which both decide."""
    check_pair(name, predictions, targets)
    kind = known_dtype(xp.result_type(predictions, targets, 1.0))
    return wide(predictions, kind), wide(targets, kind), kind


def predicted(name: str, predictions: Any, targets: Any) -> tuple[Any, Any, DType]:
    """Both in the type of the computation, and the type of the result, that of predictions."""
    check_pair(name, predictions, targets)
    kind = known_dtype(xp.result_type(predictions, 1.0))
    return wide(predictions, kind), wide(targets, kind), kind


def check_pair(name: str, predictions: Any, targets: Any) -> None:
    """Both have one shape."""
    first, second = (shape_of(plain(x)) for x in (predictions, targets))
    if first != second:
        raise ShapeError(
            f"{name}: expected targets of the shape of the predictions, {shown_shape(first)}, "
            f"found {shown_shape(second)}",
            origin=user_origin(),
            remedy="reshape one of them: (N,) and (N, 1) would make N * N losses",
            sides=unequal(first, second),
        )
