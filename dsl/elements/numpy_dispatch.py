"""NumPy functions on staged values: the public function of the same name, or our error.

A ufunc or array function of NumPy means the same as ours of that name, so nothing is listed
but the few names that the array API standard changed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import TraceError
from dlvm.dsl.trace.mistakes import into_numpy
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.suggestions import instead, near
from dlvm.dsl.words.names import PUBLIC, Function, every_name, lookup, named
from dlvm.dsl.words.remedies import ADVICE, OURS, UNSIZED

from .elementwise import refuse_out
from .spelling import by_our_names, changes_nothing, numpys, parameters

MEANT = ("numpy", "numpy._core.umath", "scipy.special")
"""Modules whose ufuncs mean what ours of the same name do."""
OWN = "write it as a Python function of dlvm's functions, or call it outside of staged functions"
LEFT_OUT = "leave it out"
ELSEWHERE = "compute it outside and pass the result, or compose it; dir(dlvm) lists what there is"


def numpy_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``np.sin(x)`` and operators with a NumPy array on the left."""
    name: str = ufunc.__name__
    home = next((m for m in MEANT if ufunc is getattr(sys.modules.get(m), name, None)), None)
    if home is None:
        raise _unstaged(f"{name}, a ufunc that is not NumPy's,", OWN)
    if any(isinstance(x, np.ndarray) for x in kwargs.get("out", ())):
        raise into_numpy(name)
    refuse_out(kwargs.get("out"))
    if method == "outer" and not kwargs:
        x, y = inputs
        shape = (*named("shape")(x), *(1,) * named("ndim")(y))
        return _found(name)(named("reshape")(x, shape), y)
    if method != "__call__":
        raise _unstaged(f"np.{name}.{method}", ADVICE.get(f"{name}.{method}") or ADVICE[method])
    call = _found(name, "scipy.special" if home == "scipy.special" else "np")
    given = {k: v for k, v in kwargs.items() if k in parameters(call) and k != "out"}
    for option, value in kwargs.items():
        if option not in (*given, "out") and not changes_nothing(option, value, numpys(name)):
            raise _unstaged(f"np.{name} with {option}=", ADVICE.get(f"{option}=", LEFT_OUT))
    return call(*inputs, **given)


def numpy_function(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """``np.where(c, x, y)``, ``np.concatenate([x, y])`` and the like."""
    refuse_out(kwargs.get("out"))
    prefix = func.__module__.removeprefix("numpy").removeprefix(".")
    name = f"{prefix}.{func.__name__}" if prefix else func.__name__
    call = _found(name)
    given = by_our_names(
        OURS.get(name, name), call, {k: v for k, v in kwargs.items() if k != "out"}
    )
    try:
        inspect.signature(call).bind(*args, **given)
    except TypeError as error:
        like = UNSIZED.get(func.__name__) or f"dlvm.{func.__name__}{inspect.signature(call)}"
        raise _unstaged(f"np.{func.__name__} in this form ({error})", like) from None
    return call(*args, **given)


def _found(name: str, module: str = "np") -> Function:
    found = lookup(OURS.get(name, name))
    if found is None:
        remedy = UNSIZED.get(name) or ADVICE.get(name.rpartition(".")[2]) or instead(name)
        remedy = remedy or near(name, {f"dlvm.{n}": n for n in every_name()}) or ELSEWHERE
        raise _unstaged(f"{module}.{name}", remedy)
    return found


def _unstaged(what: str, remedy: str | None = None) -> TraceError:
    return TraceError(f"{what} can't be staged", origin=user_origin(), remedy=remedy)


PUBLIC["_numpy_ufunc"] = numpy_ufunc
PUBLIC["_numpy_function"] = numpy_function
