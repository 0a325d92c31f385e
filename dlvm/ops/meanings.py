"""What functions of one float mean in NumPy; those that NumPy lacks are computed here in f64.

This is how the interpreter runs them, for good digits and not for speed: where Python has the
function it is asked, element by element. It knows nothing of operations or of polynomials.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.ir import Array


def meaning(name: str) -> Callable[[Array], Array]:
    """The function of this name: ours, where NumPy has none."""
    own = OWN.get(name)
    if own is None:
        found: Callable[[Array], Array] = getattr(np, name)
        return found

    def call(x: Array) -> Array:
        wide = np.asarray(x, np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(own(wide)).astype(x.dtype)

    return call


def _each(function: Callable[[float], float]) -> Callable[[Array], Any]:
    """A function of one number on each element."""
    return np.vectorize(function, otypes=[np.float64])


OWN: dict[str, Callable[[Array], Any]] = {
    "erf": _each(math.erf),
    "erfc": _each(math.erfc),
}
