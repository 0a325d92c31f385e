"""Loss functions."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import DType
from dlvm.ir.equations import unequal

from .normalised import log_total, shifted


@exported("nn.cross_entropy")
def cross_entropy(logits: Any, labels: Any, axis: int = -1) -> Any:
    """For each example, minus the log-probability of its integer label.

    Taken from logits less their maximum, so that large ones lose no digits.
    """
    _check_labels(logits, labels, axis)
    places = xp.expand_dims(labels, axis)
    rest = shifted(logits, axis)
    picked = xp.squeeze(xp.take_along_axis(rest, places, axis), axis)
    return xp.subtract(log_total(rest, axis, keepdims=False), picked)


def _check_labels(logits: Any, labels: Any, axis: int) -> None:
    """One integer label for each example, which are all axes of the logits but one."""
    shape, given = shape_of(plain(logits)), shape_of(plain(labels))
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
            sides=unequal(expected, given),
        )
    kind: DType = known_dtype(xp.asarray(labels).dtype)
    if not kind.is_integer:
        raise DTypeError(
            f"cross_entropy: labels are integer class numbers, found {kind}",
            origin=user_origin(),
            remedy="convert them with dlvm.astype(labels, np.int64)",
        )
