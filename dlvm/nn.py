"""Activations and losses, as functions on staged and on plain arrays."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.namespace import xp
from dlvm.dsl.operands import known_dtype, shown_shape
from dlvm.dsl.scopes import facing_users, user_origin
from dlvm.errors import DTypeError, ShapeError
from dlvm.ir import DType


def relu(x: Any) -> Any:
    """``max(x, 0)``; its derivative at 0 is 0, and NaN stays NaN."""
    return xp.where(xp.less_equal(x, 0), 0, x)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, which never overflows."""
    return xp.sigmoid(x)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """``x - log(sum(exp(x)))`` along an axis."""
    return xp.subtract(x, xp.logsumexp(x, axis=axis, keepdims=True))


def softmax(x: Any, axis: int = -1) -> Any:
    """``exp(x) / sum(exp(x))`` along an axis."""
    return xp.exp(log_softmax(x, axis))


def one_hot(x: Any, classes: Any, dtype: Any = None, axis: int = -1) -> Any:
    """For each integer a new axis of zeros with a one at its place; outside, zeros only."""
    rank = len(xp.shape(x)) + 1
    places = xp.reshape(xp.arange(classes), [-1 if i == axis % rank else 1 for i in range(rank)])
    return xp.astype(xp.equal(xp.expand_dims(x, axis), places), dtype or "f64")


@facing_users
def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """For each example, minus the log-probability of its integer label."""
    _check_labels(logits, labels, axis)
    places = xp.expand_dims(labels, axis)
    picked = xp.squeeze(xp.take_along_axis(logits, places, axis), axis)
    return xp.subtract(xp.logsumexp(logits, axis=axis), picked)


def _check_labels(logits: Any, labels: Any, axis: int) -> None:
    """One integer label for each example, which are all axes of the logits but one."""
    shape, given = xp.shape(logits), xp.shape(labels)
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"cross_entropy: the logits have the shape {shown_shape(shape)}, which has no axis "
            f"{axis} of classes",
            origin=user_origin(),
            remedy="pass logits of shape (examples, classes)",
        )
    at = axis % len(shape)
    expected = (*shape[:at], *shape[at + 1 :])
    if given != expected:
        one_hot = given == shape
        raise ShapeError(
            f"cross_entropy: the logits {shown_shape(shape)} need labels of shape "
            f"{shown_shape(expected)}, found {shown_shape(given)}",
            origin=user_origin(),
            remedy="labels are class numbers, not one-hot rows: dlvm.argmax(labels, axis)"
            if one_hot
            else "give one class number for each example",
        )
    kind: DType = known_dtype(xp.asarray(labels).dtype)
    if not kind.is_integer:
        raise DTypeError(
            f"cross_entropy: labels are integer class numbers, found {kind}",
            origin=user_origin(),
            remedy="convert them with dlvm.astype(labels, np.int64)",
        )
