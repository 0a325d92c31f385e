"""What is known of a value as a matrix, from the operations that make it.

Values never change, so what is known of one is found once and kept with it. Nothing recurses over
the length of a program.
"""

from __future__ import annotations

from .core import Op, Part, Value
from .properties import IMPLIED, NONE, SQUARE, Properties, closed

EVERY = frozenset(IMPLIED)
MATRIX = EVERY - SQUARE
SIGNS = frozenset(("nonnegative",))


class OnValues:
    """What is known of values where nothing is given; each value keeps its own."""

    def __contains__(self, value: Value) -> bool:
        return value.found_properties is not None

    def __getitem__(self, value: Value) -> Properties:
        return value.found_properties or NONE

    def __setitem__(self, value: Value, found: Properties) -> None:
        value.found_properties = found


Facts = OnValues | dict[Value, Properties]


def properties_of(value: Value, given: dict[Value, Properties] | None = None) -> Properties:
    """What is known of a value from how it is made.

    ``given`` says it of parameters, and takes up what is found of all else under that condition.
    """
    facts: Facts = OnValues() if given is None else given
    if value not in facts:
        _find(value, facts)
    return facts[value]


def _find(value: Value, facts: Facts) -> None:
    """Finds what is known of a value, and of all that it is made of, operands first."""
    pending = [value]
    while pending:
        v = pending[-1]
        missing = [x for x in _sources(v) if x not in facts]
        if missing:
            pending += missing
            continue
        pending.pop()
        if v not in facts:
            stated = v.properties(facts.__getitem__)
            facts[v] = closed(stated) & _possible(v) if stated else NONE


def _sources(value: Value) -> tuple[Value, ...]:
    """The operands of the operation that makes a value."""
    if isinstance(value, Part):
        return value.op.operands
    return value.operands if isinstance(value, Op) else ()


def _possible(value: Value) -> Properties:
    """The properties that a value of this shape may have."""
    if value.type.rank < 2:
        return SIGNS
    return EVERY if value.shape[-1] == value.shape[-2] else MATRIX
