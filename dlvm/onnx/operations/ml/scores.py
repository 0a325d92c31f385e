"""What estimators share: rows of features, lists of numbers, labels, and what becomes of scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.nn import softmax
from dlvm.onnx.operations.operands import is_float, kind, like, rank
from dlvm.onnx.table import Call

Array = np.ndarray[Any, Any]
TINY = 1e-7
"""The magnitude up to which SOFTMAX_ZERO takes a score for zero."""


def rows(x: Any) -> Any:
    """Features as floats, one row for each example; a vector is one example."""
    x = x if is_float(x) else xp.astype(x, np.float32)
    return xp.reshape(x, (1, -1)) if rank(x) == 1 else x


def single(x: Any) -> Any:
    """Rows of features in f32, in which most estimators compute."""
    x = rows(x)
    return x if kind(x) == np.float32 else xp.astype(x, np.float32)


def floats(call: Call, name: str) -> Array:
    """The numbers of an attribute, none if the node does not have it."""
    return np.array(call.get(name, ()), np.float32)


def transformed(call: Call, scores: Any) -> Any:
    """Scores after the node's ``post_transform``."""
    return transform(call, call.get("post_transform", "NONE"), scores)


def transform(call: Call, name: str, scores: Any) -> Any:
    """Scores after a function that is named."""
    match name:
        case "NONE":
            return scores
        case "LOGISTIC":
            return xp.sigmoid(scores)
        case "SOFTMAX":
            return softmax(scores, axis=-1)
        case "SOFTMAX_ZERO":
            return _softmax_beside_zeros(scores)
        case "PROBIT":
            return np.float32(np.sqrt(2)) * xp.erfinv(2 * scores - 1)
        case other:
            raise call.unsupported(
                f"it has the post_transform {other!r}", "export it with NONE, LOGISTIC or SOFTMAX"
            )


def _softmax_beside_zeros(scores: Any) -> Any:
    """A softmax of the scores that are not zero; zeros stay."""
    largest = xp.max(scores, axis=-1, keepdims=True)
    zero = xp.abs(scores) <= TINY
    parts = xp.where(zero, xp.zeros_like(scores), xp.exp(scores - largest))
    total = xp.sum(parts, axis=-1, keepdims=True)
    return xp.where(zero, scores * xp.exp(-largest), parts) / total


def two_columns(call: Call, score: Any, positive: bool) -> Any:
    """The scores of both classes for a column that has that of the second.

    Where all weights are ``positive`` the score is a probability.
    """
    if call.get("post_transform") == "LOGISTIC":
        return xp.sigmoid(xp.concat([-score, score], axis=1))
    return xp.concat([1 - score if positive else -score, score], axis=1)


def label(call: Call, places: Any) -> Any:
    """The labels of classes by their places; where labels are text, the places themselves."""
    numbers = call.get("classlabels_ints") or call.get("classlabels_int64s")
    if not numbers:
        return xp.astype(places, np.int64)
    return xp.take(np.array(numbers, np.int64), places, axis=0)


def classes(call: Call) -> int:
    """The number of labels."""
    names = ("classlabels_ints", "classlabels_int64s", "classlabels_strings")
    return max(len(call.get(name, ())) for name in names)


def choose(call: Call, scores: Any) -> Any:
    """The label of the largest score of each row."""
    return label(call, xp.argmax(scores, axis=1))


def second_if(call: Call, chosen: Any) -> Any:
    """The second label where a column of truths says so, else the first."""
    return label(call, like(xp.reshape(chosen, (-1,)), np.zeros(0, np.int64)))
