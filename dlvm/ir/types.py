"""Element types and tensor types: ``f32[64,784]``, and ``f32`` for a scalar.

A dtype knows its kind, its width in bits and the NumPy type that holds it. ``tape`` is the type of
the stack on which a loop of unknown trip count keeps the residuals of its derivative.
"""

from __future__ import annotations

import hashlib
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import ShapeError

from .sizes.dims import Dim, Expr, product, substitute

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
DIGESTED = 4096
"""Bytes from which on an array is told from others by a digest instead of a copy."""


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.

    Its kind is one letter: ``b`` bool, ``i`` signed, ``u`` unsigned, ``f`` float, ``t`` tape.
    """

    name: str
    kind: str
    bits: int

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds elements of this type."""
        return _NUMPY.get(self.name) or _brain_float()

    @property
    def is_float(self) -> bool:
        """Whether it is a float type, through which derivatives flow."""
        return self.kind == "f"

    @property
    def is_integer(self) -> bool:
        """Whether it is a signed or unsigned integer type."""
        return self.kind in "iu"

    @property
    def bytes(self) -> int:
        """The size of one element in memory, in bytes."""
        return max(self.bits // 8, 1)

    @property
    def compute(self) -> DType:
        """The type in which arithmetic is done: 16-bit floats compute in f32 and round once."""
        return F32 if self.is_float and self.bits == 16 else self

    @property
    def lowest(self) -> float | int:
        """The lowest value, which is the identity of max."""
        if self.is_float:
            return -math.inf
        return 0 if self.kind in "bu" else -(2 ** (self.bits - 1))

    @property
    def highest(self) -> float | int:
        """The highest value, which is the identity of min."""
        if self.is_float:
            return math.inf
        return 1 if self.kind == "b" else 2 ** (self.bits - (self.kind == "i")) - 1


BOOL = DType("bool", "b", 1)
I8, I16, I32, I64 = (DType(f"i{n}", "i", n) for n in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{n}", "u", n) for n in (8, 16, 32, 64))
F16, F32, F64 = (DType(f"f{n}", "f", n) for n in (16, 32, 64))
BF16 = DType("bf16", "f", 16)
TAPE = DType("tape", "t", 64)
EXTENDED = DType("extended", "f", 128)
"""NumPy's long double, beside which the digits of f64 are counted; no program is written in it."""

DTYPES = {
    t.name: t for t in (BOOL, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, TAPE)
}
NUMBERS = tuple(t for t in DTYPES.values() if t.kind != "t")

_NUMPY: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "tape": np.dtype(object),
    "extended": np.dtype(np.longdouble),
    **{f"i{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"u{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"f{n}": np.dtype(f"float{n}") for n in (16, 32, 64)},
}
_OF_NUMPY = {_NUMPY[name]: dtype for name, dtype in DTYPES.items() if name in _NUMPY}


_DIGESTS: dict[int, tuple[weakref.ref[Array], bytes]] = {}
"""Those of large arrays that nobody can write to, by their places, while they live."""


def contents(array: Array) -> bytes:
    """The elements as bytes, or their digest if there are many; equal for equal elements alone."""
    if array.nbytes <= DIGESTED:
        return np.ascontiguousarray(array).tobytes()
    place = id(array)
    known = _DIGESTS.get(place)
    if known is not None and known[0]() is array and not array.flags.writeable:
        return known[1]
    flat = np.ascontiguousarray(array).reshape(-1)
    found = hashlib.sha256(flat.view(np.uint8).data).digest()
    if is_fixed(array):
        _DIGESTS[place] = weakref.ref(array, lambda _: _DIGESTS.pop(place, None)), found
    return found


def is_fixed(array: Any) -> bool:
    """Whether neither an array nor what it is a view of can be written to."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:  # pyright: ignore[reportUnknownMemberType]
            return False
        array = array.base  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return array is None or memoryview(array).readonly


def dtype_of(array: Array | np.dtype[Any]) -> DType | None:
    """The dtype of a NumPy array or dtype, or None if dlvm has no such type."""
    dtype = array if isinstance(array, np.dtype) else array.dtype
    found = _OF_NUMPY.get(dtype)
    return BF16 if found is None and dtype.name == "bfloat16" else found


def _brain_float() -> np.dtype[Any]:
    """The NumPy dtype of bf16, from a package that is imported on first use because it is slow."""
    import ml_dtypes

    return _NUMPY.setdefault(BF16.name, np.dtype(ml_dtypes.bfloat16))


MOST_AXES = 64
"""Axes that an array of NumPy can have."""
LARGEST = 1 << 48
"""A number of elements that no tensor reaches."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """The type of a tensor: element type and shape."""

    dtype: DType
    shape: tuple[Dim, ...] = ()

    def __post_init__(self) -> None:
        elements = 1
        for size in self.shape:
            if isinstance(size, int):
                elements *= size
                if size < 0:
                    raise ShapeError(f"a size can't be negative, found {self}")
        if elements >= LARGEST:
            raise ShapeError(
                f"a tensor has fewer than 2**48 elements, found {self}",
                remedy="give smaller sizes: no machine has so much memory",
            )
        if len(self.shape) > MOST_AXES:
            raise ShapeError(
                f"a tensor has at most {MOST_AXES} axes, found {len(self.shape)}",
                remedy="join some of them in a reshape",
            )
        if self.shape and self.dtype.kind == "t":
            raise ShapeError(f"a tape has no axes, found {self}")

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]" if self.shape else str(self.dtype)

    __repr__ = __str__

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return product(self.shape)

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        """The type with the same elements and another shape."""
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        """The type with the same shape and other elements."""
        return TensorType(dtype, self.shape)

    def substitute(self, values: Mapping[str, Dim]) -> TensorType:
        """The type with values substituted for symbols."""
        return TensorType(self.dtype, tuple(substitute(d, values) for d in self.shape))


def known(value: Any, values: Mapping[str, Dim]) -> Any:
    """A field with values substituted for symbols; the same object if nothing changed."""
    return with_sizes(value, lambda d: substitute(d, values))


def with_sizes(value: Any, change: Callable[[Dim], Dim]) -> Any:
    """A field with other sizes; the same object if nothing changed."""
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, TensorType):
        new = value.with_shape(tuple(map(change, value.shape)))
        return value if new == value else new
    if isinstance(value, tuple):
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        changed = tuple(with_sizes(v, change) for v in items)
        same = all(a is b for a, b in zip(changed, items, strict=True))
        return items if same else changed
    return value


def last_longer(shape: Sequence[Dim]) -> int | None:
    """The last axis that is longer than one: elements along it lie beside one another."""
    return max((a for a, d in enumerate(shape) if d != 1), default=None)
