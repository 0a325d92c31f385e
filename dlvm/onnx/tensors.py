"""The arrays of an ONNX file: elements of a tensor as a view of the file, and tensors of arrays.

What a file says of a tensor is checked against the bytes it has: ``product(dims) * size`` must be
their number. Elements in another file are read only from inside of the folder of the model.
"""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from dlvm.base.errors import DTypeError, UserError

from .messages import Tensor
from .wire import Malformed

Array = np.ndarray[Any, Any]
TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    4: np.dtype("<u2"),
    5: np.dtype("<i2"),
    6: np.dtype("<i4"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
    10: np.dtype("<f2"),
    11: np.dtype("<f8"),
    12: np.dtype("<u4"),
    13: np.dtype("<u8"),
    16: np.dtype(ml_dtypes.bfloat16),
}
"""Element types by their numbers in files."""
NUMBERS = {dtype: number for number, dtype in TYPES.items()}
"""The numbers of element types."""
OTHERS = {
    **{0: "UNDEFINED", 8: "STRING", 14: "COMPLEX64", 15: "COMPLEX128", 17: "FLOAT8E4M3FN"},
    **{18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2", 20: "FLOAT8E5M2FNUZ", 21: "UINT4", 22: "INT4"},
    **{23: "FLOAT4E2M1", 24: "FLOAT8E8M0", 25: "UINT2", 26: "INT2"},
}
"""Element types of ONNX that dlvm does not have."""
HALVES = (10, 16)
"""Element types whose bits stand in ``int32_data``."""
LONGEST = 32
"""Axes that an array may have."""
LARGEST = 2**63
EXTERNAL = 1


def dtype_of(number: int | None) -> np.dtype[Any]:
    """The element type of a number in a file."""
    found = TYPES.get(number or 0)
    if found is not None:
        return found
    name = OTHERS.get(number or 0, f"of number {number}")
    if name == "STRING":
        raise DTypeError(
            "onnx: dlvm has no text, and the model has an array of type STRING",
            remedy="encode text outside of the model: fit a classifier to the numbers that "
            "sklearn.preprocessing.LabelEncoder gives for the labels",
        )
    raise DTypeError(
        f"onnx: dlvm has no elements of type {name}",
        remedy="export the model with elements of type float, such as FLOAT or BFLOAT16",
    )


def array(tensor: Tensor, folder: Path | None = None) -> Array:
    """The elements of a tensor; ``folder`` is that of the model, where other files may lie."""
    dtype, shape = dtype_of(tensor.data_type), _shape(tensor)
    if tensor.data_location == EXTERNAL:
        flat = _from_bytes(_external(tensor, folder), dtype)
    elif tensor.raw_data is not None:
        flat = _from_bytes(tensor.raw_data, dtype, tensor.name)
    else:
        flat = _listed(tensor, dtype)
    if flat.size != math.prod(shape):
        raise Malformed(
            f"onnx: expected {math.prod(shape)} elements for the tensor {tensor.name!r} of shape "
            f"{shape}, found {flat.size}"
        )
    return flat.reshape(shape)


def tensor(name: str, x: Array) -> Tensor:
    """The tensor of an array."""
    x = np.asarray(x)
    number = NUMBERS.get(x.dtype.newbyteorder("<"))
    if number is None:
        raise DTypeError(f"onnx: {name} has elements of type {x.dtype}, which dlvm does not have")
    raw = np.ascontiguousarray(x, TYPES[number]).tobytes()
    return Tensor(name=name, dims=list(x.shape), data_type=number, raw_data=raw)


def _shape(tensor: Tensor) -> tuple[int, ...]:
    """The sizes that a file states, if an array may have them."""
    dims = tuple(tensor.dims)
    size = math.prod(max(d, 1) for d in dims[:LONGEST])
    if len(dims) > LONGEST or min(dims, default=0) < 0 or size >= LARGEST:
        raise Malformed(
            f"onnx: expected at most {LONGEST} sizes, none negative, for the tensor "
            f"{tensor.name!r}, found {dims[:LONGEST]}"
        )
    return dims


def _from_bytes(data: bytes | memoryview, dtype: np.dtype[Any], name: str | None = None) -> Array:
    """The elements in bytes: a view of them, unless the processor could not read it in place."""
    if len(data) % dtype.itemsize:
        raise Malformed(
            f"onnx: expected elements of {dtype.itemsize} bytes each for the tensor {name!r}, "
            f"found {len(data)} bytes"
        )
    if dtype == np.bool_:
        return np.frombuffer(data, np.uint8) != 0
    found = np.frombuffer(data, dtype)
    return found if found.flags.aligned else found.copy()


def _listed(tensor: Tensor, dtype: np.dtype[Any]) -> Array:
    """The elements in the list that belongs to an element type."""
    number = tensor.data_type
    if number in HALVES:
        bits = np.array(tensor.int32_data, np.int64).astype(np.uint16)
        return bits.view(dtype)
    lists: dict[int, tuple[list[Any], Any]] = {
        1: (tensor.float_data, np.float32),
        7: (tensor.int64_data, np.int64),
        11: (tensor.double_data, np.float64),
        12: (tensor.uint64_data, np.uint64),
        13: (tensor.uint64_data, np.uint64),
    }
    values, kind = lists.get(number or 0, (tensor.int32_data, np.int64))
    return np.array(values, kind).astype(dtype)


# -- other files -----------------------------------------------------------------------------------


def _external(tensor: Tensor, folder: Path | None) -> memoryview:
    """The bytes of a tensor that lie in another file, mapped into memory."""
    entries = {entry.key: entry.value or "" for entry in tensor.external_data}
    path = _inside(entries.get("location", ""), folder)
    with path.open("rb") as file:
        length = path.stat().st_size
        start = _whole(entries.get("offset", "0"))
        size = _whole(entries["length"]) if "length" in entries else max(length - start, 0)
        if start + size > length:
            raise Malformed(
                f"onnx: expected {start + size} bytes in {path.name!r} for {tensor.name!r}, found "
                f"{length}"
            )
        if not size:
            return memoryview(b"")
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return memoryview(whole).toreadonly()[start : start + size]


def _inside(location: str, folder: Path | None) -> Path:
    """The file that a model names, which must be a file in the folder of the model."""
    if folder is None:
        raise UserError(
            f"onnx: the model has weights in the file {location!r}, and is given as bytes",
            remedy="give the path of the model: dlvm.onnx.load(path)",
        )
    root = folder.resolve()
    path = (root / location).resolve()
    if not location or "\0" in location or not path.is_relative_to(root) or not path.is_file():
        raise Malformed(
            f"onnx: expected a file in the folder of the model for weights, found {location!r}",
            remedy="put the file with the weights beside the model, as its writer did",
        )
    return path


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Malformed(f"onnx: expected a number of bytes for weights in a file, found {text!r}")
    return int(text)
