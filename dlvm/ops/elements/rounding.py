"""Rounding to whole numbers. Integers and bools are whole already and stay as they are."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dlvm.ir import Array, Value
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise


class Rounding(Elementwise):
    """A whole number near ``x``; infinities, NaN and the sign of zero stay as they are."""

    accepts = "biuf"
    nondifferentiable = "it is constant between whole numbers"
    word: ClassVar[str]
    x: Value

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        return x if x.dtype.kind in "biu" else getattr(np, self.word)(x)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return s.unary(self.word, *x) if s.dtype(x[0]).is_float else x[0]


class Floor(Rounding):
    """The nearest whole number that is not above ``x``."""

    name = "floor"
    word = "floor"


class Ceil(Rounding):
    """The nearest whole number that is not below ``x``; ceil(-0.5) is -0."""

    name = "ceil"
    word = "ceil"


class Trunc(Rounding):
    """The nearest whole number towards zero."""

    name = "trunc"
    word = "trunc"


class Round(Rounding):
    """The nearest whole number; halves go to the even one, as IEEE demands."""

    name = "round"
    public = "rint"
    word = "round"

    def reference(self, *operands: Array) -> Any:
        (x,) = operands
        return x if x.dtype.kind in "biu" else np.rint(x)
