"""Categories as numbers: codes of labels, and a column for each category."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.onnx.operations.operands import kind, like
from dlvm.onnx.table import Call, operation

FROM = {"keys_int64s": np.int64, "keys_floats": np.float32, "keys_tensor": None}
TO = {"values_int64s": np.int64, "values_floats": np.float32, "values_tensor": None}
OTHERWISE = {"values_int64s": ("default_int64", -1), "values_floats": ("default_float", -0.0)}


@operation("ai.onnx.ml::OneHotEncoder")
def _one_hot(call: Call, x: Any) -> Any:
    """A column for each category: 1 where an element is it. Others have 0 everywhere."""
    if not call.get("cats_int64s"):
        raise _text(call)
    if not call.get("zeros", 1):
        raise call.unsupported(
            "it stops at elements that are no category, which depends on data",
            "export it with zeros=1, as handle_unknown='ignore' does",
        )
    whole = np.array(call["cats_int64s"], np.int64)
    return xp.astype(xp.expand_dims(xp.astype(x, np.int64), -1) == whole, np.float32)


@operation("ai.onnx.ml::LabelEncoder")
def _label_encoder(call: Call, x: Any) -> Any:
    """The value that stands beside a key; an element that is no key becomes the default."""
    keys, values = _listed(call, FROM), _listed(call, TO)
    keys = keys.reshape(-1).astype(kind(x))
    equal = xp.expand_dims(x, -1) == keys
    if keys.dtype.kind == "f" and call.version >= 4:  # earlier, NaN is no key
        equal = equal | (xp.expand_dims(xp.isnan(x), -1) & np.isnan(keys))
    place = xp.argmax(xp.astype(equal, np.int32), axis=-1)
    flat = xp.take(values, xp.reshape(place, (-1,)), axis=0)
    found = xp.reshape(flat, tuple(x.shape))
    return xp.where(xp.any(equal, axis=-1), found, like(_default(call, values), found))


def _listed(call: Call, ways: dict[str, Any]) -> Any:
    for name, dtype in ways.items():
        if name in call.attributes:
            return np.array(call[name], dtype).reshape(-1)
    raise _text(call)


def _default(call: Call, values: Any) -> Any:
    if "default_tensor" in call.attributes:
        return np.asarray(call["default_tensor"]).reshape(())
    ways = OTHERWISE["values_int64s" if values.dtype.kind in "iu" else "values_floats"]
    return np.asarray(call.get(*ways), values.dtype)


def _text(call: Call) -> Exception:
    return call.unsupported(
        "it encodes text, which dlvm does not have",
        "encode the text before the model, and export the model without this step",
    )
