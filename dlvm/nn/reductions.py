"""How the losses of examples become one number: not at all, or by their mean or sum."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import UserError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

REDUCTIONS = ("none", "mean", "sum")


def reduced(name: str, losses: Any, reduction: str, weights: Any = None) -> Any:
    """Losses as they are, their sum, or their mean; a mean with weights divides by their sum.

    Losses are weighted already. A mean of no weight is 0.
    """
    _check(name, reduction)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return xp.sum(losses)
    if weights is None:
        return xp.mean(losses)
    total = xp.sum(weights)
    return xp.sum(losses) / xp.where(xp.equal(total, 0), 1, total)


def _check(name: str, reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise UserError(
            f"{name}: expected a reduction among {', '.join(REDUCTIONS)}, found {reduction!r}",
            origin=user_origin(),
            remedy='pass reduction="mean" for one number',
        )
