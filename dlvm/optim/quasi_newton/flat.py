"""The float leaves of a tree as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.operands import plain, shape_of
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import Spec, flatten_with_none, unflatten
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import cast, element_type, is_float, same, wide, widest


@dataclass(frozen=True)
class Layout:
    """Where the leaves of some parameters lie in a vector, in the widest of their types."""

    spec: Spec
    leaves: tuple[Any, ...]

    def vector(self, tree: Any) -> Any:
        """The leaves of a tree of this structure where the parameters have floats."""
        found, _ = flatten_with_none(tree)
        pairs = zip(found, self.leaves, strict=True)
        pieces = [xp.reshape(wide(x), (-1,)) for x, p in pairs if is_float(p)]
        dtype = widest(pieces)
        return xp.concat([cast(p, dtype) for p in pieces])

    def tree(self, vector: Any, fill: bool = False) -> Any:
        """The tree of a vector; where there is no float the parameter with ``fill``, else None."""
        start, made = 0, list[Any]()
        for p in self.leaves:
            if not is_float(p):
                made.append(p if fill else None)
                continue
            shape = shape_of(p)
            end = start + math.prod(shape)
            made.append(same(cast(xp.reshape(vector[start:end], shape), element_type(p))))
            start = end
        return unflatten(self.spec, made)

    def zeros(self) -> Any:
        """Zeros in the place of each float, each leaf an array of its own."""
        made = [xp.zeros_like(p) if is_float(p) else None for p in self.leaves]
        return unflatten(self.spec, made)


def layout(what: str, params: Any) -> Layout:
    """The layout of some parameters, of which one has to be a float."""
    leaves, spec = flatten_with_none(params)
    if not any(map(is_float, leaves)):
        raise ArgumentError(
            f"{what}: the parameters have no float leaf",
            origin=user_origin(),
            remedy="pass parameters among which there is an array of floats",
        )
    return Layout(spec, tuple(x if x is None else plain(x) for x in leaves))


def dot(x: Any, y: Any) -> Any:
    """The inner product of two vectors."""
    return same(xp.sum(x * y))


def rows(vector: Any, others: Any) -> Any:
    """A matrix with a vector as its first row, and all but the last of the rows it had."""
    return xp.concat([xp.reshape(vector, (1, -1)), others[:-1]])


def largest(pieces: Sequence[Any]) -> Any:
    """The largest magnitude of an element."""
    return same(reduce(xp.maximum, [xp.max(xp.abs(x)) for x in pieces]))
