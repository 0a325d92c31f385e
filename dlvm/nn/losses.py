"""Cross-entropy: how little probability a network gives to what is true."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import DTypeError, ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim, DType
from dlvm.ir.sizes.equations import unequal

from .normalised import log_softmax, log_total, shifted
from .precision import float_of, wide
from .reductions import reduced


@exported("nn.cross_entropy")
def cross_entropy(
    logits: Any,
    labels: Any,
    axis: int = -1,
    *,
    weight: Any = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "none",
) -> Any:
    """For each example, minus the log-probability of its integer label, or of its probabilities.

    Taken from logits less their maximum, so that large ones lose no digits. Labels that are floats
    of the shape of the logits are probabilities of the classes. ``weight`` has a factor for each
    class, ``ignore_index`` is a label whose loss is 0, and ``label_smoothing`` a share of the
    probability that is spread over all classes. A ``reduction`` is ``"none"``, ``"sum"`` or
    ``"mean"``, which divides by the sum of the weights of integer labels that are not ignored.
    A label that is not ignored must be from 0 to the number of classes less 1: another one, -1
    too, ends the call with an error, in which a negative label is less by the number of classes.
    """
    rank = _rank(logits, axis)
    probabilities = _are_probabilities(logits, labels)
    kind = float_of(logits, labels) if probabilities else float_of(logits)
    logits = wide(logits, kind)
    weight = None if weight is None else _along(weight, logits, axis, rank)
    if probabilities:
        losses = _of_probabilities(logits, wide(labels, kind), axis, weight, label_smoothing)
        return reduced("cross_entropy", losses, reduction, kind=kind)
    _check_labels(logits, labels, axis)
    seen = None if ignore_index is None else xp.not_equal(labels, ignore_index)
    labels = labels if seen is None else xp.where(seen, labels, 0)
    places = xp.expand_dims(_refused_below_0(labels, logits, axis), axis)
    losses = _of_labels(logits, places, axis, weight, label_smoothing)
    factors = None if weight is None else _picked(weight, places, axis, logits)
    if seen is not None:
        losses = xp.where(seen, losses, 0)
        factors = xp.astype(seen, losses.dtype) if factors is None else xp.where(seen, factors, 0)
    return reduced("cross_entropy", losses, reduction, factors, kind=kind)


def _of_labels(logits: Any, places: Any, axis: int, weight: Any, smoothing: float) -> Any:
    """The losses of integer labels, with an axis of size 1 in the place of the classes'."""
    rest = shifted(logits, axis)
    total = log_total(rest, axis, keepdims=False)
    losses = xp.subtract(total, xp.squeeze(xp.take_along_axis(rest, places, axis), axis))
    if weight is not None:
        losses = losses * _picked(weight, places, axis, logits)
    if not smoothing:
        return losses
    surprise = xp.expand_dims(total, axis) - rest
    surprise = surprise if weight is None else surprise * weight
    return (1 - smoothing) * losses + smoothing * xp.mean(surprise, axis=axis)


def _of_probabilities(logits: Any, labels: Any, axis: int, weight: Any, smoothing: float) -> Any:
    """The losses of probabilities; a class of probability 0 has none, however unlikely it is."""
    count = shape_of(plain(logits))[axis]
    shares: Any = xp.asarray(labels)
    shares = shares * (1 - smoothing) + xp.divide(smoothing, count) if smoothing else shares
    shares = shares if weight is None else shares * weight
    logs = log_softmax(logits, axis)
    return xp.negative(xp.sum(shares * xp.where(xp.equal(shares, 0), 0, logs), axis=axis))


def _are_probabilities(logits: Any, labels: Any) -> bool:
    """Whether labels are floats of the shape of the logits."""
    same = shape_of(plain(labels)) == shape_of(plain(logits))
    return same and known_dtype(xp.asarray(labels).dtype).is_float


def _refused_below_0(labels: Any, logits: Any, axis: int) -> Any:
    """Labels, of which negative ones are out of range: as an index -1 would be the last class.

    It is the check of the index that ends the call: an assertion has no form in StableHLO.
    """
    if known_dtype(xp.asarray(labels).dtype).lowest >= 0:
        return labels
    classes, labels = shape_of(plain(logits))[axis], xp.astype(labels, "int64")
    return xp.where(xp.less(labels, 0), xp.subtract(labels, classes), labels)


def _picked(weight: Any, places: Any, axis: int, logits: Any) -> Any:
    """The weight of the label of each example."""
    spread = xp.broadcast_to(weight, shape_of(plain(logits)))
    return xp.squeeze(xp.take_along_axis(spread, places, axis), axis)


def _along(weight: Any, logits: Any, axis: int, rank: int) -> Any:
    """A factor for each class, in the type of the logits, which stretches over examples."""
    expected = (shape_of(plain(logits))[axis],)
    if (found := shape_of(plain(weight))) != expected:
        raise ShapeError(
            f"cross_entropy: expected a weight for each class, of shape {shown_shape(expected)}, "
            f"found {shown_shape(found)}",
            origin=user_origin(),
            remedy="multiply the losses that come back by a weight for each example",
        )
    axes = tuple(i for i in range(rank) if i != axis % rank)
    return xp.astype(xp.expand_dims(weight, axes), (xp.asarray(logits) * 1.0).dtype)


def _rank(logits: Any, axis: int) -> int:
    """How many axes the logits have, one of which is that of the classes."""
    shape = shape_of(plain(logits))
    if not -len(shape) <= axis < len(shape):
        raise ShapeError(
            f"cross_entropy: the logits have the shape {shown_shape(shape)}, which has no axis "
            f"{axis} of classes",
            origin=user_origin(),
            remedy="pass logits of shape (examples, classes)",
        )
    return len(shape)


def _check_labels(logits: Any, labels: Any, axis: int) -> None:
    """One integer label for each example, which are all axes of the logits but one."""
    shape, given = shape_of(plain(logits)), shape_of(plain(labels))
    at = axis % len(shape)
    expected = (*shape[:at], *shape[at + 1 :])
    if given != expected:
        raise _misfit(shape, expected, given)
    kind: DType = known_dtype(xp.asarray(labels).dtype)
    if not kind.is_integer:
        raise DTypeError(
            f"cross_entropy: labels are integer class numbers, found {kind}",
            origin=user_origin(),
            remedy="convert them with dlvm.astype(labels, np.int64)",
        )


def _misfit(
    shape: tuple[Dim, ...], expected: tuple[Dim, ...], given: tuple[Dim, ...]
) -> ShapeError:
    """The error for labels of another shape; integers of the logits' shape are one-hot rows."""
    return ShapeError(
        f"cross_entropy: the logits {shown_shape(shape)} need labels of shape "
        f"{shown_shape(expected)}, found {shown_shape(given)}",
        origin=user_origin(),
        remedy="labels are class numbers, not one-hot rows: dlvm.argmax(labels, axis)"
        if given == shape
        else "give one class number for each example",
        sides=unequal(expected, given),
    )
