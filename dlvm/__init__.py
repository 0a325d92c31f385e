"""dlvm: NumPy-style Python to machine code, for a function and for its gradient.

``docs/guide.md`` shows how programs are written, ``docs/reference.md`` lists every public name.

Functions that follow from operations (``dlvm.exp``, ``dlvm.sum`` ...) are found by name when
they are first used; see ``dlvm.dsl.words.names``. Type checkers read ``__init__.pyi``.
"""

# pyright: reportUnsupportedDunderAll=false
# ruff: noqa: E402

from __future__ import annotations

import importlib
import sys
from typing import Any

from dlvm.base.system import check_checkout

check_checkout(__file__)  # before what may be missing is imported

from dlvm import linalg as linalg
from dlvm import ops as ops
from dlvm.base import errors
from dlvm.base.debugging import debug
from dlvm.base.errors import (
    CompilerError,
    DlvmError,
    StaleState,
    TraceWarning,
    UnknownName,
    UserError,
)
from dlvm.base.interpreter import check_interpreter
from dlvm.dsl.call.staging import function, trace
from dlvm.dsl.elements.datatypes import CONSTANTS, NAMES, constant
from dlvm.dsl.elements.inspection import array_namespace_info, provide_namespace
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.defaults import default_dtype
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.specs import spec
from dlvm.dsl.words.names import PUBLIC, every_name, lookup
from dlvm.dsl.words.origins import user_origin
from dlvm.ir import Module
from dlvm.ir import parse as _parse
from dlvm.ir.taps import taps

parse = facing_users(_parse)
check_interpreter()
provide_namespace(sys.modules[__name__])

__version__ = "0.2.0"
__array_api_version__ = "2024.12"
__array_namespace_info__ = array_namespace_info

__all__ = [
    "CompilerError",
    "DlvmError",
    "Module",
    "StaleState",
    "TraceWarning",
    "UserError",
    "aot",
    "associative_scan",
    "assume",
    "batches",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_scan",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "default_dtype",
    "eval_shape",
    "export",
    "fori_loop",
    "from_sympy",
    "function",
    "gpu",
    "grad",
    "hessian",
    "jacobian",
    "jvp",
    "linalg",
    "linearize",
    "load",
    "map",
    "mesh",
    "nn",
    "onnx",
    "ops",
    "optim",
    "parse",
    "random",
    "save",
    "save_names",
    "scan",
    "shard",
    "spec",
    "stablehlo",
    "states",
    "static",
    "stop_gradient",
    "switch",
    "taps",
    "trace",
    "tree",
    "value_and_grad",
    "vjp",
    "vmap",
    "while_loop",
]


LATER = {
    "gpu": (),
    "nn": (),
    "onnx": (),
    "optim": (),
    "random": (),
    "stablehlo": (),
    "testing": (),
    "tree": (),
    "dsl.arrays.assumptions": ("assume",),
    "dsl.arrays.sharding": ("mesh", "shard"),
    "data": ("batches",),
    "files": ("load", "save", "states"),
    "symbolic": ("from_sympy",),
    "ahead": ("aot",),
    "exporting": ("export",),
    "dsl.call.abstract": ("eval_shape",),
    "dsl.flow.associative": ("associative_scan",),
    "dsl.flow.control": ("cond", "switch"),
    "dsl.derive.custom": ("custom_jvp", "custom_vjp"),
    "dsl.derive.derivatives": (
        "checkpoint",
        "checkpoint_name",
        "grad",
        "jvp",
        "save_names",
        "stop_gradient",
        "value_and_grad",
        "vmap",
    ),
    "dsl.derive.jacobians": ("hessian", "jacobian"),
    "dsl.derive.linear": ("linearize", "vjp"),
    "dsl.derive.long_scans": ("checkpoint_scan",),
    "dsl.flow.loops": ("fori_loop", "scan", "while_loop"),
    "dsl.derive.mapping": ("map",),
}
"""Modules that are imported when they, or one of their names, are first used."""
ROOMS = {name: room for room, gives in LATER.items() for name in gives}


ERRORS = {n for n, x in vars(errors).items() if isinstance(x, type) and issubclass(x, Exception)}
"""Kinds of errors: ``dlvm.ShapeError`` and the like."""


def __getattr__(name: str) -> Any:
    if (room := ROOMS.get(name)) is not None:  # before an operation of the same name
        found = getattr(importlib.import_module(f"dlvm.{room}"), name)
        return globals().setdefault(name, found)
    if name in PUBLIC and name[0] != "_":
        return PUBLIC[name]
    if name in ERRORS:
        return getattr(errors, name)
    if name in LATER:
        return importlib.import_module(f"dlvm.{name}")
    if name in NAMES or name in CONSTANTS:
        return constant(name)
    found = None if name.startswith("_") else lookup(name)
    if found is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> AttributeError:
    """The error for an unknown name; Python itself asks for some that start with ``_``."""
    if name.startswith("_"):
        said = f"module 'dlvm' has no attribute {name!r}"
        return UnknownName(said, origin=user_origin(), remedy="dir(dlvm) lists the names there are")
    return importlib.import_module("dlvm.dsl.trace.suggestions").unknown("dlvm", name, __dir__())


def __dir__() -> list[str]:
    return sorted({*__all__, "testing", *ERRORS, *NAMES, *CONSTANTS, *every_name()})
