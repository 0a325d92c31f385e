"""Which ranks have their pieces in this process: the one place that says so."""

from __future__ import annotations

from collections.abc import Sequence


def held(size: int) -> Sequence[int]:
    """The ranks, of ``size`` in all, whose pieces this process has; ``Sharded.pieces`` has these.

    The ranks of a simulated mesh are threads of one process, which has all pieces.
    """
    return range(size)
