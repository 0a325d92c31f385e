"""Racing several ways to compute the same thing: checked first, then timed turn by turn.

Every round times each contender for a few milliseconds, one after the other, so that what the
machine does beside it hits all of them. The figure of a contender is the median of its rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .apart import Apart

Run = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """How long to look: rounds, and the seconds of each contender in a round."""

    rounds: int = 15
    seconds: float = 0.04


QUICK = Effort(5, 0.01)


def race(contenders: Mapping[str, Run], effort: Effort) -> dict[str, float]:
    """The median seconds of one run of each."""
    times = {name: _turns(run, effort.seconds) for name, run in contenders.items()}
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(effort.rounds):
        for name, run in contenders.items():
            rounds[name].append(_timed(run, times[name]) / times[name])
    return {name: statistics.median(found) for name, found in rounds.items()}


def _turns(run: Run, seconds: float) -> int:
    """How many runs fill the time; the first run, which may compile, is not looked at."""
    run()
    once = min(_timed(run, 1) for _ in range(3))
    return max(1, round(seconds / max(once, 1e-7)))


def _timed(run: Run, times: int) -> float:
    if isinstance(run, Apart):
        return run.timed(times)
    start = time.perf_counter()
    for _ in range(times):
        run()
    return time.perf_counter() - start


def check(name: str, found: Any, expected: Any, tolerance: float) -> None:
    """Refuse to time what gives another answer; trees are compared leaf by leaf."""
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        scale = max(1.0, float(np.abs(b).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=name)


def leaves(tree: Any) -> list[Any]:
    """The arrays of nested tuples, lists and dicts."""
    if isinstance(tree, dict):
        return [x for key in sorted(tree) for x in leaves(tree[key])]
    if isinstance(tree, tuple | list):
        return [x for part in tree for x in leaves(part)]
    return [tree]
