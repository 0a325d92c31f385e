"""Turns what users write as operands into values of the program: promotion and broadcasting.

Promotion is NumPy 2's own: the NumPy function of the same name is asked, with Python scalars
(and arguments that are Python scalars) weak. A weak float leaves bf16 as it is, which NumPy
does not know. Broadcasting stretches a literal 1 only; a symbol is never stretched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from dlvm.base.errors import DTypeError, NumberOutOfRange, ShapeError, TraceError
from dlvm.dsl.words.layout import ARRAY, existing
from dlvm.dsl.words.views import stretched
from dlvm.ir import (
    BF16,
    BOOL,
    DTYPES,
    F16,
    F64,
    I64,
    NUMBERS,
    TAPE,
    U64,
    Array,
    Dim,
    DType,
    Expr,
    TensorType,
    Value,
    dtype_of,
    literal,
)
from dlvm.ir.sizes.equations import clipped_by
from dlvm.ops import And, Assert, Cast, Constant, DimSize, LessEqual, Pad

from .defaults import default_float
from .devices import captured_elsewhere, on_a_device
from .scopes import Scope, current, is_array, user_origin
from .sizes import bare
from .tensor import Tensor
from .trees import as_dataclass

Kind: TypeAlias = "np.dtype[Any] | type[int] | type[float]"
"""How an operand takes part in promotion: with its dtype, or weakly as a Python scalar."""

_BOOL = np.dtype(np.bool_)


def here() -> Scope:
    """The scope that is being traced."""
    scope = current()
    if scope is None:
        raise TraceError("no function is being traced", origin=user_origin())
    return scope


def is_scalar(x: Any) -> TypeGuard[np.generic[Any]]:
    """Whether something is a NumPy scalar."""
    return isinstance(x, np.generic)


def plain(x: Any) -> Any:
    """An operand as a Tensor, a NumPy array, a Python scalar or a symbolic size."""
    x = bare(x)
    if is_scalar(x):  # before float, of which np.float64 is a kind
        weak = x.dtype == F64.numpy and default_float() is not F64
        return float(x) if weak else np.asarray(x)
    if is_array(x) or isinstance(x, Tensor | int | float | Expr):
        return x
    if isinstance(x, list | tuple):
        items: list[Any] = list(x)  # pyright: ignore[reportUnknownArgumentType]
        if any(isinstance(item, Tensor | Expr) for item in items):
            raise _not_an_array(items)
        return _narrow_numbers(array_of(items), items)
    if (there := on_a_device(x)) is not None:
        scope = current()
        if scope is not None and scope.trace.python is not None:
            raise captured_elsewhere(there)
        return np.asarray(there)
    if hasattr(x, "__array__") or hasattr(x, "__dlpack__"):
        return np.asarray(x) if hasattr(x, "__array__") else np.from_dlpack(x)
    try:
        return np.asarray(memoryview(x))
    except TypeError:
        raise _no_operand(x) from None


def array_of(items: Any) -> Array:
    """The array of nested lists of numbers."""
    try:
        return np.asarray(items)
    except ValueError:
        raise TraceError(
            "a list in the place of an array has rows of different lengths",
            origin=user_origin(),
            remedy="give rows of one length, or several arrays",
        ) from None


def _narrow_numbers(array: Array, items: Sequence[Any]) -> Array:
    """Lists of Python's floats as an array of the default float; those with arrays stay."""
    if array.dtype != F64.numpy or default_float() is F64 or any(map(is_array, items)):
        return array
    return array.astype(default_float().numpy)


OTHERS = "give it an array or a number; Python compares others by is and =="


def _no_operand(x: Any) -> TraceError:
    """The error for an operand that is neither an array nor a number."""
    remedies = {
        type(None): "give it an array or a number, or write x is None to ask whether there is one",
        complex: "complex numbers are not supported: compute their two parts as two arrays",
    }
    return TraceError(
        f"expected an array or a number, found {x!r:.60} of type {type(x).__name__}",
        origin=user_origin(),
        remedy=next((text for kind, text in remedies.items() if isinstance(x, kind)), None)
        or as_dataclass(x)
        or OTHERS,
    )


