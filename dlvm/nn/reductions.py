"""How the losses of examples become one number: not at all, or by their mean or sum."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import UserError
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import DType

REDUCTIONS = ("none", "mean", "sum")


def reduced(name: str, losses: Any, reduction: str, weights: Any = None, *, kind: DType) -> Any:
    """Losses as they are, their sum, or their mean, rounded to a type.

    A mean with weights, by which losses are multiplied already, divides by the sum of the weights,
    and is 0 if that is 0.
    """
    _check(name, reduction)
    return xp.astype(_reduced(losses, reduction, weights), kind)


def _reduced(losses: Any, reduction: str, weights: Any) -> Any:
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
