"""Where the constants of compiled code come from: from the trace, from a recipe, or from nowhere.

Constants of a trace, and what is computed of them, are not written to the disk: a process that has
traced has the former and computes the latter. Code whose large constants all come from there
serves any other ones of the same types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from dlvm.ir import Array, Module, parse
from dlvm.ir.recipe import Recipe
from dlvm.ir.types import DIGESTED, contents
from dlvm.ops.literals import constant_array, unread

Origin: TypeAlias = "list[Any]"
"""Positions of known arrays, then the text of a recipe if it is computed of them; or nothing."""


class Known:
    """The large constants of a trace, numbered alike in all traces that are equal but for them."""

    def __init__(self, traced: Module) -> None:
        self.arrays: list[Array] = []
        self._places: dict[Any, int] = {}
        for fn in traced.functions:
            for op in fn.walk():
                array = constant_array(op)
                if array is not None and _is_large(array):
                    self._places.setdefault(_key(array), len(self._places))
                    self.arrays += [array] * (len(self._places) - len(self.arrays))

    def origin(self, array: Array, recipe: Recipe | None) -> Origin:
        """Where a constant comes from, which may have a recipe."""
        if recipe is None:
            place = self._place(array)
            return [] if place is None else [place]
        places = [self._place(a) for a in recipe.arrays]
        return [] if None in places else [*places, str(recipe.module)]

    def _place(self, array: Array) -> int | None:
        return self._places.get(_key(array)) if _is_large(array) else None

    def array(self, origin: Origin) -> Array:
        """The constant that comes from there."""
        places = [place for place in origin if isinstance(place, int)]
        arrays = tuple(self.arrays[place] for place in places)
        return arrays[0] if len(places) == len(origin) else Recipe(parse(origin[-1]), arrays)()


def _is_large(array: Array) -> bool:
    return array.nbytes > DIGESTED or unread(array)


def _key(array: Array) -> Any:
    """Equal for what the text of a trace says to be equal."""
    return array.dtype.str, array.shape, contents(array)


def serves_others(kernels: Module, constants: Iterable[Array], origins: Sequence[Origin]) -> bool:
    """Whether code depends on no element of a constant that is ``unread``.

    That is so if each such constant comes from known arrays and none is part of a kernel's code.
    """
    given = zip(constants, origins, strict=True)
    if not all(origin or not unread(array) for array, origin in given):
        return False
    regions = (r for fn in kernels.functions for op in fn.ops for r in op.regions.values())
    inside = (constant_array(op) for region in regions for op in region.walk())
    return not any(array is not None and unread(array) for array in inside)