def _not_an_array(items: list[Any]) -> TraceError:
    """The error for a list in the place of an array; a list that is an argument is named."""
    names = {x.label.rpartition("[")[0] for x in items if isinstance(x, Tensor)}
    name = names.pop() if len(names) == 1 else ""
    if name:
        return TraceError(
            f"{name} is a {type(items).__name__} of {len(items)} numbers or arrays, not one array",
            origin=user_origin(),
            remedy=f"pass np.asarray({name})",
        )
    return TraceError(
        "a list of staged values is not an array",
        origin=user_origin(),
        remedy="make one with dlvm.stack([a, b]) or dlvm.concat([a, b])",
    )


def kind_of(x: Any) -> Kind:
    """How an operand takes part in promotion."""
    if isinstance(x, Tensor):
        if x.weak and x.element is not BOOL:
            return float if x.element.is_float else int
        return x.dtype
    if is_array(x):
        return x.dtype
    if isinstance(x, bool):
        return _BOOL
    return float if isinstance(x, float) else int


def shape_of(x: Any) -> tuple[Dim, ...]:
    """The shape of an operand."""
    if isinstance(x, Tensor):
        return x.type.shape
    return x.shape if is_array(x) else ()


def is_weak(x: Any) -> bool:
    """Whether an operand is a Python scalar, or an argument that was one."""
    return x.weak if isinstance(x, Tensor) else not is_array(x)


def is_later_int(x: Any) -> TypeGuard[Tensor]:
    """Whether an operand is a Python integer whose value is known only in the call."""
    return isinstance(x, Tensor) and x.weak and x.element is I64


def narrowed(dtype: DType, kinds: Sequence[Kind]) -> DType:
    """The default float in the place of f64, where no operand is f64."""
    if dtype is not F64 or default_float() is F64:
        return dtype
    wide = any(isinstance(k, np.dtype) and k == F64.numpy for k in kinds)
    return dtype if wide else default_float()


