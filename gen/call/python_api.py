"""What machine code knows of this process: addresses of Python's and NumPy's functions.

Fields of objects are read by their offsets, which hold for CPython 3.11 to 3.14 and NumPy 2;
each is tried on an array that is known before anything relies on it. Where one does not hold, or
Python has no lock that guards the pool, there is no ``enter``, and calls go through ctypes.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.loops.status import CallFailed
from dlvm.gen.runtime import allocator as blocks
from dlvm.gen.text.module import Text
from dlvm.target import Target

from .entry_code import ALIGNED, CONTIGUOUS, ENTER, OWNED, WRITEABLE, Api, Field, emit_enter

FASTCALL = 0x80
NEW_FROM_DESCR, GET_HANDLER = 94, 305
"""Places in NumPy's table of functions."""
LAYOUT = {field: field.value for field in Field}
"""Where fields are taken to be."""


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """The entry of this process; what it refers to lives as long as the process."""

    api: int
    pool: ctypes.Array[ctypes.c_int64]
    make: Callable[[Any], Callable[..., Any]]


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Handler(ctypes.Structure):
    """``PyDataMem_Handler``: a name, a version, and the functions of an allocator."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("pool", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


@cache
def enter() -> ProcessEntry | None:
    """The entry of this process, or None where objects are laid out in another way."""
    if not (_has_lock() and layout_holds()):
        return None
    text = Text.of(Target.host())
    emit_enter(text)
    library = Library(object_code(str(text), Target.host()), Target.host())
    pool = (ctypes.c_int64 * blocks.WORDS)()
    handler = _handler(library, pool)
    words = _api(handler, pool)
    method = _Method(b"enter", library.address(ENTER), FASTCALL, None)
    made = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    new = made(_address("PyCFunction_NewEx"))
    for kept in (library, pool, handler, words, method):  # arrays may outlive every module
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return ProcessEntry(
        ctypes.addressof(words), pool, lambda table: new(ctypes.addressof(method), table, None)
    )


def _has_lock() -> bool:
    free = sysconfig.get_config_var("Py_GIL_DISABLED")
    return sys.implementation.name == "cpython" and not free and ctypes.sizeof(ctypes.c_void_p) == 8


def layout_holds() -> bool:
    """Whether the fields of an array that is known stand where they are read."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3).copy()
    expected = {
        Field.TYPE: id(np.ndarray),
        Field.DATA: array.ctypes.data,
        Field.DESCR: id(array.dtype),
        Field.HANDLER: id(_numpy_handler()),
    }
    if any(_read(array, field) != value for field, value in expected.items()):
        return False
    rank, flags = (_read(array, f, ctypes.c_int32) for f in (Field.RANK, Field.FLAGS))
    if (rank, flags) != (2, CONTIGUOUS | OWNED | ALIGNED | WRITEABLE) or flags != array.flags.num:
        return False
    axes, strides = _read(array, Field.AXES), _read(array, Field.STRIDES)
    known = axes != 0 and strides == axes + 16  # NumPy has both in one piece of memory
    return known and [ctypes.c_int64.from_address(axes + 8 * i).value for i in range(4)] == [
        *array.shape,
        *array.strides,
    ]


def _read(x: Any, field: Field, type_: Any = ctypes.c_int64) -> int:
    return type_.from_address(id(x) + LAYOUT[field]).value


def _address(name: str) -> int:
    """The address of a function of Python's."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _numpy(index: int) -> int:
    """The address of a function of NumPy's."""
    capsule: Any = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    get: Any = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return int(ctypes.c_void_p.from_address(get(capsule, None) + 8 * index).value or 0)


def _numpy_handler() -> Any:
    """What arrays made now refer to as the owner of their memory."""
    return ctypes.PYFUNCTYPE(ctypes.py_object)(_numpy(GET_HANDLER))()


def _handler(library: Library, pool: Any) -> Any:
    """The pool as a memory handler of NumPy's, in a capsule."""
    names = ("numpy_malloc", "numpy_calloc", "numpy_realloc", "numpy_free")
    functions = map(library.address, names)
    handler = _Handler(b"dlvm", 1, ctypes.addressof(pool), *functions)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handler))
    new: Any = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    return new(ctypes.addressof(handler), b"mem_handler", None)


def _api(handler: Any, pool: Any) -> Any:
    """The table of addresses."""
    functions = {
        Api.INCREF: "Py_IncRef",
        Api.DECREF: "Py_DecRef",
        Api.NEW_TUPLE: "PyTuple_New",
        Api.SET_ITEM: "PyTuple_SetItem",
        Api.AS_DOUBLE: "PyFloat_AsDouble",
        Api.AS_INT: "PyLong_AsLongLong",
        Api.NEW_INT: "PyLong_FromLongLong",
        Api.OCCURRED: "PyErr_Occurred",
        Api.CLEAR: "PyErr_Clear",
        Api.NO_MEMORY: "PyErr_NoMemory",
        Api.RAISE: "PyErr_SetObject",
        Api.SAVE_THREAD: "PyEval_SaveThread",
        Api.RESTORE_THREAD: "PyEval_RestoreThread",
    }
    words = {api: _address(name) for api, name in functions.items()} | {
        Api.ARRAY: id(np.ndarray),
        Api.NEW_ARRAY: _numpy(NEW_FROM_DESCR),
        Api.TRUE: id(True),
        Api.NOT_IMPLEMENTED: id(NotImplemented),
        Api.FAILED: id(CallFailed),
        Api.HANDLER: id(handler),
        Api.POOL: ctypes.addressof(pool),
    }
    return (ctypes.c_int64 * len(Api))(*(words[api] for api in Api))
