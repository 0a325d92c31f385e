"""Types for editors and type checkers, written by ``python -m tools.stubs``."""

from collections.abc import Sequence
from dlvm import gpu as gpu
from dlvm import linalg as linalg
from dlvm import nn as nn
from dlvm import onnx as onnx
from dlvm import ops as ops
from dlvm import optim as optim
from dlvm import random as random
from dlvm import stablehlo as stablehlo
from dlvm import testing as testing
from dlvm import tree as tree
from dlvm.ahead import aot as aot
from dlvm.base.debugging import debug as debug
from dlvm.base.errors import ArgumentError as ArgumentError
from dlvm.base.errors import AssertionFailed as AssertionFailed
from dlvm.base.errors import AxisError as AxisError
from dlvm.base.errors import CallError as CallError
from dlvm.base.errors import CompilerError as CompilerError
from dlvm.base.errors import DTypeError as DTypeError
from dlvm.base.errors import DlvmError as DlvmError
from dlvm.base.errors import DonationError as DonationError
from dlvm.base.errors import ExtensionError as ExtensionError
from dlvm.base.errors import FalseAssumption as FalseAssumption
from dlvm.base.errors import IRError as IRError
from dlvm.base.errors import IndexOutOfRange as IndexOutOfRange
from dlvm.base.errors import NotFinite as NotFinite
from dlvm.base.errors import NumberOutOfRange as NumberOutOfRange
from dlvm.base.errors import OutOfMemory as OutOfMemory
from dlvm.base.errors import PicklingError as PicklingError
from dlvm.base.errors import ShapeError as ShapeError
from dlvm.base.errors import StagedAttributeError as StagedAttributeError
from dlvm.base.errors import StagedTypeError as StagedTypeError
from dlvm.base.errors import StaleState as StaleState
from dlvm.base.errors import TooDeep as TooDeep
from dlvm.base.errors import TraceError as TraceError
from dlvm.base.errors import TraceWarning as TraceWarning
from dlvm.base.errors import UnknownName as UnknownName
from dlvm.base.errors import UserError as UserError
from dlvm.data.batching import batches as batches
from dlvm.dsl.arrays.assumptions import assume as assume
from dlvm.dsl.arrays.placing import At
from dlvm.dsl.arrays.shapes import broadcast_shapes as broadcast_shapes
from dlvm.dsl.arrays.shapes import ndim as ndim
from dlvm.dsl.arrays.shapes import shape as shape
from dlvm.dsl.arrays.shapes import size as size
from dlvm.dsl.arrays.sharding import mesh as mesh
from dlvm.dsl.arrays.sharding import shard as shard
from dlvm.dsl.call.abstract import eval_shape as eval_shape
from dlvm.dsl.call.staging import function as function
from dlvm.dsl.call.staging import trace as trace
from dlvm.dsl.derive.custom import custom_jvp as custom_jvp
from dlvm.dsl.derive.custom import custom_vjp as custom_vjp
from dlvm.dsl.derive.derivatives import checkpoint as checkpoint
from dlvm.dsl.derive.derivatives import checkpoint_name as checkpoint_name
from dlvm.dsl.derive.derivatives import grad as grad
from dlvm.dsl.derive.derivatives import jvp as jvp
from dlvm.dsl.derive.derivatives import save_names as save_names
from dlvm.dsl.derive.derivatives import stop_gradient as stop_gradient
from dlvm.dsl.derive.derivatives import value_and_grad as value_and_grad
from dlvm.dsl.derive.derivatives import vmap as vmap
from dlvm.dsl.derive.jacobians import hessian as hessian
from dlvm.dsl.derive.jacobians import jacobian as jacobian
from dlvm.dsl.derive.linear import linearize as linearize
from dlvm.dsl.derive.linear import vjp as vjp
from dlvm.dsl.derive.long_scans import checkpoint_scan as checkpoint_scan
from dlvm.dsl.derive.mapping import map as map
from dlvm.dsl.elements.arithmetic import iscomplexobj as iscomplexobj
from dlvm.dsl.elements.arithmetic import isrealobj as isrealobj
from dlvm.dsl.elements.datatypes import FloatLimits
from dlvm.dsl.elements.inspection import array_namespace_info
from dlvm.dsl.flow.associative import associative_scan as associative_scan
from dlvm.dsl.flow.control import cond as cond
from dlvm.dsl.flow.control import switch as switch
from dlvm.dsl.flow.loops import fori_loop as fori_loop
from dlvm.dsl.flow.loops import scan as scan
from dlvm.dsl.flow.loops import while_loop as while_loop
from dlvm.dsl.trace.defaults import default_dtype as default_dtype
from dlvm.dsl.trace.specs import spec as spec
from dlvm.dsl.trace.typed import Array
from dlvm.dsl.trace.typed import Axis
from dlvm.dsl.trace.typed import Operand
from dlvm.dsl.trace.typed import Shape
from dlvm.dsl.trace.typed import static as static
from dlvm.exporting.formats import export as export
from dlvm.files.keeping import states as states
from dlvm.files.reading import load as load
from dlvm.files.writing import save as save
from dlvm.ir.module import Module as Module
from dlvm.ir.taps import taps as taps
from dlvm.ir.text.parser import Module
from dlvm.symbolic.functions import from_sympy as from_sympy
from ml_dtypes import bfloat16 as bfloat16
from numpy import bool as bool
from numpy import float16 as float16
from numpy import float32 as float32
from numpy import float64 as float64
from numpy import int16 as int16
from numpy import int32 as int32
from numpy import int64 as int64
from numpy import int8 as int8
from numpy import uint16 as uint16
from numpy import uint32 as uint32
from numpy import uint64 as uint64
from numpy import uint8 as uint8
from numpy.typing import DTypeLike
from typing import Any
from typing import SupportsIndex
import builtins
import numpy as np

