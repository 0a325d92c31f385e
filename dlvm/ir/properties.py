"""Properties of matrices: what they are called, what each implies, and what is known of a value.

A property speaks of the last two axes; leading axes are batches, each matrix of which has it. It is
known or it is not: nothing here says that a matrix lacks one. Each class of operations states in
``Op.properties`` what its result has, given what its operands have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core import Value

Properties = frozenset[str]
Of = Callable[["Value"], Properties]

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
DEPTH = 8
"""How many operations deep a question looks."""


def closed(stated: Iterable[str]) -> Properties:
    """Some properties with all that follow from them."""
    found = set(stated)
    pending = list(found)
    while pending:
        new = set(IMPLIED[pending.pop()]) - found
        found |= new
        pending += new
    triangular = {"lower", "upper"} <= found or (
        "symmetric" in found and found & {"lower", "upper"}
    )
    if triangular and "diagonal" not in found:
        return closed((*found, "diagonal"))
    return frozenset(found)


def known(value: Value, given: Mapping[Value, Properties] | None = None) -> Properties:
    """What is known of a value from how it is made; ``given`` says it of parameters."""
    return _known(value, dict(given or {}), DEPTH)


def _known(value: Value, found: dict[Value, Properties], depth: int) -> Properties:
    """``found`` are the answers of this question; each value is looked at once."""
    if value not in found:
        found[value] = NONE  # where the question comes back to it, or is too deep
        if depth:
            stated = closed(value.properties(lambda x: _known(x, found, depth - 1)))
            found[value] = stated & _possible(value)
    return found[value]


def _possible(value: Value) -> Properties:
    """The properties that a value of this shape may have."""
    if value.type.rank < 2:
        return frozenset(("nonnegative",))
    square = value.shape[-1] == value.shape[-2]
    return frozenset(IMPLIED) if square else frozenset(IMPLIED) - SQUARE
