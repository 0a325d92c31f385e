"""Profiles of compiled programs: what ``compiled.profile`` and ``dlvm profile`` measure."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.compile import Road
from dlvm.ir import Array

if TYPE_CHECKING:
    from dlvm.gen.profile.records import Profile


def profile_of(road: Road, arrays: Sequence[Array], seconds: float) -> Profile:
    """The profile of the program of a road, measured for about ``seconds``."""
    if not (isinstance(seconds, int | float) and seconds > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"seconds={seconds!r:.40}: expected a number above 0",
            remedy="leave it out to measure for 0.3 seconds",
        )
    timers = road.timers()
    ordinary = _fastest(road, arrays, seconds / 3)
    return timers.measure(arrays, ordinary, seconds)


def _fastest(road: Road, arrays: Sequence[Array], seconds: float) -> float:
    """The time of the fastest ordinary call; the first one is not timed."""
    run: Any = road.executable.run
    run([np.array(a) for a in arrays], _unheard)
    least, end = float("inf"), time.perf_counter() + seconds
    while least == float("inf") or time.perf_counter() < end:
        given = [np.array(a) for a in arrays]
        start = time.perf_counter()
        run(given, _unheard)
        least = min(least, time.perf_counter() - start)
    return least


def _unheard(text: str) -> None:
    """Prints of the measured calls go nowhere."""