__all__ = ['CompilerError', 'DlvmError', 'Module', 'StaleState', 'TraceWarning', 'UserError', 'aot', 'associative_scan', 'assume', 'batches', 'checkpoint', 'checkpoint_name', 'checkpoint_scan', 'cond', 'custom_jvp', 'custom_vjp', 'debug', 'default_dtype', 'eval_shape', 'export', 'fori_loop', 'from_sympy', 'function', 'gpu', 'grad', 'hessian', 'jacobian', 'jvp', 'linalg', 'linearize', 'load', 'map', 'mesh', 'nn', 'onnx', 'ops', 'optim', 'parse', 'random', 'save', 'save_names', 'scan', 'shard', 'spec', 'stablehlo', 'states', 'static', 'stop_gradient', 'switch', 'taps', 'trace', 'tree', 'value_and_grad', 'vjp', 'vmap', 'while_loop']

__version__: str
__array_api_version__: str
__array_namespace_info__ = array_namespace_info

def abs(x: Operand, *, out: None = None) -> Array:
    """Magnitude ``|x|``; the smallest integer stays as it is. Its derivative at 0 is 0."""

def acos(x: Operand, *, out: None = None) -> Array:
    """Arc cosine, from 0 to pi; NaN outside of -1 and 1."""

def acosh(x: Operand, *, out: None = None) -> Array:
    """Inverse of the hyperbolic cosine, ``log(x + sqrt(x*x - 1))``; NaN below 1."""

