"""Losses of numbers and probabilities: of each element, or reduced.

Of shapes that differ every one of these would compare each prediction with every target, which is
never meant; so operands have one shape.
"""

from __future__ import annotations

import math
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir.equations import unequal

from .reductions import reduced


@exported("nn.mse_loss")
def mse_loss(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """The square of the difference."""
    check_pair("mse_loss", predictions, targets)
    away = xp.subtract(predictions, targets) * 1.0
    return reduced("mse_loss", away * away, reduction)


@exported("nn.l1_loss")
def l1_loss(predictions: Any, targets: Any, *, reduction: str = "none") -> Any:
    """The absolute difference."""
    check_pair("l1_loss", predictions, targets)
    return reduced("l1_loss", xp.abs(xp.subtract(predictions, targets) * 1.0), reduction)


@exported("nn.huber_loss")
def huber_loss(
    predictions: Any, targets: Any, delta: float = 1.0, *, reduction: str = "none"
) -> Any:
    """``d**2 / 2`` of differences up to ``delta``, and ``delta * (|d| - delta / 2)`` beyond."""
    check_pair("huber_loss", predictions, targets)
    if isinstance(plain(delta), int | float) and not delta > 0:
        raise UserError(
            f"huber_loss: expected a positive delta, found {delta}",
            origin=user_origin(),
            remedy="pass the difference from which on the loss grows linearly, such as 1.0",
        )
    away = xp.subtract(predictions, targets) * 1.0
    delta = xp.astype(delta, away.dtype)
    near = xp.clip(away, -delta, delta)
    return reduced("huber_loss", near * (away - 0.5 * near), reduction)


@exported("nn.kl_div")
def kl_div(
    log_predictions: Any, targets: Any, *, log_target: bool = False, reduction: str = "none"
) -> Any:
    """``p * (log(p) - q)`` of probabilities ``p`` and log-probabilities ``q``; 0 where p is 0.

    With ``log_target`` targets are logarithms of ``p``. ``reduction="batchmean"`` divides the sum
    by the length of the first axis, which is the divergence for each example.
    """
    check_pair("kl_div", log_predictions, targets)
    q, targets = xp.asarray(log_predictions), xp.asarray(targets)
    there = xp.greater(targets, -math.inf if log_target else 0)
    safe = xp.where(there, targets, 0 if log_target else 1)
    logs, shares = (safe, xp.exp(safe)) if log_target else (xp.log(safe), safe)
    losses = xp.where(there, shares * (logs - q), 0)
    if reduction == "batchmean":
        shape = shape_of(plain(losses))
        return xp.divide(xp.sum(losses), shape[0] if shape else 1)
    return reduced("kl_div", losses, reduction)


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
    check_pair("binary_cross_entropy_with_logits", logits, targets)
    x, t = xp.multiply(logits, 1.0), xp.asarray(targets)
    x, t = xp.asarray(x), xp.astype(t, xp.asarray(x).dtype)
    other = 1 if pos_weight is None else 1 + (xp.asarray(pos_weight) - 1) * t
    losses = (1 - t) * x + other * xp.logaddexp(xp.negative(x), 0.0)
    losses = losses if weight is None else losses * weight
    return reduced("binary_cross_entropy_with_logits", losses, reduction)


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
