"""Layers that are one product or one look-up: dense, embedding and bags of embeddings."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError
from dlvm.dsl.arrays.creation import below
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .precision import wide


@exported("nn.dense")
def dense(x: Any, w: Any, b: Any = None) -> Any:
    """``x @ w + b``: rows of ``in`` features, a matrix of shape (in, out) and ``out`` numbers."""
    _check_features("dense", x, w)
    found = xp.matmul(x, w)
    return found if b is None else xp.add(found, b)


def _check_features(name: str, x: Any, w: Any) -> None:
    """The matrix has a row for each feature."""
    rows, matrix = shape_of(plain(x)), shape_of(plain(w))
    if len(matrix) != 2:
        raise ShapeError(
            f"{name}: expected weights of shape (in, out), found {shown_shape(matrix)}",
            origin=user_origin(),
            remedy="pass a matrix with one row for each feature of x",
        )
    if not rows or rows[-1] != matrix[0]:
        transposed = bool(rows) and rows[-1] == matrix[1]
        raise ShapeError(
            f"{name}: x of shape {shown_shape(rows)} needs weights with as many rows as x has "
            f"features along its last axis, found weights of shape {shown_shape(matrix)}",
            origin=user_origin(),
            remedy="weights are of shape (in, out), PyTorch's are (out, in): pass w.T"
            if transposed
            else "give one row of weights for each feature",
        )


@exported("nn.embedding")
def embedding(table: Any, ids: Any, mode: str = "error") -> Any:
    """The row of a table for each integer.

    One that is out of range is an error of the call, or what ``dlvm.take`` does in another mode.
    """
    kind = known_dtype(xp.asarray(ids).dtype)
    if not kind.is_integer:
        raise DTypeError(
            f"embedding: ids are integer row numbers, found {kind}",
            origin=user_origin(),
            remedy="convert them with dlvm.astype(ids, np.int64)",
        )
    if not shape_of(plain(table)):
        raise ShapeError(
            "embedding: expected a table of shape (rows, features), found a number",
            origin=user_origin(),
            remedy="pass a matrix with one row for each id",
        )
    return xp.take(table, ids, 0, mode=mode)


MODES = ("mean", "sum", "max")


@exported("nn.embedding_bag")
def embedding_bag(
    table: Any, ids: Any, mode: str = "mean", weights: Any = None, lengths: Any = None
) -> Any:
    """The mean, the sum or the maximum of the rows of a table that bags (..., N) of integers name.

    ``weights`` (..., N) multiply the rows of a sum. Of each bag the first ``lengths`` (...) count.
    A bag of no integers gives 0.
    """
    if mode not in MODES or (weights is not None and mode != "sum"):
        raise ArgumentError(
            f"embedding_bag: expected mode 'mean', 'sum' or 'max', and weights with 'sum' only, "
            f"found {mode!r} and {'no ' if weights is None else ''}weights",
            origin=user_origin(),
            remedy="write mode='sum'",
        )
    kind = known_dtype(xp.asarray(table).dtype)
    rows = wide(embedding(table, ids), kind)
    if weights is not None:
        rows = rows * xp.expand_dims(xp.astype(weights, rows.dtype), -1)
    size = shape_of(plain(ids))[-1]
    held = xp.asarray(size) if lengths is None else xp.expand_dims(xp.minimum(lengths, size), -1)
    counts = xp.expand_dims(xp.less(below(size), held), -1)
    if mode == "max":
        largest = xp.max(xp.where(counts, rows, kind.lowest), axis=-2, initial=kind.lowest)
        return xp.astype(xp.where(xp.greater(held, 0), largest, 0), kind)
    total = xp.sum(xp.where(counts, rows, 0), axis=-2)
    found = total if mode == "sum" else total / xp.astype(xp.maximum(held, 1), total.dtype)
    return xp.astype(found, kind) if kind.is_float else found
