"""Whose code a module is: of the user's and of installed packages it is read, of others it is not.

Code of Python's own library, of NumPy, of what dlvm stands on and of tools is never read: what goes
there is compared as a whole. Code of installed packages is read like the user's, as far as a budget
reaches; what it keeps for itself (counters, caches) may change while a function is traced.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# What is looked at here are objects of any kind.

from __future__ import annotations

import sys
import types
from functools import cache
from typing import Any

import numpy as np

from .places import slots_of

TOOLS = {
    *("pytest", "_pytest", "pluggy", "xdist", "hypothesis", "coverage", "IPython", "ipykernel"),
    *("traitlets", "debugpy", "pydevd", "tqdm", "rich", "wandb", "tensorboard", "matplotlib"),
}
"""Packages that watch, show and test programs; they hold no numbers that a result depends on."""
FRAMEWORKS = {
    *("jax", "jaxlib", "optax", "flax", "chex", "torch", "tensorflow", "keras", "sympy", "mpmath"),
}
"""Packages that compute with values of their own, and so with no staged value. An object of theirs
is compared by its elements if it is an array, else by identity.
"""
UNREAD = {
    *TOOLS,
    *FRAMEWORKS,
    *sys.stdlib_module_names,
    "numpy",
    "dlvm",
    "optree",
    "ml_dtypes",
    "llvmlite",
    "scipy",
} - {"__main__"}
LAYERS = "dlvm.nn.layers."
"""How the names of modules of ours begin whose classes hold arrays of the user's.

Their code is read like the user's.
"""
_EMPTY = object()
_METHODS = (types.FunctionType, property, classmethod, staticmethod)
RUNNING = {
    *("logging", "threading", "_thread", "queue", "_queue", "multiprocessing", "concurrent"),
    *("asyncio", "io", "_io", "socket", "subprocess", "selectors", "contextvars", "sched"),
    *("warnings", "importlib", "_frozen_importlib_external", "zipfile", "tempfile", "re"),
}
"""Modules of Python's library whose objects hold the state of the running process, no numbers."""

ACTING = {
    *("logging", "queue", "_queue", "multiprocessing", "concurrent", "asyncio", "io", "_io"),
    *("socket", "_socket", "subprocess", "selectors", "sched", "warnings", "pprint", "shutil"),
    *("tempfile", "sqlite3", "_sqlite3", "posix", "signal", "gc", "sys", "traceback"),
}
"""Modules of Python's library whose functions do something outside of the one that calls them."""


def is_read(space: Any) -> bool:
    """Whether the code of a module (given as a module or as its globals) is read."""
    return _package(_name(space)) not in UNREAD


def is_installed(space: Any) -> bool:
    """Whether a module (given as a module or as its globals) is of an installed package."""
    names: Any = space if isinstance(space, dict) else vars(space) if space is not None else {}
    return _is_installed(str(names.get("__file__", "")))


def class_is_read(cls: type) -> bool:
    """Whether the code of a class is read."""
    module: Any = cls.__module__  # classes in C may have a descriptor there
    return isinstance(module, str) and _package(module) not in UNREAD


def class_is_installed(cls: type) -> bool:
    """Whether a class is of an installed package."""
    module: Any = cls.__module__
    return isinstance(module, str) and is_installed(sys.modules.get(module))


def holds_numbers(value: Any) -> bool:
    """Whether what an object holds may matter to a result, so that all of it is compared."""
    cls: Any = value if isinstance(value, type) else type(value)
    module: Any = getattr(cls, "__module__", "")
    if isinstance(value, types.ModuleType) or not isinstance(module, str):
        return False
    if _package(module) in FRAMEWORKS:
        return hasattr(cls, "__array__")
    return _package(module) not in {*RUNNING, *TOOLS, "builtins", "dlvm"}


def of_framework(value: Any) -> bool:
    """Whether an object is of a package that computes with values of its own."""
    return _package(str(type(value).__module__)) in FRAMEWORKS


def runs(value: Any) -> bool:
    """Whether an object is part of the running process, such as a lock."""
    return _package(str(type(value).__module__)) in RUNNING


def slot(value: Any, name: str, missing: Any = None) -> Any:
    """A slot of an object; ``missing`` where it is empty or is one of another class in C."""
    try:
        return getattr(value, name, missing)
    except Exception:
        return missing


def own_names(value: Any) -> set[str]:
    """The attributes that an object itself has, where what it holds may matter to a result."""
    if isinstance(value, type) or not holds_numbers(value):
        return set()
    slots = {n for k in type(value).__mro__ for n in slots_of(k)}
    full = {n for n in slots if slot(value, n, _EMPTY) is not _EMPTY}
    found = full | {n for n in getattr(value, "__dict__", {}) if isinstance(n, str)}
    return {n for n in found if not n.startswith("__")}


def special_names(cls: type) -> set[str]:
    """The special methods of a class that are written in code that is read."""
    written = [(n, x) for k in cls.__mro__ if class_is_read(k) for n, x in k.__dict__.items()]
    return {n for n, x in written if n.startswith("__") and isinstance(x, _METHODS)}


def of_installed(read: Any) -> bool:
    """Whether a place lies in an object of a class of an installed package."""
    while (read := getattr(read, "of", None)) is not None:
        try:
            owner = read()
        except (NameError, LookupError, AttributeError, TypeError, ValueError):
            return False
        if class_is_installed(type(owner)):
            return True
    return False


def _package(module: str) -> str:
    """The first name of a module; one of layers is a package of its own."""
    return module if module.startswith(LAYERS) else module.partition(".")[0]


def _name(space: Any) -> str:
    names: Any = space if isinstance(space, dict) else vars(space) if space is not None else {}
    return str(names.get("__name__", ""))


@cache
def _is_installed(file: str) -> bool:
    return "site-packages" in file or "dist-packages" in file


def home_of(value: Any) -> str:
    """The package of a function or object: its first name."""
    if isinstance(value, np.ufunc):
        return "numpy"
    if isinstance(value, types.FunctionType):
        return _package(_name(value.__globals__))
    module = getattr(value, "__module__", None) or type(value).__module__
    return _package(str(module))


def is_ours(value: Any) -> bool:
    """Whether an object is of a class of dlvm."""
    return _package(str(type(value).__module__)) == "dlvm"