def promoted(ufunc_name: str, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
    """The element type to which a function of NumPy converts each operand, or the default float."""
    return tuple(narrowed(d, kinds) for d in numpy_promoted(ufunc_name, kinds))


def common(kinds: tuple[Kind, ...]) -> DType:
    """The element type that holds values of all kinds, or the default float."""
    return narrowed(numpy_common(kinds), kinds)


@lru_cache(maxsize=4096)
def numpy_promoted(ufunc_name: str, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
    """The element type to which a function of NumPy converts each operand."""
    ufunc = getattr(np, ufunc_name, None)
    if not any(isinstance(k, np.dtype) for k in kinds):
        kinds = tuple(np.dtype(k) for k in kinds)
    if isinstance(ufunc, np.ufunc) and _is_bf16(kinds):  # NumPy has loops for f16, not for it
        taken = numpy_promoted(ufunc_name, (np.dtype(np.float16),) * len(kinds))
        return tuple(BF16 if d is F16 else d for d in taken)
    if not isinstance(ufunc, np.ufunc) or ufunc.nin != len(kinds):
        return (numpy_common(kinds),) * len(kinds)
    try:
        found = ufunc.resolve_dtypes((*kinds, *(None,) * ufunc.nout))[: len(kinds)]
    except TypeError:
        raise _undefined(ufunc_name, kinds) from None
    if len(set(found)) > 1:
        return (numpy_common(kinds),) * len(kinds)
    return tuple(known_dtype(d) for d in found)


def _undefined(name: str, kinds: Sequence[Kind]) -> DTypeError:
    """The error for element types for which NumPy does not have a function either."""
    types = [str(known_dtype(k)) if isinstance(k, np.dtype) else k.__name__ for k in kinds]
    bools = "bool" in types
    return DTypeError(
        f"{name} is not defined for elements of type {' and '.join(dict.fromkeys(types))}",
        remedy="convert them: x.astype(int)" + " to count, or use ~x and x ^ y" * bools,
    )


def _is_bf16(kinds: tuple[Kind, ...]) -> bool:
    """Whether bf16 is the element type that holds values of all kinds."""
    present = any(isinstance(k, np.dtype) and k.name == "bfloat16" for k in kinds)
    return present and numpy_common(kinds) is BF16


def _weak_half(kinds: tuple[Kind, ...]) -> bool:
    """Whether a Python number meets bf16; tested by name because importing its dtype takes long."""
    names = {k.name for k in kinds if isinstance(k, np.dtype)}
    return names == {"bfloat16"} and any(k is float for k in kinds)


@lru_cache(maxsize=4096)
def numpy_common(kinds: tuple[Kind, ...]) -> DType:
    """The element type that holds values of all kinds."""
    if not kinds:
        raise ShapeError(
            "expected at least one array, found none", remedy="give it one or more: [x, y]"
        )
    if _weak_half(kinds):
        return BF16
    samples = [k if isinstance(k, np.dtype) else k(0) for k in kinds]
    try:
        found = np.result_type(*samples)
    except TypeError:  # of bf16 with some others NumPy knows the sum, but no common type
        dtypes = [k for k in kinds if isinstance(k, np.dtype)]
        found = reduce(lambda a, b: np.add.resolve_dtypes((a, b, None))[0], dtypes)
    return known_dtype(found)


@lru_cache(maxsize=256, typed=True)  # np.int32(3), which has a type, equals 3, which has none
def known_dtype(dtype: Any) -> DType:
    """The element type of a NumPy dtype, an IR name such as ``"f32"``, or a Python type."""
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, str) and dtype == "bfloat16":  # NumPy knows it once its package is there
        return BF16
    try:
        found = dtype_of(np.dtype(dtype))
    except TypeError:
        found = None
    if found is None:
        found = DTYPES.get(dtype) if isinstance(dtype, str) else None
    if found is None or found is TAPE:
        raise DTypeError(
            f"no element type for {dtype}", remedy=f"there are {', '.join(map(str, NUMBERS))}"
        )
    return found


def broadcast_shapes(shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape that all shapes stretch to; only a literal 1 stretches.

    An open size ``T`` meets ``min(T, n)``, the size of a slice ``[:T]``, as ``T``: ``spread`` has
    the call check that ``T`` is at most ``n``.
    """
    first = shapes[0]
    if all(s == first for s in shapes):
        return first
    rank = max(map(len, shapes))
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if out[axis] == 1:
                out[axis] = size
            elif size != 1 and (met := met_sizes(out[axis], size)) is not None:
                out[axis] = met
            elif size != 1:
                sides = out[axis], size
                raise ShapeError(_clash(shapes, *sides), remedy=_stretch(*sides), sides=sides)
    return tuple(out)


def met_sizes(a: Dim, b: Dim) -> Dim | None:
    """The size of two that meet: either if they are equal, ``T`` of ``T`` and ``min(T, n)``."""
    if a == b or clipped_by(b, a) is not None:
        return a
    return None if clipped_by(a, b) is None else b


def shown_shape(shape: tuple[Dim, ...]) -> str:
    """A shape as Python writes it: ``(3,)``."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def _clash(shapes: Sequence[tuple[Dim, ...]], a: Dim, b: Dim) -> str:
    listed = " and ".join(shown_shape(s) for s in shapes if s)
    return f"the shapes {listed} don't broadcast: {a} against {b}"


def _stretch(a: Dim, b: Dim) -> str:
    if isinstance(a, int) and isinstance(b, int):
        return "sizes must be equal, or 1; x[:, None] adds an axis of size 1 where it is missing"
    return f"a symbolic size never stretches; use one symbol for both if {a} equals {b}"


def fit(x: Any, dtype: DType, shape: tuple[Dim, ...]) -> Value:
    """An operand as a value of exactly this element type and shape."""
    return spread(element(x, dtype), shape)


def element(x: Any, dtype: DType) -> Value:
    """An operand as a value of this element type, in its own shape."""
    if isinstance(x, Tensor):
        value = x.read()
    elif is_array(x):
        value = here().capture(x)
    elif isinstance(x, Expr):
        value = DimSize(x)
    else:
        return Constant(number(x, dtype))
    if value.dtype is dtype:
        return value
    if is_later_int(x):
        _check_range(x, value, dtype)
    return Cast(value, dtype)


def _check_range(x: Tensor, value: Value, dtype: DType) -> None:
    """Ends the call with an error where a Python integer does not fit an integer type.

    The integer is known only in the call: it is an argument, or computed from one.
    """
    if not dtype.is_integer or dtype is BOOL or value.type.shape:
        return
    if isinstance(value, Constant):
        number(value.value.item(), dtype)
        return
    fits: Value = LessEqual(Constant(literal(max(dtype.lowest, I64.lowest), I64)), value)
    if dtype.highest < I64.highest:
        fits = And(fits, LessEqual(value, Constant(literal(dtype.highest, I64))))
    said = f"the Python integer {x.label}".rstrip()
    Assert(fits, f"{said} is out of range for {dtype}", WIDER)


WIDER = "pass it as np.int64(...), which widens the result, or pass a number that fits"


def number(x: float, dtype: DType) -> Array:
    """A Python scalar as a constant of an element type that can hold it.

    A float becomes an integer as ``astype`` says: out of range saturates and NaN becomes 0.
    """
    if isinstance(x, float) and dtype.is_integer:
        given = literal(x, F64)
        return literal(Cast(Constant(given), dtype).reference(given), dtype)
    try:
        return literal(x, dtype)
    except OverflowError:
        raise _out_of_range(int(x), dtype) from None


def _out_of_range(x: int, dtype: DType) -> NumberOutOfRange:
    """The error for a whole number that is too large for an element type."""
    bits = x.bit_length()
    said = f"the Python integer {x}" if bits <= 256 else f"a Python integer of {bits} bits"
    remedy = f"write np.int64({x})"
    if bits >= 64:
        remedy = f"write it as a float, {float(x)!r}" if bits < 1024 else "write dlvm.inf"
    return NumberOutOfRange(f"{said} is out of range for {dtype}", remedy=remedy)


def spread(value: Value, shape: tuple[Dim, ...]) -> Value:
    """A value stretched to a shape that it broadcasts to."""
    mine = value.shape
    if mine == shape:
        return value
    if len(shape) < len(mine):
        raise ShapeError(
            f"{value.type} does not stretch to {shown_shape(shape)}, which has fewer axes",
            remedy="give an array of at most as many axes",
        )
    for axis, size in enumerate(shape[len(shape) - len(mine) :]):
        value = sized(value, axis, size)
    return stretched(value, shape)


def sized(value: Value, axis: int, whole: Dim) -> Value:
    """A value whose slice ``[:whole]`` along an axis is as long as that, as the call checks."""
    there = clipped_by(value.shape[axis], whole)
    if there is None:
        return value
    fits = LessEqual(_size(whole), _size(there))
    Assert(fits, f"expected {whole} to be at most {there}, the size of the axis that :{whole} cuts")
    more = [whole - n if a == axis else 0 for a, n in enumerate(value.shape)]
    return Pad(value, (0,) * len(more), tuple(more))  # the call ends where it adds anything


def _size(size: Dim) -> Value:
    return DimSize(size) if isinstance(size, Expr) else Constant(literal(size, I64))


def staged(x: Any, label: str = "") -> Tensor:
    """Any operand as a staged array."""
    x = plain(x)
    if isinstance(x, Tensor):
        return x
    if is_array(x):
        captured = Tensor(here().capture(x), here(), held="a captured array")
        captured.laid = existing(x)
        return captured
    if isinstance(x, int) and I64.highest < x <= U64.highest:  # as NumPy makes an array of it
        return Tensor(element(x, U64), here(), label=label)
    dtype = BOOL if isinstance(x, bool) else F64 if isinstance(x, float) else I64
    return Tensor(element(x, dtype), here(), weak=True, label=label)


def strong(x: Any) -> Tensor:
    """Any operand as a staged array; a Python scalar with the element type that NumPy gives it,
    a float that of the default.
    """
    x = staged(x)
    return fresh(element(x, narrowed(x.element, ()))) if x.weak else x


def valued(x: Any) -> tuple[Value, TensorType]:
    """Any operand as a value, and its type."""
    value = staged(x).read()
    return value, value.type


def made(value: Value) -> Tensor:
    """A new staged array that can be assigned into even without axes, unlike NumPy's scalars."""
    found = fresh(value)
    found.laid = None if value.shape else ARRAY
    return found


def as_array(x: Tensor) -> Tensor:
    """A staged array itself, or an array that has the value of a scalar of NumPy's."""
    scalar = not (x.type.shape or x.laid or x.held)
    return made(x.read()) if scalar else x


def fresh(value: Value, weak: bool = False) -> Tensor:
    """The result of an operation as a new staged array."""
    return Tensor(value, here(), weak)
