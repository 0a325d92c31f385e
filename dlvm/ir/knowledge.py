"""What is known of a value as a matrix, from the operations that make it.

A question looks a few operations deep, asks every value once, and is answered anew each time: there
is no table that a rewrite would have to keep.
"""

from __future__ import annotations

from collections.abc import Mapping

from .core import Value
from .properties import IMPLIED, NONE, SQUARE, Properties, closed

DEPTH = 8
"""How many operations deep a question looks."""


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
