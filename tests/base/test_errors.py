"""An error of ours is also of the Python class that NumPy raises, so ``except`` clauses hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import TraceError, UserError
from dlvm.dsl.words.names import every_name

X, V = np.ones((2, 3)), np.ones(4)
WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "axis too large": ((X,), {"axis": 5}),
    "axis given twice": ((X,), {"axis": (0, 0)}),
    "shapes that do not broadcast": ((X, V), {}),
    "axis of two arrays": (([X, X],), {"axis": 5}),
    "shapes that do not join": (([X, np.ones((3, 2))],), {}),
    "nothing to join": (([],), {}),
    "a shape that does not fit": ((X, (4, 2)), {}),
    "an axis as second argument": ((X, 7), {}),
    "truth values": ((X > 0,), {}),
    "two arrays of truth values": ((X > 0, X > 0), {}),
    "floats for integers": ((X, X), {}),
    "an unknown method": ((V, 0.5), {"method": "best"}),
    "an unknown mode": ((V, 1), {"mode": "best"}),
    "a share beyond 1": ((V, 1.5), {}),
    "positions beyond the end": ((V, np.array([9])), {}),
    "an unknown side": ((V, V), {"side": "best"}),
}
KINDS = (ValueError, IndexError, TypeError)
OTHERS = ("function", "copy", "trace")
"""Names that mean something else in NumPy."""
NAMES = [n for n in every_name() if callable(getattr(np, n, None)) and n not in OTHERS]


def raised(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Exception | None:
    """What a call raises, if it raises anything."""
    try:
        with np.errstate(all="ignore"):
            f(*args, **kwargs)
    except Exception as error:
        return error
    return None


def staged(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same call in a staged function; lists of arrays and arrays of floats are staged."""
    given = [a for a in args if isinstance(a, np.ndarray) and a.dtype.kind != "i"]

    def body(*arrays: Any) -> Any:
        left = iter(arrays)
        return f(*(next(left) if any(a is g for g in given) else a for a in args), **kwargs)

    return dlvm.function(body)(*given)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_what_numpy_raises_catches_it(name):
    """A number that a staged value will only have in a call is wanted in vain in ours alone."""
    for what, (args, kwargs) in WRONG.items():
        wanted = raised(getattr(np, name), *args, **kwargs)
        kinds = tuple(k for k in KINDS if isinstance(wanted, k))
        if not kinds:
            continue
        ours = getattr(dlvm, name)
        for found in (raised(ours, *args, **kwargs), raised(staged, ours, args, kwargs)):
            if isinstance(found, UserError) and not isinstance(found, TraceError):
                assert isinstance(found, KINDS), f"{what}: NumPy {wanted!r}, here {found!r}"
