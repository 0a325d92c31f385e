"""Metrics that add up over batches: ``init()``, ``update(state, ...)`` and ``compute(state)``.

A state is a named tuple of arrays, which staged functions take, carry and return; two states of
one metric add up to that of all batches. Examples that a mask ``where=`` leaves out do not count.
A mean of nothing is NaN.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .normalised import one_hot

AVERAGES = ("macro", "micro", None)


class MeanState(NamedTuple):
    """The weighted sum of values, and the sum of the weights, both in f64."""

    total: Any
    weight: Any


class CountState(NamedTuple):
    """The number of examples that were right, and of all."""

    right: Any
    count: Any


class ConfusionState(NamedTuple):
    """How many examples of each class, in rows, were taken for each class, in columns."""

    matrix: Any


class AucState(NamedTuple):
    """How many positive and negative examples have a score in each bin."""

    positive: Any
    negative: Any


@dataclass(frozen=True)
class Mean:
    """The mean, or the weighted mean, of all values, such as losses."""

    @computing
    def init(self) -> MeanState:
        """No values."""
        return MeanState(xp.zeros((), "f64"), xp.zeros((), "f64"))

    @computing
    def update(self, state: MeanState, values: Any, where: Any = None) -> MeanState:
        """Each value counts; ``where`` is a mask, or a weight for each."""
        x = xp.astype(xp.asarray(values), "f64")
        shape = shape_of(plain(x))
        w = xp.ones(shape, "f64") if where is None else xp.astype(xp.asarray(where), "f64")
        w = xp.broadcast_to(w, shape)
        total = xp.sum(xp.where(xp.equal(w, 0), 0, x * w))
        return MeanState(state.total + total, state.weight + xp.sum(w))

    @computing
    def compute(self, state: MeanState) -> Any:
        """The mean of all values so far."""
        return _share(state.total, state.weight)


class Counted(ABC):
    """The share of examples that are right."""

    @computing
    def init(self) -> CountState:
        """No examples."""
        return CountState(xp.zeros((), "i64"), xp.zeros((), "i64"))

    @computing
    def update(
        self, state: CountState, predictions: Any, labels: Any, where: Any = None
    ) -> CountState:
        """The examples of a batch, whose integer labels have any shape."""
        right = self._right(predictions, labels)
        there = _mask(where, labels)
        hits = xp.astype(xp.logical_and(right, there), "i64")
        return CountState(state.right + xp.sum(hits), state.count + xp.sum(xp.astype(there, "i64")))

    @computing
    def compute(self, state: CountState) -> Any:
        """The share of all examples so far."""
        return _share(state.right, state.count)

    @abstractmethod
    def _right(self, predictions: Any, labels: Any) -> Any:
        """Whether each example is right."""


@dataclass(frozen=True)
class Accuracy(Counted):
    """The share of right classes: predictions are classes, or scores along a last axis."""

    def _right(self, predictions: Any, labels: Any) -> Any:
        return xp.equal(_classes_of("Accuracy", predictions, labels), labels)


@dataclass(frozen=True)
class TopK(Counted):
    """The share of labels among the ``k`` classes with the highest scores.

    Classes with the same score as the label's come after it; those with NaN come before it.
    """

    k: Annotated[int, static] = 5

    def _right(self, predictions: Any, labels: Any) -> Any:
        _check_scores("TopK", predictions, labels)
        own = xp.take_along_axis(predictions, xp.expand_dims(labels, -1), -1)
        above = xp.logical_not(xp.less_equal(predictions, own))
        above = xp.sum(xp.astype(above, "i64"), axis=-1)
        return xp.less(above, self.k)


@dataclass(frozen=True)
class Confusion:
    """How many examples of each class, in rows, are taken for each class, in columns.

    An example whose label or prediction is no class, such as -1, is not counted.
    """

    classes: Annotated[int, static]

    @computing
    def init(self) -> ConfusionState:
        """No examples."""
        return ConfusionState(xp.zeros((self.classes, self.classes), "i64"))

    @computing
    def update(
        self, state: ConfusionState, predictions: Any, labels: Any, where: Any = None
    ) -> ConfusionState:
        """The examples of a batch; predictions are classes, or scores along a last axis."""
        found = _classes_of(type(self).__name__, predictions, labels)
        there = xp.reshape(xp.astype(_mask(where, labels), "f64"), (-1, 1))
        rows, columns = (
            one_hot(xp.reshape(xp.asarray(x), (-1,)), self.classes, dtype="f64")
            for x in (labels, found)
        )
        counts = xp.matmul(xp.permute_dims(rows * there, (1, 0)), columns)
        return ConfusionState(state.matrix + xp.astype(counts, "i64"))

    @computing
    def compute(self, state: ConfusionState) -> Any:
        """The matrix of counts."""
        return state.matrix


@dataclass(frozen=True)
class ByClass(Confusion, ABC):
    """A share for each class, computed from the matrix of a ``Confusion``.

    ``average`` is ``"macro"`` for the mean over classes, ``"micro"`` for the share of all examples
    together, or None for one share of each class. A class without examples has the share 0.
    """

    classes: Annotated[int, static] = 2
    average: str | None = "macro"

    def __post_init__(self) -> None:
        if self.average not in AVERAGES:
            raise ArgumentError(
                f"{type(self).__name__}: expected an average among 'macro', 'micro' and None, "
                f"found {self.average!r}",
                origin=user_origin(),
                remedy="leave it out: it is 'macro', the mean over classes",
            )

    @computing
    def compute(self, state: ConfusionState) -> Any:
        """The share, or one for each class."""
        matrix = xp.astype(state.matrix, "f64")
        right = xp.diagonal(matrix)
        found, there = xp.sum(matrix, axis=0), xp.sum(matrix, axis=1)
        if self.average == "micro":
            right, found, there = (xp.sum(x) for x in (right, found, there))
        above, below = self._share(right, found, there)
        shares = above / xp.where(xp.equal(below, 0), 1, below)
        return xp.mean(shares) if self.average == "macro" else shares

    @abstractmethod
    def _share(self, right: Any, found: Any, there: Any) -> tuple[Any, Any]:
        """Numerator and denominator, from the numbers of true positives, predictions and labels."""


class Precision(ByClass):
    """Of the examples taken for a class, the share that are of it."""

    def _share(self, right: Any, found: Any, there: Any) -> tuple[Any, Any]:
        return right, found


class Recall(ByClass):
    """Of the examples of a class, the share taken for it."""

    def _share(self, right: Any, found: Any, there: Any) -> tuple[Any, Any]:
        return right, there


class F1(ByClass):
    """The harmonic mean of precision and recall."""

    def _share(self, right: Any, found: Any, there: Any) -> tuple[Any, Any]:
        return 2 * right, found + there


@dataclass(frozen=True)
class AUC:
    """The area under the receiver operating characteristic, of probabilities in ``bins`` bins.

    It is the probability that a positive example has a higher score than a negative one, in which
    two scores in one bin count by half.
    """

    bins: Annotated[int, static] = 1000

    @computing
    def init(self) -> AucState:
        """No examples."""
        return AucState(xp.zeros(self.bins, "i64"), xp.zeros(self.bins, "i64"))

    @computing
    def update(self, state: AucState, scores: Any, labels: Any, where: Any = None) -> AucState:
        """Scores from 0 to 1, and labels that are 0 or 1."""
        _check_same("AUC", scores, labels)
        x = xp.astype(xp.asarray(scores), "f64")
        places = xp.astype(xp.clip(xp.floor(x * self.bins), 0, self.bins - 1), "i64")
        places, there = xp.reshape(places, (-1,)), xp.reshape(_mask(where, labels), (-1,))
        truth = xp.reshape(xp.astype(xp.asarray(labels), "bool"), (-1,))
        counts = (
            before + self._counted(places, xp.logical_and(there, chosen))
            for before, chosen in ((state.positive, truth), (state.negative, xp.logical_not(truth)))
        )
        return AucState(*counts)

    def _counted(self, places: Any, there: Any) -> Any:
        found = xp.bincount(places, weights=xp.astype(there, "f64"), length=self.bins)
        return xp.astype(found, "i64")

    @computing
    def compute(self, state: AucState) -> Any:
        """The area, from 0 to 1."""
        positive, negative = (xp.astype(x, "f64") for x in state)
        below = xp.cumsum(negative) - 0.5 * negative
        return _share(xp.sum(positive * below), xp.sum(positive) * xp.sum(negative))


def _share(part: Any, whole: Any) -> Any:
    """Part of a whole in f64; NaN of nothing."""
    whole = xp.astype(xp.asarray(whole), "f64")
    empty = xp.equal(whole, 0)
    share = xp.astype(xp.asarray(part), "f64") / xp.where(empty, 1, whole)
    return xp.where(empty, float("nan"), share)


def _mask(where: Any, labels: Any) -> Any:
    shape = shape_of(plain(labels))
    mask = xp.ones((), "bool") if where is None else xp.astype(xp.asarray(where), "bool")
    return xp.broadcast_to(mask, shape)


def _classes_of(name: str, predictions: Any, labels: Any) -> Any:
    """Predicted classes: integers of the shape of the labels, or the highest of the scores."""
    shape, given = shape_of(plain(predictions)), shape_of(plain(labels))
    if shape == given and not known_dtype(xp.asarray(predictions).dtype).is_float:
        return predictions
    _check_scores(name, predictions, labels)
    return xp.argmax(predictions, axis=-1)


def _check_scores(name: str, predictions: Any, labels: Any) -> None:
    shape, given = shape_of(plain(predictions)), shape_of(plain(labels))
    if len(shape) != len(given) + 1 or shape[:-1] != given:
        raise ShapeError(
            f"{name}: expected scores of shape (..., classes) for labels of shape "
            f"{shown_shape(given)}, found {shown_shape(shape)}",
            origin=user_origin(),
            remedy="labels are class numbers; of a binary classifier pass scores > 0 as integers",
        )


def _check_same(name: str, scores: Any, labels: Any) -> None:
    shape, given = shape_of(plain(scores)), shape_of(plain(labels))
    if shape != given:
        raise ShapeError(
            f"{name}: expected a score for each label, of shape {shown_shape(given)}, found "
            f"{shown_shape(shape)}",
            origin=user_origin(),
            remedy="pass the probability of the positive class: softmax(x)[..., 1]",
        )


__all__ = ["AUC", "F1", "Accuracy", "Confusion", "Mean", "Precision", "Recall", "TopK"]
