"""Element types: their names, conversion, and the questions of the array API standard about them.

A type is NumPy's own object; ``bfloat16`` is that of ``ml_dtypes``, imported when it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.trace.operands import (
    Kind,
    as_array,
    common,
    element,
    fresh,
    here,
    kind_of,
    known_dtype,
    made,
    narrowed,
    plain,
    staged,
)
from dlvm.dsl.trace.scopes import is_array
from dlvm.dsl.trace.tensor import COPY, Tensor
from dlvm.dsl.words.layout import ARRAY, layout
from dlvm.dsl.words.names import PUBLIC, named
from dlvm.dsl.words.views import Reordered, inverse, permuted
from dlvm.ir import BF16, BOOL, I64, DType
from dlvm.ops import Bitcast

from .eager import like, public

NAMES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16"),
)
CONSTANTS: dict[str, Any] = {
    "e": np.e,
    "inf": np.inf,
    "nan": np.nan,
    "newaxis": None,
    "pi": np.pi,
}


def constant(name: str) -> Any:
    """A type or a number that has a name."""
    if name in CONSTANTS:
        return CONSTANTS[name]
    return BF16.numpy.type if name == "bfloat16" else np.dtype(name).type


# -- conversion ----------------------------------------------------------------------------------


@public("astype", views=True, device=True)
def astype(x: Any, dtype: Any, copy: bool = True, *, order: str = "K") -> Any:
    """``x`` in another element type; out of range saturates, NaN becomes 0.

    The result is a copy; ``x`` itself where it has that type already and ``copy`` is False.
    """
    given, x, target = plain(x), staged(x), known_dtype(dtype)
    if not copy and x.element is target and not x.weak:
        return x
    found = fresh(element(given, target))
    found.laid = None if x.type.shape else x.laid and ARRAY
    return laid_out(found, x, order)


@public("bitcast")
def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of ``x`` as numbers of another type of the same width, as NumPy's ``x.view(dtype)``.

    NaN has the bits of the quiet NaN without sign, whichever NaN it is.
    """
    value, target = staged(plain(x)).read(), known_dtype(dtype)
    source = value.dtype
    if source.bits != target.bits or BOOL in (source, target):
        raise DTypeError(
            f"bitcast: expected two types of numbers of one width, found {source} and {target}",
            remedy=f"convert to a type of {target.bits} bits first"
            if BOOL not in (source, target)
            else "convert bools with astype",
        )
    return fresh(Bitcast(value, target))


def as_python(name: str, *xs: Any) -> tuple[Any, ...]:
    """The operands of an operator, in which Python bools alone are the Python ints 0 and 1.

    Beside an array a Python bool has the type bool, as in NumPy.
    """
    python = all(type(x) in PYTHON or (isinstance(x, Tensor) and x.weak) for x in xs)
    if not python or (name in OF_BOOLS and all(map(_is_truth, xs))):
        return xs
    return tuple(
        fresh(element(x, I64), weak=True) if isinstance(x, Tensor) and _is_truth(x) else x
        for x in xs
    )


def _is_truth(x: Any) -> bool:
    return x.element is BOOL if isinstance(x, Tensor) else type(x) is bool


PUBLIC["_as_python"] = as_python
PYTHON = (bool, int, float)
OF_BOOLS = ("bitwise_and", "bitwise_or", "bitwise_xor")
"""Operators of two Python bools that Python does not compute as ints."""


