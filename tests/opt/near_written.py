"""Windows that are written one by one, near to those that fill an array."""

from __future__ import annotations

from dlvm.ir import Value
from dlvm.ops import Add, Concat, Pad, Slice, Update

from .near_products import Group


def _two(x: Value, first: int = 0) -> Value:
    """Two rows of a matrix."""
    return Slice(x, (first, 0), (2, x.shape[1]), (1, 1))


def _written(x: Value, y: Value, first: int) -> Value:
    """Rows of a matrix, replaced from one on."""
    return Update(x, y, (first, 0), (1, 1))


def _added(x: Value, y: Value, first: int, other: int | None = None) -> Value:
    """Two rows that are added to those that a matrix holds there, or elsewhere."""
    return _written(x, Add(y, _two(x, first if other is None else other)), first)


def _below(x: Value) -> Value:
    """A matrix with two rows of zeros below it."""
    return Pad(x, (0, 0), (2, 0))


WRITTEN: list[Group] = [
    (
        ("n[4,6]", "n[2,3]", "n[4,6]"),
        {
            "halves, the last row not": lambda x, y, z: _written(
                _written(Pad(x, (0, 0), (1, 0)), _two(x), 0), _two(z), 2
            ),
            "halves that overlap": lambda x, y, z: _written(_written(x, _two(z), 0), _two(x), 1),
            "halves of half the width": lambda x, y, z: _written(_written(x, y, 0), y, 2),
            "two thirds, the first not": lambda x, y, z: _written(
                _written(Concat((x, z), 0), _two(z), 2), z, 4
            ),
            "two thirds, the last not": lambda x, y, z: _written(
                _written(Concat((x, z), 0), x, 0), _two(z), 4
            ),
            "added to zeros": lambda x, y, z: _added(_below(x), _two(z), 4),
            "added to another window": lambda x, y, z: _added(_below(x), _two(z), 4, 1),
            "added to a window of another": lambda x, y, z: _written(
                _below(x), Add(_two(Concat((x, z), 0), 4), _two(z)), 4
            ),
            "added to what is no zeros": lambda x, y, z: _added(
                _added(x, _two(z), 0), _two(z, 2), 2
            ),
            "a sum with what is no window": lambda x, y, z: _written(_below(y), Add(y, y), 2),
            "a sum of others": lambda x, y, z: _written(_below(x), Add(_two(z), _two(x)), 4),
        },
    ),
    (
        ("n[N,3]", "n[3,3]"),
        {
            "behind open ones": lambda x, y: Update(
                Update(Concat((x, y), 0), y, (x.shape[0], 0), (1, 1)), x, (0, 0), (1, 1)
            ),
        },
    ),
]
