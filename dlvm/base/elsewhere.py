"""Arrays in memory that the processor does not read by itself, such as a GPU's.

Programs for a device take them as they are; whoever needs their elements copies them first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import UserError

COPIED = "copy it to the host first: x.get() of CuPy and pycuda, x.cpu() of PyTorch"


class Elsewhere:
    """A dense array at an address of a device, in the order of C."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    remedy = "pass np.asarray({x}), which copies it to the host"
    """How a program that runs on the host gets the elements."""

    @property
    def address(self) -> int:
        """Where the first element is."""
        raise NotImplementedError

    @property
    def ordinal(self) -> int | None:
        """The number of its device, None where its owner does not tell."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def copied(self) -> Elsewhere:
        """An array with the same elements whose memory a program may overwrite."""
        raise NotImplementedError

    def overlaps(self, other: Elsewhere) -> bool:
        """Whether two arrays share memory."""
        first, second = self.address, other.address
        return first < second + other.nbytes and second < first + self.nbytes


class Lent(Elsewhere):
    """An array on a device that another library owns, which is kept alive.

    ``stream`` is where its owner may still be writing it, None if nowhere; ``ordinal`` is the
    number of its device, where that is known.
    """

    remedy = COPIED

    def __init__(
        self,
        owner: Any,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        readonly: bool = False,
        stream: int | None = None,
        ordinal: int | None = None,
    ) -> None:
        self.owner, self.shape, self.dtype = owner, shape, dtype
        self.readonly, self.stream = readonly, stream
        self._address, self._ordinal = address, ordinal

    @staticmethod
    def told(owner: Any, told: dict[str, Any], label: str, ordinal: int | None = None) -> Lent:
        """An array by what its owner says in ``__cuda_array_interface__``."""
        dtype, shape = np.dtype(told["typestr"]), tuple(map(int, told["shape"]))
        address, readonly = told["data"]
        if told.get("mask") is not None or not dense(shape, told.get("strides"), dtype.itemsize):
            raise not_dense(owner, label)
        more = bool(readonly), told.get("stream"), ordinal
        return Lent(owner, int(address or 0), shape, dtype, *more)

    @property
    def address(self) -> int:
        """Where the first element is."""
        return self._address

    @property
    def ordinal(self) -> int | None:
        """The number of its device, if its owner tells."""
        return self._ordinal

    def copied(self) -> Lent:
        """The same array, called read-only: whoever would overwrite it copies it."""
        more = True, self.stream, self.ordinal
        return Lent(self.owner, self.address, self.shape, self.dtype, *more)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise UserError(
            f"expected an array of the host, found a {type(self.owner).__name__} on a device",
            remedy=self.remedy,
        )

    def __repr__(self) -> str:
        return f"<on a device: {self.dtype}{list(self.shape)}>"


def dense(shape: Sequence[int], strides: Sequence[int] | None, step: int) -> bool:
    """Whether elements lie one after the other in the order of C, ``step`` units each."""
    if strides is None or 0 in shape:
        return True
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != step:
            return False
        step *= size
    return True


def not_dense(owner: Any, label: str) -> UserError:
    """The error for an array whose elements do not lie one after the other."""
    kind = type(owner).__name__
    return UserError(
        f"{label}: expected a dense array on the device, found a {kind} with strides or a mask",
        remedy="pass a contiguous copy of it",
    )
