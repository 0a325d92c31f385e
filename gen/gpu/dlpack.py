"""DLPack, by which libraries share arrays on a device without a copy: out of dlvm and in.

What is given out is the form without a version, which every library reads. The record stays in
``HELD``, with the array, until its taker calls the deleter, or until the capsule goes unread.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere, Lent, dense, not_dense
from dlvm.base.errors import UserError
from dlvm.ir import BF16

NAME = b"dltensor"
CUDA, MANAGED = 2, 13
"""kDLCUDA and kDLCUDAManaged."""
LEGACY = 1
"""The default stream of CUDA, as DLPack counts streams."""
CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
BRAIN = 4


class _Tensor(ctypes.Structure):
    """DLTensor: data, device, axes, the code, bits and lanes of an element, shape, strides."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("ordinal", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor: the tensor, who manages it, and the function that releases it."""

    _fields_ = (
        ("tensor", _Tensor),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_api = ctypes.pythonapi
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _api)
)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_unread = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)
_read = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
HELD: dict[int, tuple[Any, ...]] = {}
"""What takers of arrays use now, by the address of its record."""


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(record: int) -> None:
    """The deleter: the taker needs the array no longer."""
    HELD.pop(record, None)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _dropped(capsule: int) -> None:
    """Releases the array of a capsule that nobody read; reading renames it."""
    if _unread(capsule, NAME):
        HELD.pop(_read(capsule, NAME), None)


def given_out(x: Elsewhere, place: tuple[int, int]) -> Any:
    """The capsule for an array."""
    axes = ctypes.c_int64 * max(1, x.ndim)
    shape = axes(*x.shape)
    steps = np.cumprod((1, *x.shape[:0:-1]), dtype=np.int64)[::-1].tolist()
    strides = axes(*(steps if x.ndim else ()))
    code = BRAIN if x.dtype.name == "bfloat16" else CODES[x.dtype.kind]
    element = code, 8 * x.dtype.itemsize, 1
    tensor = _Tensor(x.address, *place, x.ndim, *element, shape, strides, 0)
    record = _Managed(tensor, None, ctypes.cast(_release, ctypes.c_void_p))
    at = ctypes.addressof(record)
    HELD[at] = record, shape, strides, x
    return _new(at, NAME, ctypes.cast(_dropped, ctypes.c_void_p))


def received(x: Any, label: str) -> Lent:
    """The array of another library, which its capsule keeps alive."""
    kind, ordinal = map(int, x.__dlpack_device__())
    if kind not in (CUDA, MANAGED):
        raise UserError(
            f"{label}: expected an array of the host or a GPU of NVIDIA, found one on device"
            f" {ordinal} of type {kind}",
            remedy="copy it to the host first",
        )
    capsule = x.__dlpack__(stream=LEGACY)
    t = _Managed.from_address(_pointer(capsule, NAME)).tensor
    shape = tuple(t.shape[: t.ndim])
    if not dense(shape, t.strides[: t.ndim] if t.strides else None, 1):
        raise not_dense(x, label)
    address = (t.data or 0) + t.offset
    return Lent((x, capsule), address, shape, _dtype(t, label), stream=LEGACY, ordinal=ordinal)


def _dtype(t: _Tensor, label: str) -> np.dtype[Any]:
    """The element type of a record."""
    kinds = {code: kind for kind, code in CODES.items()}
    if t.lanes == 1 and t.code == BRAIN and t.bits == 16:
        return BF16.numpy
    if t.lanes != 1 or t.code not in kinds or t.bits % 8:
        raise UserError(
            f"{label} has elements of {t.bits} bits of type {t.code}, which NumPy does not have",
            remedy="convert it to floats or integers first",
        )
    return np.dtype(f"{kinds[t.code]}{t.bits // 8}")
