"""Properties of matrices: what they are called, and what each implies.

A property speaks of the last two axes; leading axes are batches, each matrix of which has it. It is
known or it is not: nothing here says that a matrix lacks one. Each class of operations states in
``Op.properties`` what its result has, given what its operands have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Properties = frozenset[str]
Of = Callable[[Any], Properties]
"""What tells the properties of a value."""

NONE: Properties = frozenset()
IMPLIED: Mapping[str, tuple[str, ...]] = {
    "symmetric": (),
    "psd": ("symmetric",),
    "spd": ("psd",),
    "lower": (),
    "upper": (),
    "diagonal": ("symmetric", "lower", "upper"),
    "orthogonal": (),
    "identity": ("diagonal", "orthogonal", "spd", "nonnegative"),
    "nonnegative": (),
}
"""Every property, and those that follow from it.

``psd`` is positive semidefinite, ``spd`` definite. A Gram
matrix ``A A'`` is semidefinite alone: one of less than full rank has no Cholesky factor.
"""
SQUARE = frozenset(IMPLIED) - {"nonnegative", "lower", "upper"}
"""Those that only square matrices have."""


def closed(stated: Iterable[str]) -> Properties:
    """Some properties with all that follow from them."""
    properties = set(stated)
    pending = list(properties)
    while pending:
        new = set(IMPLIED[pending.pop()]) - properties
        properties |= new
        pending += new
    triangular = {"lower", "upper"} <= properties or (
        "symmetric" in properties and properties & {"lower", "upper"}
    )
    if triangular and "diagonal" not in properties:
        return closed((*properties, "diagonal"))
    return frozenset(properties)
