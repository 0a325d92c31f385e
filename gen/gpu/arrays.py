"""Arrays in the memory of a device, as results of programs for a GPU and as arguments of others.

NumPy reads them by a copy; PyTorch, CuPy and pycuda share their memory by
``__cuda_array_interface__`` or DLPack.
"""

from __future__ import annotations

from sys import is_finalizing
from typing import Any, cast

import numpy as np

from dlvm.base.elsewhere import Elsewhere, Lent
from dlvm.ir import Array, TensorType

from .device import Device
from .dlpack import given_out


class Block:
    """Memory of a device that is given back when nothing holds it any more."""

    __slots__ = ("address", "bytes", "device")

    def __init__(self, device: Device, count: int) -> None:
        self.address = device.allocate(max(1, count))
        self.device, self.bytes = device, count

    def __del__(self) -> None:
        if hasattr(self, "device") and not is_finalizing():
            self.device.free(self.address)


class Borrowed(Block):
    """Memory that another library owns, which is kept alive."""

    __slots__ = ("owner",)

    def __init__(self, device: Device, x: Lent) -> None:
        self.device, self.bytes, self.address, self.owner = device, x.nbytes, x.address, x.owner

    def __del__(self) -> None:
        """Nothing, as its owner gives it back."""


class DeviceArray(Elsewhere):
    """A dense array in the memory of a device; ``np.asarray(x)`` copies it to the host."""

    def __init__(self, block: Block, type_: TensorType) -> None:
        """An array of a type whose sizes are all known."""
        self.block = block
        self.type = type_
        self.shape = cast("tuple[int, ...]", type_.shape)
        self.dtype = type_.dtype.numpy

    @staticmethod
    def of(array: Array, type_: TensorType, device: Device) -> DeviceArray:
        """A copy of an array of the host."""
        found = DeviceArray(Block(device, array.nbytes), type_)
        device.write(found.block.address, np.ascontiguousarray(array))
        return found

    @staticmethod
    def lent(x: Lent, type_: TensorType, device: Device, overwritten: bool) -> DeviceArray:
        """An array of another library in its memory, or a copy if that may not be overwritten."""
        if x.stream not in (None, 0, device.stream or 1):
            device.follow(x.stream)
        if not (overwritten and x.readonly):
            return DeviceArray(Borrowed(device, x), type_)
        found = DeviceArray(Block(device, x.nbytes), type_)
        device.copy(found.address, x.address, x.nbytes)
        return found

    @property
    def address(self) -> int:
        """Where the first element is."""
        return self.block.address

    @property
    def ordinal(self) -> int:
        """The number of its device."""
        return self.block.device.place[1]

    def copied(self) -> DeviceArray:
        """A copy on the device."""
        device = self.block.device
        found = DeviceArray(Block(device, self.nbytes), self.type)
        device.copy(found.address, self.address, self.nbytes)
        return found

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

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of DLPack for this memory; what it is taken on waits for the device."""
        device = self.block.device
        self._addressed(BufferError)
        if copy or dl_device not in (None, device.place):
            raise BufferError("an array on a device is given out where it is, without a copy")
        if stream != (device.stream or 1):
            device.wait()
        return given_out(self, device.place)

    def _addressed(self, error: type[Exception]) -> None:
        """An error where an address means nothing to other libraries."""
        if not self.block.device.shares:
            raise error(f"np.asarray alone reads the memory of {self.block.device.name}")

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.block.device.place

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        self._addressed(AttributeError)
        return {
            "shape": self.shape,
            "typestr": np.dtype(self.dtype).str,
            "data": (self.block.address, False),
            "version": 3,
            "strides": None,
            "stream": self.block.device.stream or 1,
        }
