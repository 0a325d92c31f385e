"""The scalar functions in which element-wise formulas are written.

They are all that a target must implement. An element-wise operation states its formula, and a
reduction its monoid, in these functions. A target implements each function once (as LLVM vectors,
as loop code, as NumPy), and so compiles every operation that is written in them.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from .types import DType

S = TypeVar("S")


class Scalars(Protocol[S]):
    """The scalar functions, on a target's own representation ``S`` of a scalar."""

    def constant(self, number: float | int | bool, dtype: DType) -> S:
        """A number of the given type."""
        ...

    def dtype(self, x: S) -> DType:
        """The type of a scalar."""
        ...

    def unary(self, word: str, x: S) -> S:
        """One of the functions in ``UNARY``."""
        ...

    def binary(self, word: str, x: S, y: S) -> S:
        """One of the functions in ``BINARY``, on scalars of one type; comparisons return bool."""
        ...

    def select(self, condition: S, x: S, y: S) -> S:
        """``x`` if the condition holds, else ``y``; both are computed."""
        ...

    def cast(self, x: S, dtype: DType) -> S:
        """Conversion: floats round to nearest even; float to integer saturates, NaN gives 0."""
        ...

    def reinterpret(self, x: S, dtype: DType) -> S:
        """The same bits as a type of the same width."""
        ...


FUNCTIONS = {
    "exp": "e to the x",
    "exp2": "2 to the x, exact at integers",
    "expm1": "e to the x, less 1, with all digits near 0",
    "log": "natural logarithm; NaN below 0, -inf at 0",
    "log2": "logarithm to the base 2, exact at powers of 2",
    "log10": "logarithm to the base 10",
    "log1p": "logarithm of 1 + x, with all digits near 0",
    "sinh": "hyperbolic sine",
    "cosh": "hyperbolic cosine",
    "tanh": "hyperbolic tangent",
    "sin": "sine, for arguments of any size; NaN at infinities",
    "cos": "cosine, likewise",
    "tan": "tangent, likewise",
    "asin": "arc sine; NaN outside of -1 and 1",
    "acos": "arc cosine; NaN outside of -1 and 1",
    "atan": "arc tangent",
    "cbrt": "cube root, of either sign",
    "erf": "error function",
    "erfc": "1 - erf(x), with all digits where that is small",
    "erfinv": "inverse of erf; infinite at 1 and -1, NaN beyond",
    "lgamma": "logarithm of the magnitude of the gamma function; infinite at its poles",
    "digamma": "derivative of lgamma; NaN at negative poles",
}
"""Functions of one float."""

UNARY = {
    "neg": "0 - x, with the sign of zero flipped",
    "abs": "magnitude",
    "not": "negation of a bool, or complement of an integer",
    "sqrt": "square root, correctly rounded",
    "trunc": "nearest integer towards zero",
    "floor": "nearest integer below",
    "ceil": "nearest integer above",
    "round": "nearest integer, halves to the even one",
    **FUNCTIONS,
}
BINARY = {
    "add": "sum; integers wrap",
    "sub": "difference; integers wrap",
    "mul": "product; integers wrap",
    "div": "quotient of floats",
    "floordiv": "floor of the integer quotient; x // 0 is 0 and MIN // -1 is MIN",
    "pow": "x to the y, of floats, with IEEE's edges",
    "copysign": "the magnitude of x with the sign of y",
    "max": "the larger, where -0 < 0; NaN if either is",
    "min": "the smaller, where -0 < 0; NaN if either is",
    "lt": "x < y",
    "le": "x <= y",
    "eq": "x == y",
    "ne": "x != y",
    "and": "logical and of bools, bitwise and of integers",
    "or": "logical or of bools, bitwise or of integers",
    "xor": "exclusive or of bools, bitwise of integers",
    "shl": "x shifted left by y bits; 0 if y is negative or at least the width",
    "shr": "x shifted right by y bits, sign-extended; only sign bits if y is negative or too large",
    "fmod": "remainder of the truncated division x / y, with the sign of x; floats",
}
