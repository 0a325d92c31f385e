"""Values from nothing: constants, sizes as numbers, counting; and questions about constants."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.base.errors import IRError
from dlvm.ir import I64, TAPE, Array, Dim, DType, Op, TensorType, Value, dtype_of
from dlvm.ir.properties import Of, Properties
from dlvm.ir.types import EXTENDED

from .families import Creation, Elementwise, Movement, Reduction

LOOKED_AT = 1024
"""Elements of the largest constant at which laws look."""
TOLD = 16
"""Elements up to which a known constant is as any other."""


class Constant(Creation):
    """A tensor that is part of the program's text.

    One that is ``known`` is an array of the caller's, such as a weight, in whose place others may
    come: laws do not compute with its elements, unless there is one.
    """

    name = "constant"
    value: Array
    known: bool = False

    def infer(self) -> TensorType:
        """The type of the array itself."""
        dtype = dtype_of(self.value)
        if dtype is None and self.value.dtype == EXTENDED.numpy:
            dtype = EXTENDED
        if dtype is None:
            raise IRError(f"constant: no element type for {self.value.dtype}")
        return TensorType(dtype, self.value.shape)

    def properties(self, of: Of) -> Properties:
        """Signs and symmetry of what is small enough to be looked at."""
        array = self.value
        if array.size > LOOKED_AT or array.dtype.kind not in "iuf":
            return frozenset()
        found = {"nonnegative"} if bool((array >= 0).all()) else set[str]()
        square = array.ndim > 1 and array.shape[-1] == array.shape[-2]
        if square and np.array_equal(array, np.swapaxes(array, -1, -2)):
            found.add("symmetric")
        return frozenset(found)

    def reference(self, *operands: Array) -> Any:
        return self.value


class DimSize(Creation):
    """A size as a number: the value that ``size`` has in this call."""

    name = "dim"
    size: Dim

    def infer(self) -> TensorType:
        """A scalar i64."""
        return TensorType(I64)

    def reference(self, *operands: Array) -> Any:
        return np.int64(self.size)


class Iota(Creation):
    """``0, 1, ..., size-1`` in the given element type; integers wrap, bool is refused."""

    name = "iota"
    size: Dim
    dtype_to: DType = I64

    def infer(self) -> TensorType:
        """A vector."""
        if self.dtype_to.kind in "bt":
            raise IRError(f"iota: elements of type {self.dtype_to} don't count")
        return TensorType(self.dtype_to, (self.size,))

    def reference(self, *operands: Array) -> Any:
        return np.arange(int(self.size)).astype(self.dtype_to.numpy)


class EmptyTape(Creation):
    """A tape with nothing on it; see ``tape.py``."""

    name = "empty_tape"
    from_passes = True

    def infer(self) -> TensorType:
        """A tape."""
        return TensorType(TAPE)

    def reference(self, *operands: Array) -> Any:
        cell = np.empty((), object)
        cell[()] = ()
        return cell

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return ()


def unread(value: Value) -> bool:
    """Whether a value is a constant whose elements decide nothing about code that reads it.

    Its ``properties`` may.
    """
    if not isinstance(value, Constant) or not value.dtype.is_float:
        return False
    return value.value.size > (TOLD if value.known else LOOKED_AT)


def constant_array(value: Value) -> Array | None:
    """The array of a constant; None of any other value."""
    return value.value if isinstance(value, Constant) else None


def scalar_value(value: Value) -> Any:
    """The number that fills a whole tensor, if it is known; else None."""
    while isinstance(value, Op) and value.name in ("broadcast", "reshape"):
        value = value.operands[0]
    if isinstance(value, Constant) and value.value.size == 1:
        return value.value.reshape(())[()]
    return None


def is_splat(value: Value, number: float) -> bool:
    """Whether every element of a value is this number; of floats 0.0 and -0.0 are two numbers."""
    found = scalar_value(value)
    if found is None or found != number:
        return False
    signed = number == 0 and found.dtype.kind not in "biu"
    return not signed or bool(np.signbit(found)) == (math.copysign(1, number) < 0)


DEPTH = 4
"""How many operations deep a question about the range of a value looks."""


def never_negative_zero(value: Value, depth: int = DEPTH) -> bool:
    """Whether no element of a value can be -0.0, as far as the operations that made it tell."""
    found = scalar_value(value)
    if found is not None:
        return found.dtype.kind in "biu" or not (found == 0 and np.signbit(found))
    if not value.dtype.is_float:
        return True
    if depth and isinstance(value, Elementwise | Movement | Reduction):
        return value.never_negative_zero(lambda x: never_negative_zero(x, depth - 1))
    return False
