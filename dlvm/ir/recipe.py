"""How an array that a program keeps was computed of others: a program of its own.

With the recipe at hand the array need not be written to the disk, and is computed again for other
arrays of the same types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .interpret import Interpreter
from .module import Module
from .types import Array


@dataclass(frozen=True, slots=True)
class Recipe:
    """``main`` of a module, which has one result, on ``arrays``."""

    module: Module
    arrays: tuple[Array, ...]

    def __call__(self, arrays: Sequence[Array] | None = None) -> Array:
        """The array in rows, which nobody can change; of other arrays, where they are given."""
        given = self.arrays if arrays is None else arrays
        with np.errstate(all="ignore"):
            (found,) = Interpreter(self.module).enter(self.module.main.name, given)
        found = np.ascontiguousarray(found).reshape(found.shape)
        found.setflags(write=False)
        return found
