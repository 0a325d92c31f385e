"""The arguments that a function changes whose code is not read: ``out=``, and first arguments.

A change of captured state is an error, which names the line; that of a function written in C is
known by the name of the function only.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# What is looked at here are functions of any kind.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .abstract_values import NOTHING, Place, Value, flat, union
from .whose_code import home_of, own_names

_FIRST = {
    "numpy": "copyto put place putmask fill_diagonal put_along_axis",
    "_operator": "setitem delitem iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow "
    "irshift isub itruediv ixor",
    "_heapq": "heappush heappop heapify heapreplace heappushpop",
    "_bisect": "insort insort_left insort_right",
}
"""Functions that change their first argument, by the package that they come from."""
_CHANGING = {(home, name) for home, names in _FIRST.items() for name in names.split()}


def changed(fn: Any, args: Sequence[Value], named: Mapping[str, Value], method: str = "") -> Value:
    """What may be changed by a call of a function in C, or of its method: empty for most."""
    if isinstance(fn, np.ufunc) and method == "at":
        return flat(union(args[:1]))
    out = [named.get("out", NOTHING)]
    if isinstance(fn, np.ufunc):
        out += args[fn.nin :]
    if (home_of(fn), getattr(fn, "__name__", "")) in _CHANGING:
        out += args[:1]
    return flat(union(out))


def texts_in(values: Sequence[Value]) -> list[str]:
    """The texts among what some values may be."""
    return sorted(
        {t.value for x in values for t in x if isinstance(t, Place) and isinstance(t.value, str)}
    )


def texts_of(x: Value) -> list[str]:
    """The texts that a value may be; none where it may be anything else."""
    found = texts_in([x])
    return found if len(found) == len(x) else []


def names_of(x: Value) -> list[str]:
    """The attributes that the objects have which a value may be."""
    return sorted({n for t in x if isinstance(t, Place) for n in own_names(t.value)})
