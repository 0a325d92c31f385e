"""Features in and out: scaled, normalised, cut at a threshold, filled in, chosen and joined."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.operations.operands import is_float, kind, like, rank, shape
from dlvm.onnx.table import Call, operation

from .scores import floats, rows, single


@operation("ai.onnx.ml::Scaler")
def _scaler(call: Call, x: Any) -> Any:
    """``(x - offset) * scale``"""
    x = x if is_float(x) else xp.astype(x, np.float32)
    moved = x - floats(call, "offset") if "offset" in call.attributes else x
    scaled = moved * floats(call, "scale") if "scale" in call.attributes else moved
    return xp.astype(scaled, np.float32)


@operation("ai.onnx.ml::Normalizer")
def _normalizer(call: Call, x: Any) -> Any:
    """Each row by its norm; a row of zeros stays."""
    x = single(x)
    match call.get("norm", "MAX"):
        case "L1":
            norm = xp.sum(xp.abs(x), axis=-1, keepdims=True)
        case "L2":
            norm = xp.sqrt(xp.sum(x * x, axis=-1, keepdims=True))
        case _:
            norm = xp.max(x, axis=-1, keepdims=True)
    return x / xp.where(norm == 0, xp.ones_like(norm), norm)


@operation("ai.onnx.ml::Binarizer")
def _binarizer(call: Call, x: Any) -> Any:
    return like(x > call.get("threshold", 0.0), x)


@operation("ai.onnx.ml::Imputer")
def _imputer(call: Call, x: Any) -> Any:
    """Another number where a value is missing, which NaN or a given number says."""
    real = is_float(x)
    missing = call.get("replaced_value_float" if real else "replaced_value_int64", 0)
    names = "imputed_value_floats" if real else "imputed_value_int64s"
    values = np.array(call[names], kind(x))
    gone = xp.isnan(x) if real and np.isnan(missing) else x == missing
    return xp.where(gone, values, x)


@operation("ai.onnx.ml::ArrayFeatureExtractor")
def _extractor(call: Call, x: Any, places: Any) -> Any:
    x = xp.reshape(x, (1, -1)) if rank(x) == 1 else x
    return xp.take(x, xp.reshape(places, (-1,)), axis=-1)


@operation("ai.onnx.ml::FeatureVectorizer")
def _vectorizer(call: Call, *xs: Any) -> Any:
    """The features of all operands in one row, each with as many as the node says."""
    sizes = call.get("inputdimensions") or [None] * len(xs)
    parts = [xp.astype(rows(x), np.float32) for x in xs]
    return xp.concat([_fitted(x, n) for x, n in zip(parts, sizes, strict=True)], axis=1)


def _fitted(x: Any, count: int | None) -> Any:
    """Rows with a number of features: what is beyond it is left out, what lacks is 0."""
    x = xp.reshape(x, (shape(x)[0], -1))
    has = shape(x)[1]
    if count is None or has == count:
        return x
    return x[:, :count] if has > count else xp.pad(x, ((0, 0), (0, count - has)))


@operation("ai.onnx.ml::ZipMap")
def _zip_map(call: Call, x: Any) -> Any:
    """The scores of the classes as columns, not as a dict for each row."""
    return x
