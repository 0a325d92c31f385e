"""Trees of arrays: dicts, lists, tuples, NamedTuples, dataclasses and None, as one value.

A path is a tuple of the keys, positions and names of fields that lead to a leaf:
``("blocks", 0, "qkv")``. Functions with a tree as result keep None and configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm.dsl.trace.suggestions import reader

from .joined import ravel, stack, unstack
from .mapping import (
    flatten,
    leaves,
    leaves_with_path,
    map,
    map_with_path,
    reduce,
    structure,
    unflatten,
)
from .parts import at, combine, equal, partition

__all__ = [
    "at",
    "combine",
    "equal",
    "flatten",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "partition",
    "ravel",
    "reduce",
    "stack",
    "structure",
    "unflatten",
    "unstack",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = reader(__name__, __all__)