@public("asarray", views=True, device=True)
def asarray(x: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    """Any operand as an array, also a symbolic size; an array stays as it is.

    A list of staged values, or a nested one, is stacked, as NumPy makes one array of lists.
    ``copy`` is True for an array that shares no memory with ``x``, and False for an error where
    a copy would have to be made.
    """
    if isinstance(x, list | tuple) and _has_staged(x):
        x = _stacked(x)
    given, x = plain(x), staged(x)
    own = narrowed(x.element, ()) if x.weak else x.element
    target = own if dtype is None else known_dtype(dtype)
    same = isinstance(given, Tensor) or is_array(given)
    if copy is False and not (same and x.element is target):
        raise DTypeError(
            f"asarray: {x.type} can't become an array of {target} without a copy",
            remedy="leave out copy=False",
        )
    if not copy and x.element is target and not x.weak:
        return as_array(x)
    return like(made(element(x, target)), x)


def _has_staged(x: Any) -> bool:
    """Whether nested lists hold a value that is known in a call only."""
    if isinstance(x, list | tuple):
        items: Any = x  # pyright: ignore[reportUnknownVariableType]
        return any(_has_staged(item) for item in items)
    return isinstance(x, Tensor)


def _stacked(x: Any) -> Any:
    """Nested lists as one array, of which each list is an axis."""
    if isinstance(x, list | tuple):
        items: Any = x  # pyright: ignore[reportUnknownVariableType]
        return named("stack")([_stacked(item) for item in items])
    return x


@public("from_dlpack", views=True, device=True)
def from_dlpack(x: Any, copy: bool | None = None) -> Any:
    """An array of another library on the processor, without a copy unless ``copy`` is True."""
    if isinstance(x, Tensor) or not hasattr(x, "__dlpack__"):
        raise DTypeError(
            f"from_dlpack: expected an array of another library, found {shown(x)}",
            remedy="write dlvm.asarray(x), which takes arrays, numbers and lists of them",
        )
    found = staged(np.from_dlpack(x))
    return Tensor(found.read(), here()) if copy else found


@public("copy")
def copy(x: Any, order: str = "K") -> Any:
    """An array of its own with the same elements, which may be assigned into.

    The order ``"K"`` is that of ``x``; ``x.copy()`` makes an array in row-major order, as in NumPy.
    """
    x = staged(x)
    label = f"{COPY}{x.label}" if x.label else ""
    found = Tensor(x.read(), here(), x.weak, label=label)
    found.laid = None if x.type.shape else ARRAY
    return laid_out(found, x, order)


def laid_out(found: Tensor, x: Tensor, order: str) -> Tensor:
    """A new array that lies in an order: of rows, of columns, or in that of another array."""
    if order == "K":
        return like(found, x)
    axes = reading_order(x, order, "CFA")
    if list(axes) == sorted(axes):
        return found
    moved = Tensor(permuted(found.read(), axes), here(), label=found.label)
    return moved.part(Reordered(inverse(axes)))


@public("_copy_in_rows")
def copy_in_rows(x: Any, order: str = "C") -> Any:
    """``x.copy()``, which NumPy makes in row-major order; the copy of a scalar is a scalar."""
    found = copy(x, order)
    found.laid = found.laid if found.shape or x.laid else None
    return found


def reading_order(x: Tensor, order: str, known: str) -> tuple[int, ...]:
    """The order of axes in which an array is read, the slowest first."""
    if order not in tuple(known):
        raise ArgumentError(
            f"expected order={' or '.join(map(repr, known))}, found {order!r}",
            remedy="name one of these orders",
        )
    return (
        tuple(range(x.ndim))
        if order == "C" or x.ndim < 2
        else layout(x.placed).reading_order(order)
    )


# -- questions -----------------------------------------------------------------------------------


def _of(x: Any) -> DType:
    """The element type of an array, or the one that is named."""
    return known_dtype(x.dtype if isinstance(x, Tensor) or is_array(x) else x)


def _of_number(x: Any) -> DType:
    """The same, also of a Python number."""
    return known_dtype(type(x)) if isinstance(x, int | float) else _of(x)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The type that holds values of all of these: arrays, types, and Python scalars, weakly."""
    if len(arrays_and_dtypes) == 1 and type(arrays_and_dtypes[0]) is int:
        return known_dtype(np.result_type(*arrays_and_dtypes)).numpy  # 2**63 is no i64
    return common(tuple(_kind(x) for x in arrays_and_dtypes)).numpy


def _kind(x: Any) -> Kind:
    named = isinstance(x, np.dtype | type | str | DType)
    return known_dtype(x).numpy if named else kind_of(plain(x))  # pyright: ignore[reportUnknownArgumentType]


def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether values of one type become another without loss (``casting``: NumPy's words)."""
    return bool(np.can_cast(_of(from_).numpy, _of(to).numpy, casting))


KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "",
    "numeric": "iuf",
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is another, or of a kind of the standard's, or of one of several."""
    if isinstance(kind, tuple):
        kinds: tuple[Any, ...] = kind  # pyright: ignore[reportUnknownVariableType]
        return any(isdtype(dtype, k) for k in kinds)
    if isinstance(kind, str) and kind in KINDS:
        return _of(dtype).kind in KINDS[kind]
    return _of(dtype) is _of(kind)


@dataclass(frozen=True, slots=True)
class FloatLimits:
    """The limits of a floating-point type as Python numbers, as the array API standard has them.

    Other attributes are those of ``numpy.finfo``.
    """

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]

    def __getattr__(self, name: str) -> Any:
        """Others that NumPy has; a number of the type itself becomes a Python float."""
        if name.startswith("_"):
            raise AttributeError(name)
        found: Any = getattr(_limits(self.dtype), name)
        return found if isinstance(found, int | str) else float(found)


def _limits(dtype: np.dtype[Any]) -> Any:
    """What NumPy says of a floating-point type, or ``ml_dtypes`` of bf16."""
    if known_dtype(dtype) is not BF16:
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # pyright: ignore[reportUnknownVariableType]


def finfo(dtype: Any) -> FloatLimits:
    """The limits of a floating-point type: ``bits``, ``eps``, ``max``, ``smallest_normal`` ...

    They are Python floats, so ``x * dlvm.finfo(x).eps`` has the type of ``x``.
    """
    limits = _of_number(dtype)
    if not limits.is_float:
        raise DTypeError(f"finfo: expected a floating-point type, found {limits}")
    given = _limits(limits.numpy)
    return FloatLimits(
        limits.numpy.itemsize * 8,
        float(given.eps),
        float(given.max),
        float(given.min),
        float(given.smallest_normal),
        limits.numpy,
    )


def iinfo(dtype: Any) -> np.iinfo[Any]:
    """The limits of an integer type: ``bits``, ``max``, ``min``."""
    found = _of_number(dtype)
    if not found.is_integer or found is BOOL:
        raise DTypeError(f"iinfo: expected an integer type, found {found}")
    return np.iinfo(found.numpy)


_QUESTIONS: tuple[Any, ...] = (result_type, can_cast, isdtype, finfo, iinfo)
for _question in _QUESTIONS:
    PUBLIC[_question.__name__] = facing_users(_question)
PUBLIC["promote_types"] = PUBLIC["result_type"]
