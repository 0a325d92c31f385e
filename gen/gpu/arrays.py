"""Arrays in the memory of a device, as results of programs for a GPU and as arguments of others.

NumPy reads them by a copy; PyTorch, CuPy and pycuda share their memory by
``__cuda_array_interface__`` or DLPack.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from dlvm.ir import Array, TensorType

from .device import Device


class Block:
    """Memory of a device that is given back when nothing holds it any more."""

    __slots__ = ("__weakref__", "address", "bytes", "device")

    def __init__(self, device: Device, count: int) -> None:
        self.device, self.bytes = device, count
        self.address = device.allocate(max(1, count))
        weakref.finalize(self, device.free, self.address).atexit = False


class DeviceArray:
    """A dense array in the memory of a device; ``np.asarray(x)`` copies it to the host."""

    def __init__(self, block: Block, type_: TensorType) -> None:
        self.block = block
        self.type = type_
        self.shape = tuple(int(str(d)) for d in type_.shape)
        self.dtype = type_.dtype.numpy

    @staticmethod
    def of(array: Array, type_: TensorType, device: Device) -> DeviceArray:
        """A copy of an array of the host."""
        found = DeviceArray(Block(device, array.nbytes), type_)
        device.write(found.block.address, np.ascontiguousarray(array))
        return found

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=int))

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """A copy on the host."""
        if copy is False:
            raise ValueError("an array on a device is read by a copy; leave copy=False out")
        found = np.empty(self.shape, self.dtype)
        self.block.device.read(self.block.address, found)
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return f"<on the device: {self.type}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __int__(self) -> int:
        return int(np.asarray(self))

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    def item(self) -> Any:
        """The one element, as a number of Python."""
        return np.asarray(self).item()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.block.address, False),
            "version": 3,
            "strides": None,
        }