def add(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Sum ``x + y``; integers wrap around."""

def all(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False, where: Operand | None = None) -> Array:
    """Whether every element along the axes holds; of nothing, true."""

def allclose(x: Operand, y: Operand, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: builtins.bool = False) -> Array:
    """Whether all elements are close, as one truth value."""

def angle(z: Operand, deg: builtins.bool = False) -> Array:
    """The angle of a number in the complex plane: 0, or pi (180 degrees) of a negative one."""

def any(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False, where: Operand | None = None) -> Array:
    """Whether some element along the axes holds; of nothing, false."""

def append(x: Operand, values: Operand, axis: int | None = None) -> Array:
    """``values`` behind ``x``; both flattened without an axis."""

def arange(start: Operand, stop: Operand | None = None, step: Operand = 1, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """``start, start + step, ...`` below ``stop``; whole sizes may be symbolic."""

def argmax(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """Position of the largest element over the axes in row-major order, as i64."""

def argmin(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """Position of the smallest element over the axes in row-major order, as i64."""

def argpartition(x: Operand, kth: SupportsIndex, axis: int | None = -1, kind: Any = None, order: None = None) -> Array:
    """The places of the elements of a partition: all in order."""

def argsort(x: Operand, axis: int | None = -1, kind: Any = None, order: None = None, *, descending: builtins.bool = False, stable: builtins.bool | None = None) -> Array:
    """The places of the elements along an axis in order, NaN last; equals keep their order."""

def array_equal(x: Operand, y: Operand, equal_nan: builtins.bool = False) -> Array:
    """Whether two arrays have one shape and equal elements, as one truth value."""

def array_split(x: Operand, indices_or_sections: Operand, axis: int = 0) -> list[Array]:
    """Parts along an axis, of which the first are longer by one where they can't be equal."""

def asarray(x: Operand, dtype: DTypeLike | None = None, copy: builtins.bool | None = None, *, device: str | None = None) -> Array:
    """Any operand as an array, also a symbolic size; an array stays as it is."""

def asin(x: Operand, *, out: None = None) -> Array:
    """Arc sine, from -pi/2 to pi/2; NaN outside of -1 and 1."""

def asinh(x: Operand, *, out: None = None) -> Array:
    """Inverse of the hyperbolic sine, ``log(x + sqrt(x*x + 1))``."""

def assert_(condition: Operand, message: str = 'the assertion does not hold') -> None:
    """End the call with an error at this line unless every element of the condition holds."""

def astype(x: Operand, dtype: DTypeLike | None, copy: builtins.bool = True, *, order: str = 'K', device: str | None = None) -> Array:
    """``x`` in another element type; out of range saturates, NaN becomes 0."""

at = At

def atan(x: Operand, *, out: None = None) -> Array:
    """Arc tangent, from -pi/2 to pi/2."""

def atan2(y: Operand, x: Operand, *, out: None = None) -> Array:
    """The angle from -pi to pi of the point with abscissa ``x`` and ordinate ``y``."""

def atanh(x: Operand, *, out: None = None) -> Array:
    """Inverse of the hyperbolic tangent; infinite at 1 and -1, NaN beyond."""

def atleast_1d(*arrays: Operand) -> Any:
    """Scalars as vectors of one element."""

def atleast_2d(*arrays: Operand) -> Any:
    """Vectors as one row, scalars as one of one element."""

def atleast_3d(*arrays: Operand) -> Any:
    """Vectors and matrices with new axes, as NumPy places them: ``(1, n, 1)``, ``(m, n, 1)``."""

def average(x: Operand, axis: Axis | None = None, weights: Operand | None = None, returned: builtins.bool = False, keepdims: builtins.bool = False) -> Any:
    """The sum of weighted elements over the sum of weights; ``returned`` gives that sum too."""

def bincount(x: Operand, weights: Operand | None = None, minlength: int = 0, *, length: SupportsIndex | None = None) -> Array:
    """How often each whole number from 0 on occurs in a vector, or the sum of its weights."""

def bitcast(x: Operand, dtype: DTypeLike | None) -> Array:
    """The bits of ``x`` as numbers of another type of the same width, as NumPy's ``x.view(dtype)``."""

def bitwise_and(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Both: of bools, or of every bit of integers."""

def bitwise_invert(x: Operand, *, out: None = None) -> Array:
    """The other truth of a bool; every bit of an integer flipped."""

def bitwise_left_shift(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Bits ``y`` places up, zeros coming in; 0 where y is negative or at least the width."""

def bitwise_or(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Either or both: of bools, or of every bit of integers."""

def bitwise_right_shift(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Bits ``y`` places down, the sign coming in; a negative y counts as at least the width."""

def bitwise_xor(x: Operand, y: Operand, *, out: None = None) -> Array:
    """One of the two and not the other: of bools, or of every bit of integers."""

def block(arrays: Sequence[Any] | Operand) -> Array:
    """Nested lists of blocks as one array: the innermost beside, the others above one another."""

def broadcast_arrays(*arrays: Operand) -> tuple[Array, ...]:
    """Arrays stretched to one shape: views that can't be assigned into where one is stretched."""

def broadcast_to(x: Operand, shape: Shape) -> Array:
    """``x`` stretched to a shape: a view that can't be assigned into."""

def can_cast(from_: DTypeLike | None, to: DTypeLike | None, casting: str = 'safe') -> builtins.bool:
    """Whether values of one type become another without loss (``casting``: NumPy's words)."""

def cbrt(x: Operand, *, out: None = None) -> Array:
    """Cube root, of either sign; its derivative at 0 is infinite."""

def ceil(x: Operand, *, out: None = None) -> Array:
    """The nearest whole number that is not below ``x``; ceil(-0.5) is -0."""

def clip(x: Operand, min: Operand | None = None, max: Operand | None = None, *, a_min: Operand | None = None, a_max: Operand | None = None) -> Array:
    """``x``, no less than ``min`` and no more than ``max``; None is no bound, NaN stays NaN."""

def column_stack(arrays: Sequence[Any]) -> Array:
    """Vectors as columns, beside matrices."""

def concat(arrays: Sequence[Any], axis: int | None = 0, out: None = None, *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> Array:
    """Arrays one after the other along an axis; flattened first where it is None."""

def conj(x: Operand) -> Array:
    """The complex conjugate: a copy of x, which is real."""

def convolve(a: Operand, v: Operand, mode: str = 'full') -> Array:
    """The sums of ``a[n - i] * v[i]``: products of one vector with another that slides over it."""

def copy(x: Operand, order: str = 'K') -> Array:
    """An array of its own with the same elements, which may be assigned into."""

def copysign(x: Operand, y: Operand, *, out: None = None) -> Array:
    """The magnitude of ``x`` with the sign of ``y``, zeros and NaN included."""

def corrcoef(x: Operand, y: Operand | None = None, rowvar: builtins.bool = True, *, dtype: DTypeLike | None = None) -> Array:
    """Covariances divided by both standard deviations; of f64 unless ``dtype`` says otherwise."""

def correlate(a: Operand, v: Operand, mode: str = 'valid') -> Array:
    """The sums of ``a[n + i] * v[i]``: products of one vector with another that slides over it."""

def cos(x: Operand, *, out: None = None) -> Array:
    """Cosine, for arguments of any size; NaN at infinities."""

def cosh(x: Operand, *, out: None = None) -> Array:
    """Hyperbolic cosine ``(e**x + e**-x) / 2``."""

def count_nonzero(x: Operand, axis: Axis | None = None, keepdims: builtins.bool = False) -> Array:
    """How many elements along the axes are anything but zero."""

def cov(m: Operand, y: Operand | None = None, rowvar: builtins.bool = True, bias: builtins.bool = False, ddof: int | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Covariances of the variables that are the rows, each column being one observation."""

def cross(a: Operand, b: Operand, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """The vectors at right angles to two vectors of three elements each."""

def cumprod(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """NumPy's running product: ``cumulative_prod``, over all elements where no axis is named."""

def cumsum(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """NumPy's running sum: ``cumulative_sum``, over all elements where no axis is named."""

def cumulative_logsumexp(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: builtins.bool = False, reverse: builtins.bool = False, exclusive: builtins.bool = False) -> Array:
    """``log`` of the running sum of ``exp(x)`` along ``axis``, without overflow; of nothing, -inf."""

def cumulative_max(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: builtins.bool = False, reverse: builtins.bool = False, exclusive: builtins.bool = False) -> Array:
    """Running maximum along ``axis``; NaN from the first NaN on; of nothing, the lowest value."""

def cumulative_min(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: builtins.bool = False, reverse: builtins.bool = False, exclusive: builtins.bool = False) -> Array:
    """Running minimum along ``axis``; NaN from the first NaN on; of nothing, the highest value."""

def cumulative_prod(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: builtins.bool = False, reverse: builtins.bool = False, exclusive: builtins.bool = False) -> Array:
    """Running product along ``axis``: ``y[i] = x[0] * ... * x[i]``, or up to ``x[i-1]``."""

def cumulative_sum(x: Operand, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None, include_initial: builtins.bool = False, reverse: builtins.bool = False, exclusive: builtins.bool = False) -> Array:
    """Running sum along ``axis``: ``y[i] = x[0] + ... + x[i]``, or up to ``x[i-1]``."""

def degrees(x: Operand) -> Array:
    """An angle in degrees, from radians."""

def delete(x: Operand, obj: Operand, axis: int | None = None) -> Array:
    """Without the elements at some places, which are known, along an axis."""

def diag(x: Operand, k: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix that has a vector on a diagonal and zeros else."""

def diagflat(x: Operand, k: int = 0) -> Array:
    """The matrix that has the elements of ``x``, flattened, on a diagonal and zeros elsewhere."""

def diagonal(x: Operand, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements of two axes that lie ``offset`` right of the main diagonal, as the last axis."""

def diff(x: Operand, n: int = 1, axis: int = -1, prepend: Operand | None = None, append: Operand | None = None) -> Array:
    """Each element less the one before it, ``n`` times over; what a running sum undoes."""

def digamma(x: Operand, *, out: None = None) -> Array:
    """``d lgamma(x)/dx``; NaN at the negative whole numbers, infinite at 0 against its sign."""

def digitize(x: Operand, bins: Operand, right: builtins.bool = False) -> Array:
    """For each element the bin that it lies in; the borders of bins rise, or they fall."""

def divide(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Quotient ``x / y`` of floats, IEEE at zero: 1/0 is inf, 0/0 is NaN."""

def divmod(x: Operand, y: Operand) -> tuple[Array, Array]:
    """``(x // y, x % y)``."""

def dot(x: Operand, y: Operand, out: None = None) -> Array:
    """The product of vectors or matrices; of more axes, over the last and the last but one."""

def dsplit(x: Operand, indices_or_sections: Operand) -> list[Array]:
    """Parts one behind the other, along the third axis."""

def dstack(arrays: Sequence[Any]) -> Array:
    """Arrays one behind the other, along the third axis."""

e: float
def ediff1d(x: Operand) -> Array:
    """The differences of neighbours in an array taken as flat."""

def einsum(*operands: Any, out: None = None, dtype: DTypeLike | None = None, optimize: Any = True) -> Array:
    """The sum over labelled axes of a product: ``einsum("ij,jk->ik", x, y)``."""

def empty(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """An array to be assigned into; every element is defined, and zero."""

def empty_like(x: Operand, dtype: DTypeLike | None = None, order: str = 'K', *, device: str | None = None) -> Array:
    """An array to be assigned into, in the shape and element type of ``x``; zeros."""

def equal(x: Operand, y: Operand) -> Array:
    """``x == y``; NaN equals nothing."""

def erf(x: Operand, *, out: None = None) -> Array:
    """Error function ``2/sqrt(pi) * integral of e**(-t*t) from 0 to x``."""

def erfc(x: Operand, *, out: None = None) -> Array:
    """Complement ``1 - erf(x)`` of the error function, with all digits where the result"""

def erfinv(x: Operand, *, out: None = None) -> Array:
    """Inverse of the error function; infinite at 1 and -1, NaN beyond."""

def exp(x: Operand, *, out: None = None) -> Array:
    """``e**x``; exp(-inf) is 0."""

def exp2(x: Operand, *, out: None = None) -> Array:
    """``2**x``, exact at integers."""

def expand_dims(x: Operand, axis: int | Sequence[int] = 0) -> Array:
    """New axes of size 1, at these places of the result."""

def expm1(x: Operand, *, out: None = None) -> Array:
    """``e**x - 1``, with all digits near 0."""

def eye(n: SupportsIndex, m: SupportsIndex | None = None, k: int = 0, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Ones on the diagonal that lies ``k`` right of the main one, zeros elsewhere."""

def fabs(x: Operand) -> Array:
    """The size of each element as a float, where ``abs`` gives integers for integers."""

def fftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Array:
    """The two halves of each axis exchanged, so that frequency 0 stands in the middle."""

def finfo(dtype: DTypeLike | None) -> FloatLimits:
    """The limits of a floating-point type: ``bits``, ``eps``, ``max``, ``smallest_normal`` ..."""

def flatten(x: Operand, order: str = 'C') -> Array:
    """All elements in row-major order as a vector of its own; orders are those of ``ravel``."""

def flip(x: Operand, axis: int | Sequence[int] | None = None) -> Array:
    """The elements in reverse order along the axes; along all without ``axis``."""

def fliplr(x: Operand) -> Array:
    """The columns in reverse order."""

def flipud(x: Operand) -> Array:
    """The rows in reverse order."""

def floor(x: Operand, *, out: None = None) -> Array:
    """The nearest whole number that is not above ``x``."""

def floor_divide(x: Operand, y: Operand, *, out: None = None) -> Array:
    """The quotient rounded down, ``floor(x / y)``."""

def fmax(x: Operand, y: Operand) -> Array:
    """The larger of two; NaN only where both are."""

def fmin(x: Operand, y: Operand) -> Array:
    """The smaller of two; NaN only where both are."""

def fmod(x: Operand, y: Operand, *, out: None = None) -> Array:
    """What ``trunc(x / y)`` leaves, with the sign of ``x``; exact."""

def from_dlpack(x: Operand, copy: builtins.bool | None = None, *, device: str | None = None) -> Array:
    """An array of another library on the processor, without a copy unless ``copy`` is True."""

def full(shape: Shape, fill_value: Operand, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """One value in every element."""

def full_like(x: Operand, fill_value: Operand, dtype: DTypeLike | None = None, order: str = 'K', *, device: str | None = None) -> Array:
    """One value in the shape and element type of ``x``."""

def geomspace(start: Operand, stop: Operand, num: SupportsIndex = 50, endpoint: builtins.bool = True, axis: int = 0) -> Array:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before."""

def gradient(f: Operand, *spacing: Operand, axis: Axis | None = None) -> Any:
    """Slopes by central differences, one-sided at both ends; samples lie ``spacing`` apart."""

def greater(x: Operand, y: Operand) -> Array:
    """``x > y``, which is ``y < x``."""

def greater_equal(x: Operand, y: Operand) -> Array:
    """``x >= y``, which is ``y <= x``."""

def heaviside(x: Operand, y: Operand) -> Array:
    """0 below zero, ``y`` at zero, 1 above; NaN of NaN."""

def histogram(a: Operand, bins: Operand = 10, range: Any = None, density: builtins.bool = False, weights: Operand | None = None) -> tuple[Array, Array]:
    """How many elements lie in each bin, and the borders of the bins."""

def hsplit(x: Operand, indices_or_sections: Operand) -> list[Array]:
    """Parts beside one another."""

def hstack(arrays: Sequence[Any], *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> Array:
    """Arrays beside one another: along the second axis, vectors along their only one."""

def hypot(x: Operand, y: Operand, *, out: None = None) -> Array:
    """``sqrt(x*x + y*y)`` without overflow; infinite where either is, even beside NaN."""

def identity(n: SupportsIndex, dtype: DTypeLike | None = None) -> Array:
    """The matrix that leaves every vector as it is."""

def ifftshift(x: Operand, axes: int | Sequence[int] | None = None) -> Array:
    """The inverse of ``fftshift``, which differs from it for axes of odd size."""

def iinfo(dtype: DTypeLike | None) -> np.iinfo[Any]:
    """The limits of an integer type: ``bits``, ``max``, ``min``."""

def imag(x: Operand) -> Array:
    """The imaginary part: zeros."""

inf: float
def inner(x: Operand, y: Operand) -> Array:
    """The sum of products over the last axes of both."""

def insert(x: Operand, obj: Operand, values: Operand, axis: int | None = None) -> Array:
    """``x`` with ``values`` before the elements at some places, which are known, along an axis."""

def integer_power(x: Operand, y: Operand, *, out: None = None) -> Array:
    """``x ** y`` of integers, wrapping; for y < 0 the whole part of ``1 / x**-y``, 0 of 0."""

def interp(x: Operand, xp: Operand, fp: Operand, left: Operand | None = None, right: Operand | None = None) -> Array:
    """The piecewise linear curve through ``(xp, fp)`` at ``x``, constant outside of it."""

def isclose(x: Operand, y: Operand, rtol: Operand = 1e-05, atol: Operand = 1e-08, equal_nan: builtins.bool = False) -> Array:
    """``|x - y| <= atol + rtol * |y|``, or equal; NaN is close to NaN only if ``equal_nan``."""

def iscomplex(x: Operand) -> Array:
    """Whether elements have an imaginary part: false everywhere."""

def isdtype(dtype: DTypeLike | None, kind: Any) -> builtins.bool:
    """Whether a type is another, or of a kind of the standard's, or of one of several."""

def isfinite(x: Operand, *, out: None = None) -> Array:
    """Whether ``x`` is neither infinite nor NaN; every integer is."""

def isin(x: Operand, elements: Operand, *, invert: builtins.bool = False) -> Array:
    """Which elements of ``x`` are among others; each is compared with each."""

def isinf(x: Operand, *, out: None = None) -> Array:
    """Whether ``x`` is an infinity; no integer is."""

def isnan(x: Operand, *, out: None = None) -> Array:
    """Whether ``x`` is not a number; no integer is."""

def isneginf(x: Operand) -> Array:
    """Whether each element is minus infinity."""

def isposinf(x: Operand) -> Array:
    """Whether each element is plus infinity."""

def isreal(x: Operand) -> Array:
    """Whether elements have no imaginary part: true everywhere."""

def kron(x: Operand, y: Operand) -> Array:
    """Every element of ``x`` times all of ``y``, as blocks where that element was."""

def less(x: Operand, y: Operand) -> Array:
    """``x < y``; false with NaN."""

def less_equal(x: Operand, y: Operand) -> Array:
    """``x <= y``; false with NaN."""

def lgamma(x: Operand, *, out: None = None) -> Array:
    """``log|gamma(x)|``; infinite at 0 and at the negative whole numbers."""

def linear_recurrence(a: Operand, b: Operand, axis: int = -1, reverse: builtins.bool = False, exclusive: builtins.bool = False) -> Array:
    """``y[i] = a[i] * y[i-1] + b[i]`` along an axis, from 0 on; ``a`` and ``b`` broadcast."""

def linspace(start: Operand, stop: Operand, num: SupportsIndex = 50, endpoint: builtins.bool = True, retstep: builtins.bool = False, dtype: DTypeLike | None = None, axis: int = 0, *, device: str | None = None) -> Any:
    """``num`` numbers from ``start`` to ``stop``, evenly apart; both may be arrays."""

def log(x: Operand, *, out: None = None) -> Array:
    """Natural logarithm; log(0) is -inf, NaN below 0."""

def log10(x: Operand, *, out: None = None) -> Array:
    """Logarithm to the base 10; log10(0) is -inf, NaN below 0."""

def log1p(x: Operand, *, out: None = None) -> Array:
    """``log(1 + x)``, with all digits near 0; log1p(-1) is -inf, NaN below."""

def log2(x: Operand, *, out: None = None) -> Array:
    """Logarithm to the base 2, exact at powers of 2; log2(0) is -inf, NaN below 0."""

def logaddexp(x: Operand, y: Operand, *, out: None = None) -> Array:
    """``log(e**x + e**y)`` without overflow; -inf where both are."""

def logaddexp2(x: Operand, y: Operand, *, out: None = None) -> Array:
    """``log2(2**x + 2**y)`` without overflow; -inf where both are."""

def logical_and(x: Operand, y: Operand) -> Array:
    """Whether both are anything but zero."""

def logical_not(x: Operand) -> Array:
    """Whether it is zero."""

def logical_or(x: Operand, y: Operand) -> Array:
    """Whether at least one is anything but zero."""

def logical_xor(x: Operand, y: Operand) -> Array:
    """Whether exactly one is anything but zero."""

def logspace(start: Operand, stop: Operand, num: SupportsIndex = 50, endpoint: builtins.bool = True, base: Operand = 10.0, axis: int = 0) -> Array:
    """``num`` numbers from ``base**start`` to ``base**stop``, whose exponents are evenly apart."""

def logsumexp(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """``log(sum(exp(x)))`` over the axes in one pass, without overflow; of nothing, -inf."""

def matmul(x: Operand, y: Operand, out: None = None) -> Array:
    """The matrix product, as ``@``: vectors are rows or columns, leading axes are batches."""

def matrix_transpose(x: Operand) -> Array:
    """The last two axes exchanged."""

def matvec(x: Operand, y: Operand) -> Array:
    """Matrices times vectors; leading axes broadcast."""

def max(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """Largest element over the axes; NaN if any is; of nothing, the lowest value of the type."""

def maximum(x: Operand, y: Operand, *, out: None = None) -> Array:
    """The larger of two, where -0 < 0; NaN if either is. A tie shares the cotangent evenly."""

def mean(x: Operand, axis: Axis | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, where: Operand | None = None) -> Array:
    """The sum over the axes divided by how many elements there are; integers give f64."""

def median(x: Operand, axis: Axis | None = None, out: None = None, overwrite_input: builtins.bool = False, keepdims: builtins.bool = False) -> Array:
    """The element in the middle, or the mean of the two there."""

def meshgrid(*arrays: Operand, indexing: str = 'xy', sparse: builtins.bool = False, copy: builtins.bool = True) -> list[Array]:
    """Vectors as coordinates of a grid: one array for each, constant along all other axes."""

def min(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """Smallest element over the axes; NaN if any is; of nothing, the highest value of the type."""

def minimum(x: Operand, y: Operand, *, out: None = None) -> Array:
    """The smaller of two, where -0 < 0; NaN if either is. A tie shares the cotangent evenly."""

def modf(x: Operand, *, out: None = None) -> tuple[Array, Array]:
    """The fractional and the integral part of ``x``, both with its sign; ``x = f + i``."""

def moveaxis(x: Operand, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes moved to other places; the others stay in order."""

def multiply(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Product ``x * y``; integers wrap around."""

nan: float
def nan_to_num(x: Operand, copy: builtins.bool = True, nan: Operand = 0.0, posinf: Operand | None = None, neginf: Operand | None = None) -> Array:
    """Numbers in place of NaN and infinities: 0, and the largest of the type on either side."""

def nanargmax(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False) -> Array:
    """Where the largest element is that is not NaN; 0 where all are."""

def nanargmin(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False) -> Array:
    """Where the smallest element is that is not NaN; 0 where all are."""

def nanmax(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False) -> Array:
    """The largest element that is not NaN; NaN where all are."""

def nanmean(x: Operand, axis: Axis | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, where: Operand | None = None) -> Array:
    """``mean`` of the elements that are not NaN; see ``mean``."""

def nanmin(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False) -> Array:
    """The smallest element that is not NaN; NaN where all are."""

def nanprod(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """``prod`` of the elements that are not NaN; see ``prod``."""

def nanstd(x: Operand, axis: Axis | None = None, dtype: DTypeLike | None = None, out: None = None, ddof: SupportsIndex = 0, keepdims: builtins.bool = False, where: Operand | None = None, correction: SupportsIndex | None = None) -> Array:
    """``std`` of the elements that are not NaN; see ``std``."""

def nansum(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """``sum`` of the elements that are not NaN; see ``sum``."""

def nanvar(x: Operand, axis: Axis | None = None, dtype: DTypeLike | None = None, out: None = None, ddof: SupportsIndex = 0, keepdims: builtins.bool = False, where: Operand | None = None, correction: SupportsIndex | None = None) -> Array:
    """``var`` of the elements that are not NaN; see ``var``."""

def negative(x: Operand, *, out: None = None) -> Array:
    """``-x``: the sign bit of a float flips; integers wrap."""

newaxis: None
def nextafter(x: Operand, y: Operand, *, out: None = None) -> Array:
    """The float next to ``x`` in the direction of ``y``, in their own type; ``y`` where equal."""

def not_equal(x: Operand, y: Operand) -> Array:
    """``x != y``; NaN differs from everything."""

def ones(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Ones; of ``dlvm.default_dtype`` unless said otherwise, which is f64 as in NumPy."""

def ones_like(x: Operand, dtype: DTypeLike | None = None, order: str = 'K', *, device: str | None = None) -> Array:
    """Ones in the shape and element type of ``x``."""

def outer(x: Operand, y: Operand, out: None = None) -> Array:
    """Every element of one times every element of the other, as a matrix."""

def pad(x: Operand, pad_width: Operand, mode: str = 'constant', constant_values: Operand = 0) -> Array:
    """The array with more elements before and behind along each axis."""

def parse(text: str, file: str = '<ir>') -> Module:
    """The module that the text describes; ``parse(str(m)) == m``."""

def partition(x: Operand, kth: SupportsIndex, axis: int | None = -1, kind: Any = None, order: None = None) -> Array:
    """The elements along an axis with those up to any place before the others: all in order."""

def percentile(x: Operand, q: Operand, axis: Axis | None = None, out: None = None, overwrite_input: builtins.bool = False, method: str = 'linear', keepdims: builtins.bool = False) -> Array:
    """The quantile of a share in hundredths."""

def permute_dims(x: Operand, axes: Sequence[int]) -> Array:
    """Axis ``i`` of the result is axis ``axes[i]`` of ``x``."""

pi: float
def polyadd(a1: Operand, a2: Operand) -> Array:
    """The sum of two polynomials."""

def polyder(p: Operand, m: int = 1) -> Array:
    """The ``m``-th derivative of a polynomial."""

def polygamma(n: SupportsIndex, x: Operand) -> Array:
    """``d^n digamma(x)/dx^n`` for a known whole number n."""

def polyint(p: Operand, m: int = 1) -> Array:
    """The ``m``-th antiderivative of a polynomial, whose constants are 0."""

def polymul(a1: Operand, a2: Operand) -> Array:
    """The product of two polynomials; one without coefficients is 0."""

def polysub(a1: Operand, a2: Operand) -> Array:
    """The difference of two polynomials."""

def polyval(p: Operand, x: Operand) -> Array:
    """The value at ``x`` of the polynomial with these coefficients, by Horner's rule."""

def positive(x: Operand) -> Array:
    """``+x``: a copy of x."""

def pow(x: Operand, y: Operand) -> Array:
    """``x ** y``; integers wrap, and a negative integer power is the whole part of ``1/x**-y``."""

def power(x: Operand, y: Operand) -> Array:
    """``x ** y``; integers wrap, and a negative integer power is the whole part of ``1/x**-y``."""

def print(*values: Any, ranks: builtins.bool = False) -> Any:
    """Writes values when the call reaches this line; a string is written before the"""

def prod(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """Product over the axes; the empty product is 1. Integers wrap; half precision is in f32."""

def promote_types(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type that holds values of all of these: arrays, types, and Python scalars, weakly."""

def ptp(x: Operand, axis: Axis | None = None, out: None = None, keepdims: builtins.bool = False) -> Array:
    """The largest element less the smallest, along the axes."""

def put_along_axis(x: Operand, indices: Operand, values: Operand, axis: int) -> None:
    """Assign at one position along an axis for each position along the others."""

def quantile(x: Operand, q: Operand, axis: Axis | None = None, out: None = None, overwrite_input: builtins.bool = False, method: str = 'linear', keepdims: builtins.bool = False) -> Array:
    """The value below which a share q of the elements along the axes lies."""

def radians(x: Operand) -> Array:
    """An angle in radians, from degrees."""

def random_bits(key: Operand, shape: Shape = (), dtype: DTypeLike | None = 'u64', start: Operand = 0) -> Array:
    """Unsigned integers of random bits: the stream of a key, from element ``start`` on."""

def ravel(x: Operand, order: str = 'C') -> Array:
    """All elements in row-major order as a vector; orders are ``C``, ``F``, ``A``, ``K``."""

def ravel_multi_index(multi_index: Sequence[Any] | Operand, dims: Shape, mode: str = 'raise', order: str = 'C') -> Array:
    """The number of an element in row-major order, from its place along each axis of ``dims``."""

def real(x: Operand) -> Array:
    """The real part: x itself."""

def real_if_close(x: Operand, tol: float = 100) -> Array:
    """``x`` itself, as it has no imaginary parts."""

def reciprocal(x: Operand) -> Array:
    """``1 / x``; of integers its whole part, 0 of 0."""

def remainder(x: Operand, y: Operand, *, out: None = None) -> Array:
    """What ``floor(x / y)`` leaves, ``x - y * floor(x / y)``, with the sign of ``y``; exact."""

def repeat(x: Operand, repeats: Operand, axis: int | None = None) -> Array:
    """Each element (along the axis) several times; how often is known while tracing."""

def reshape(x: Operand, shape: Shape, order: str = 'C', *, copy: builtins.bool | None = None) -> Array:
    """The elements in row-major order in another shape; one size may be -1."""

def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type that holds values of all of these: arrays, types, and Python scalars, weakly."""

def rint(x: Operand, *, out: None = None) -> Array:
    """The nearest whole number; halves go to the even one, as IEEE demands."""

def roll(x: Operand, shift: Axis, axis: int | Sequence[int] | None = None) -> Array:
    """Elements shifted along axes; what leaves at one end comes in at the other."""

def rollaxis(x: Operand, axis: int, start: int = 0) -> Array:
    """An axis moved to the place before the axis ``start``; the others stay in order."""

def rot90(x: Operand, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """The plane of two axes turned by ``k`` quarters from the first axis towards the second."""

def round(x: Operand, decimals: int = 0) -> Array:
    """The nearest number with ``decimals`` decimals; halves go to the even one, as in NumPy."""

def searchsorted(a: Operand, v: Operand, side: str = 'left', sorter: Any = None) -> Array:
    """Where elements would go in an array that is in order, to keep it so: counts from 0 to n."""

def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Operand = 0) -> Array:
    """From each place the choice of the first condition that holds there, else the default."""

def sigmoid(x: Operand, *, out: None = None) -> Array:
    """Logistic function ``1 / (1 + e**-x)``, from ``e**-|x|`` so that nothing overflows."""

def sign(x: Operand, *, out: None = None) -> Array:
    """-1, 0 or 1 as ``x`` is below, at or above zero; NaN of NaN."""

def signbit(x: Operand, *, out: None = None) -> Array:
    """Whether the sign bit is set: of negative numbers, of -0, and of some NaN."""

def sin(x: Operand, *, out: None = None) -> Array:
    """Sine, for arguments of any size; NaN at infinities."""

def sinc(x: Operand) -> Array:
    """``sin(pi x) / (pi x)``, and 1 at 0, where its derivatives are those of its power series."""

def sinh(x: Operand, *, out: None = None) -> Array:
    """Hyperbolic sine ``(e**x - e**-x) / 2``."""

def sliding_window_view(x: Operand, window_shape: Shape, axis: int | Sequence[int] | None = None, *, stride: Axis = 1, dilation: Axis = 1) -> Array:
    """Every window of a given shape that fits into ``x``; the axes of the windows come last."""

def sort(x: Operand, axis: int | None = -1, kind: Any = None, order: None = None, *, descending: builtins.bool = False, stable: builtins.bool | None = None) -> Array:
    """The elements along an axis in order, NaN last; of all elements where the axis is None."""

def split(x: Operand, indices_or_sections: Operand, axis: int = 0) -> list[Array]:
    """Equal parts along an axis, as many as given, or parts that end at the positions given."""

def sqrt(x: Operand, *, out: None = None) -> Array:
    """Square root, correctly rounded; NaN below 0."""

def square(x: Operand) -> Array:
    """``x * x``."""

def squeeze(x: Operand, axis: Axis | None = None) -> Array:
    """Without axes of size 1: those given, or all whose size is 1 for certain."""

def stack(arrays: Sequence[Any], axis: int = 0, out: None = None, *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> Array:
    """Arrays of one shape along a new axis."""

def std(x: Operand, axis: Axis | None = None, dtype: DTypeLike | None = None, out: None = None, ddof: SupportsIndex = 0, keepdims: builtins.bool = False, where: Operand | None = None, correction: SupportsIndex | None = None) -> Array:
    """The square root of the variance; see ``var``. Its derivative is 0 where all are equal."""

def subtract(x: Operand, y: Operand, *, out: None = None) -> Array:
    """Difference ``x - y``; integers wrap around."""

def sum(x: Operand, axis: int | Sequence[int] | None = None, dtype: DTypeLike | None = None, out: None = None, keepdims: builtins.bool = False, initial: Operand | None = None, where: Operand | None = None) -> Array:
    """Sum over the axes, which starts from 0: that of nothing, and that of -0, is 0."""

def swapaxes(x: Operand, axis1: int, axis2: int) -> Array:
    """Two axes exchanged."""

def take(x: Operand, indices: Operand, axis: int | None = None, out: None = None, mode: str = 'error') -> Array:
    """Elements along an axis (of the flattened array without one) at integer positions."""

def take_along_axis(x: Operand, indices: Operand, axis: int | None = -1, mode: str = 'error') -> Array:
    """``x`` at one position along an axis for each position along the others."""

def tan(x: Operand, *, out: None = None) -> Array:
    """Tangent, for arguments of any size; NaN at infinities."""

def tanh(x: Operand, *, out: None = None) -> Array:
    """Hyperbolic tangent ``(e**x - e**-x) / (e**x + e**-x)``."""

def tap(x: Any, name: str, *, ranks: builtins.bool = False) -> Any:
    """``x`` itself, which ``with dlvm.taps() as found:`` collects in ``found[name]``."""

def tensordot(x: Operand, y: Operand, axes: Axis = 2) -> Array:
    """The sum of products over some axes of both: as many last and first ones, or two lists."""

def tile(x: Operand, reps: Shape) -> Array:
    """The whole array several times along each axis."""

def top_k(x: Operand, k: SupportsIndex, axis: int = -1) -> tuple[Array, Array]:
    """The k largest along an axis, largest first, and their places; equals keep their order."""

def transpose(x: Operand, axes: Sequence[int] | None = None) -> Array:
    """All axes in reverse order, or in the order given."""

def trapezoid(y: Operand, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1) -> Array:
    """The area under a curve by trapezoids, between samples at ``x`` or ``dx`` apart."""

def tri(n: SupportsIndex, m: SupportsIndex | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Ones on and left of the diagonal that lies ``k`` right of the main one, zeros elsewhere."""

def tril(x: Operand, k: int = 0) -> Array:
    """Zeros right of the diagonal that lies ``k`` right of the main one."""

def triu(x: Operand, k: int = 0) -> Array:
    """Zeros left of the diagonal that lies ``k`` right of the main one."""

def trunc(x: Operand, *, out: None = None) -> Array:
    """The nearest whole number towards zero."""

def unique(x: Operand, *args: Any, **kwargs: Any) -> Any:
    """Refused: how many elements differ, and so the shape, is known only in a call."""

def unique_all(x: Operand, *args: Any, **kwargs: Any) -> Any:
    """Refused: how many elements differ, and so the shape, is known only in a call."""

def unique_counts(x: Operand, *args: Any, **kwargs: Any) -> Any:
    """Refused: how many elements differ, and so the shape, is known only in a call."""

def unique_inverse(x: Operand, *args: Any, **kwargs: Any) -> Any:
    """Refused: how many elements differ, and so the shape, is known only in a call."""

def unique_values(x: Operand, *args: Any, **kwargs: Any) -> Any:
    """Refused: how many elements differ, and so the shape, is known only in a call."""

def unravel_index(indices: Operand, shape: Shape) -> tuple[Array, ...]:
    """The place along each axis of ``shape`` of elements that are counted in row-major order."""

def unstack(x: Operand, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis of known size, as a tuple."""

def vander(x: Operand, N: int | None = None, increasing: builtins.bool = False) -> Array:
    """The matrix whose columns are powers of a vector: ``x**(N-1) ... x**1, x**0``."""

def var(x: Operand, axis: Axis | None = None, dtype: DTypeLike | None = None, out: None = None, ddof: SupportsIndex = 0, keepdims: builtins.bool = False, where: Operand | None = None, correction: SupportsIndex | None = None) -> Array:
    """The mean square of what is left after taking the mean away."""

def vdot(x: Operand, y: Operand) -> Array:
    """The sum of products of all elements."""

def vecdot(x: Operand, y: Operand, axis: int = -1) -> Array:
    """The sum of products along an axis; the others broadcast."""

def vecmat(x: Operand, y: Operand) -> Array:
    """Vectors times matrices; leading axes broadcast."""

def vsplit(x: Operand, indices_or_sections: Operand) -> list[Array]:
    """Parts below one another."""

def vstack(arrays: Sequence[Any], *, dtype: DTypeLike | None = None, casting: str = 'same_kind') -> Array:
    """Arrays below one another; a vector is a row."""

def where(condition: Operand, x: Operand, y: Operand) -> Array:
    """``x`` where the condition holds, else ``y``; all three broadcast."""

def zeros(shape: Shape, dtype: DTypeLike | None = None, *, device: str | None = None) -> Array:
    """Zeros; of ``dlvm.default_dtype`` unless said otherwise, which is f64 as in NumPy."""

def zeros_like(x: Operand, dtype: DTypeLike | None = None, order: str = 'K', *, device: str | None = None) -> Array:
    """Zeros in the shape and element type of ``x``."""

