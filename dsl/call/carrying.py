"""How a staged function is copied to another process: by its name, or else by value.

By name is how Python's own functions are pickled: the other process imports the module. By value
carries the Python function and the options; the code of a function that has no name to import is
carried by cloudpickle (and by what uses it: joblib, dask, ray, spark), which pickle itself can't.
"""

from __future__ import annotations

import copy
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from dlvm.base.errors import PicklingError

from .source import Source

CARRIERS = ("cloudpickle", "dill", "_dill")
"""Modules that pickle the code of a function."""


def carried(staged: Any, owner: Any, blank: Callable[[], Any], inline: Any) -> Any:
    """What pickle is told of a staged function: a name, or how it is made again.

    A method is pickled with its ``owner``, as Python's methods are. ``blank`` makes a staged
    function that is yet to be given its state, so that it may refer to itself.
    """
    fn, label = staged.source.fn, staged.label
    if owner is not None:
        return getattr, (owner, fn.__name__)
    name, module = str(getattr(fn, "__qualname__", label)), getattr(fn, "__module__", "")
    here_only = module == "__main__" and code_is_carried()
    if named(staged, module, name) and not here_only:
        return name
    check_carried(fn, label)
    return blank, (), (fn, {**_staging(staged.source), "inline": inline}, staged.transparent)


def _staging(source: Source) -> dict[str, Any]:
    """How a function is staged, as arguments of ``StagedFunction``."""
    return {
        "static": tuple(source.parameters.static),
        "donate": tuple(source.donate),
        "dynamic": source.dynamic,
        "options": source.options,
        "roots": source.roots,
        "known": source.known,
    }


def deeply_copied(fn: Any, owner: Any, memo: dict[int, Any]) -> Any:
    """A method of a copied object; None for a function, of which there is one copy only."""
    bound = fn if owner is None else types.MethodType(fn.__func__, owner)
    copied = copy.deepcopy(bound, memo)
    return None if copied is bound else copied


def named(thing: Any, module: str | None, name: str) -> bool:
    """Whether a module and a dotted name lead to this very object."""
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is thing


def code_is_carried() -> bool:
    """Whether the code of functions is pickled as well, by whoever is pickling now.

    Python asks the object how it is pickled without saying who asks, but the caller is there.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).rpartition(".")[2] in CARRIERS:
            return True
        frame = frame.f_back
    return False


def check_carried(fn: Any, label: str) -> None:
    """Raises the error for a function whose code nobody carries and whose name leads nowhere."""
    plain = isinstance(fn, types.FunctionType)
    if not plain or code_is_carried() or named(fn, fn.__module__, fn.__qualname__):
        return
    raise PicklingError(
        f"the staged function {label} can't be pickled by its name: {fn.__module__}."
        f"{fn.__qualname__} is not it, or can't be imported",
        remedy="pickle it with cloudpickle.dumps, or define it at the top of a module",
    )
