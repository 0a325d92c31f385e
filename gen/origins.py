"""Where the constants of compiled code come from: from the trace, from a recipe, or from nowhere.

Constants of a trace, and what is computed of them, are not written to the disk: a process that has
traced has the former and computes the latter. Code whose large constants all come from there
serves any other ones of the same types.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from dlvm.ir import Array, Module, Op, parse
from dlvm.ir.properties import NONE, Properties
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
        self._unread: dict[Any, Properties] = {}
        read: set[Any] = set()
        for fn in traced.functions:
            for op in fn.walk():
                if (array := constant_array(op)) is not None:
                    self._add(op, array, read)
        for key in read & self._unread.keys():
            del self._unread[key]

    def _add(self, op: Op, array: Array, read: set[Any]) -> None:
        key = _key(array)
        if unread(op):
            self._unread[key] = op.properties(lambda value: NONE)
        else:
            read.add(key)
        if key not in self._places and (unread(op) or array.nbytes > DIGESTED):
            self._places[key] = len(self.arrays)
            self.arrays.append(array)

    def told(self, array: Array) -> bytes:
        """What a program depends on of a constant: of one that is unread, what laws may ask."""
        found = self._unread.get(_key(array))
        return contents(array) if found is None else " ".join(sorted(found)).encode()

    def origin(self, array: Array, recipe: Recipe | None) -> Origin:
        """Where a constant comes from, which may have a recipe."""
        if recipe is None:
            place = self._places.get(_key(array))
            return [] if place is None else [place]
        places = [self._places.get(_key(a)) for a in recipe.arrays]
        return [] if None in places else [*places, str(recipe.module)]

    def array(self, origin: Origin) -> Array:
        """The constant that comes from there."""
        places = [place for place in origin if isinstance(place, int)]
        arrays = tuple(self.arrays[place] for place in places)
        return arrays[0] if len(places) == len(origin) else Recipe(parse(origin[-1]), arrays)()

    def serves_others(
        self,
        kernels: Module,
        constants: Iterable[Array],
        recipes: Mapping[int, Recipe],
        origins: Sequence[Origin],
    ) -> bool:
        """Whether code depends on no element of a constant that is unread.

        That is so if what is computed of them comes from known arrays, and if none of both is part
        of a kernel's code.
        """
        given = zip(constants, origins, strict=True)
        if not all(origin or id(array) not in recipes for array, origin in given):
            return False
        regions = (r for fn in kernels.functions for op in fn.ops for r in op.regions.values())
        inside = (constant_array(op) for region in regions for op in region.walk())
        return not any(
            array is not None and (id(array) in recipes or _key(array) in self._unread)
            for array in inside
        )


def _key(array: Array) -> Any:
    """Equal for what the text of a trace says to be equal."""
    return array.dtype.str, array.shape, contents(array)
