"""What the operations that make some values say together, for rules that stand on one class.

Operations are known here by their names, so that any class may ask.
"""

from __future__ import annotations

from dlvm.ir import Op, Value
from dlvm.ir.properties import NONE, Properties

from .literals import scalar_value


def is_transpose(x: Value) -> bool:
    """Whether a value is another one with its last two axes exchanged."""
    if not (isinstance(x, Op) and x.name == "permute") or (rank := x.type.rank) < 2:
        return False
    return x.attributes["perm"] == (*range(rank - 2), rank - 1, rank - 2)


def are_transposes(x: Value, y: Value) -> bool:
    """Whether one value is the other with its last two axes exchanged."""
    ways = ((a, b) for a, b in ((x, y), (y, x)) if is_transpose(a))
    return any(isinstance(a, Op) and a.operands[0] is b for a, b in ways)


def outer_properties(x: Value, y: Value) -> Properties:
    """``v v'``, a vector repeated along columns times the same along rows, is semidefinite."""
    if not (isinstance(x, Op) and isinstance(y, Op) and x.name == y.name == "broadcast"):
        return NONE
    rank, same = x.type.rank, x.operands[0] is y.operands[0]
    batch = tuple(range(rank - 2))
    places = {x.attributes["axes"], y.attributes["axes"]}
    outer = same and places == {(*batch, rank - 2), (*batch, rank - 1)}
    return frozenset(("psd",)) if outer else NONE


def mask_properties(relation: str, x: Value, y: Value) -> Properties:
    """The zeros of a mask ``x < y``, ``x <= y`` or ``x == y``, where it says so of places.

    ``column - row <= 0`` is true below and on the diagonal alone, so the mask is lower triangular.
    """
    difference, bound = _difference(x, y)
    if difference is None or bound is None:
        return NONE
    most, least = _range(relation, difference, bound)
    found = {"lower"} if most is not None and most <= 0 else set[str]()
    found |= {"upper"} if least is not None and least >= 0 else set[str]()
    return frozenset({"identity"} if most == least == 0 else found)


def triangles_within(relation: str, x: Value, y: Value) -> Properties:
    """The triangles, with the diagonal, all of which a mask ``x < y`` or ``x <= y`` holds."""
    difference, bound = _difference(x, y)
    if difference is None or bound is None or relation == "eq":
        return NONE
    most, least = _range(relation, difference, bound)
    found = {"lower"} if most is not None and most >= 0 else set[str]()
    return frozenset(found | ({"upper"} if least is not None and least <= 0 else set[str]()))


def _range(relation: str, on_the_left: bool, bound: int) -> tuple[int | None, int | None]:
    """The largest and the least ``column - row`` where the relation holds; None without one."""
    strictly = relation == "lt"
    if relation == "eq":
        return bound, bound
    if on_the_left:
        return bound - strictly, None
    return None, bound + strictly


def _difference(x: Value, y: Value) -> tuple[bool | None, int | None]:
    """Whether ``column - row`` stands on the left, and the number that it is compared with."""
    for value, other, left in ((x, y, True), (y, x, False)):
        number = scalar_value(other)
        if number is None or number.dtype.kind not in "iu":
            continue
        if isinstance(value, Op) and value.name == "sub":
            a, b = value.operands
            if (_counted(a), _counted(b)) == (-1, -2):
                return left, int(number)
    if (_counted(x), _counted(y)) == (-1, -2):
        return True, 0
    return (False, 0) if (_counted(x), _counted(y)) == (-2, -1) else (None, None)


def _counted(value: Value) -> int | None:
    """The axis, from the end, along which a value counts its places in 64 bits."""
    if not (isinstance(value, Op) and value.name == "broadcast" and value.type.rank >= 2):
        return None
    (counts,) = value.operands
    exact = isinstance(counts, Op) and counts.name == "iota" and counts.dtype.bytes == 8
    axes = value.attributes["axes"]
    return axes[0] - value.type.rank if exact and len(axes) == 1 else None
