"""Types and attributes, read from their text: it is the same whatever version wrote a module."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir import DTYPES, Array, DType, TensorType

from .tree import unreadable

TENSOR = re.compile(r"tensor<((?:[\d?]+x)*)(\w+|complex<\w+>)(?:,.*)?>")
AXES = {
    "input": {"b": "batch", "f": "feature"},
    "kernel": {"i": "input_feature", "o": "output_feature"},
    "output": {"b": "batch", "f": "feature"},
}
"""The letters that stand for the axes of a convolution which are not spatial."""
PAIR = re.compile(r"(\w+) = (\[[^\]]*\]|-?\w+)")


def type_of(text: str) -> TensorType:
    """A tensor type with known sizes."""
    found = TENSOR.fullmatch(text)
    if found is None:
        raise unreadable(text, "its type is no tensor")
    sizes, kind = found.groups()
    if "?" in sizes:
        raise UserError(
            f"stablehlo.load: the type {text} has an open size",
            remedy="export the function for arrays of known shapes",
        )
    return TensorType(_element(kind), tuple(int(n) for n in sizes.split("x")[:-1]))


def _element(kind: str) -> DType:
    if kind == "i1":
        return DTYPES["bool"]
    name = f"u{kind[2:]}" if kind.startswith("ui") else kind
    if name not in DTYPES:
        raise unreadable(f"element type {kind}", "dlvm has no such type")
    return DTYPES[name]


def value_of(text: str) -> Any:
    """An attribute: a number, a bool, a word, a list, or a dict of the fields of a record."""
    text = text.strip()
    if text.startswith("array<"):
        return _numbers(text[text.index("<") + 1 : -1].partition(":")[2])
    if match := re.fullmatch(r"#stablehlo<\w+ (\w+)>", text):
        return match[1]
    if text.startswith(("#stablehlo.conv<", "#chlo.conv<")):
        return _axes(text[text.index("<") + 1 : -1])
    if text.startswith(("#stablehlo.", "#chlo.")):
        return {k: _field(v) for k, v in PAIR.findall(text[text.index("<") + 1 : -1])}
    if text.startswith("@"):
        return text[1:].strip('"')
    if text.startswith('"'):
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    match = re.fullmatch(r"(-?\d+)(?: : \w+)?", text)
    return int(match[1]) if match else text


def _axes(text: str) -> dict[str, Any]:
    """Those of a convolution: ``[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]``."""
    found: dict[str, Any] = {}
    for part, (operand, words) in zip(re.findall(r"\[([^\]]*)\]", text), AXES.items(), strict=True):
        names = [w.strip() for w in part.split(",")]
        found |= {f"{operand}_{words[w]}_dimension": names.index(w) for w in words}
        spatial = [names.index(str(i)) for i in range(len(names) - 2)]
        found[f"{operand}_spatial_dimensions"] = spatial
    return found


def _field(text: str) -> Any:
    return _numbers(text[1:-1]) if text.startswith("[") else value_of(text)


def _numbers(text: str) -> list[Any]:
    return [value_of(part) for part in text.split(",") if part.strip()]


def dense_of(text: str, t: TensorType) -> Array:
    """The elements of ``dense<...>`` where the bindings give no array: halves of bfloat."""
    inner = text[text.index("<") + 1 : text.rindex("> :")]
    dtype = t.dtype.numpy
    if inner.startswith('"0x'):
        raw = np.frombuffer(bytes.fromhex(inner[3:-1]), dtype)
        return shaped(raw, t)
    numbers = [_number(n, dtype) for n in re.findall(r"[^\s\[\],]+", inner)]
    return shaped(np.asarray(numbers, dtype), t)


def shaped(array: Array, t: TensorType) -> Array:
    """The elements of a tensor; one of them alone stands for all."""
    shape = tuple(int(n) for n in t.shape)
    flat = array.reshape(-1)
    return np.broadcast_to(flat[0], shape) if flat.size == 1 else flat.reshape(shape)


def _number(text: str, dtype: np.dtype[Any]) -> Any:
    if text.startswith("0x"):
        return np.asarray(int(text, 16), f"u{dtype.itemsize}").view(dtype)[()]
    return float(text)
