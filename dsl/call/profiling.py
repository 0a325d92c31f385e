"""Profiles and pages of compiled programs: what ``profile`` and ``view`` measure and write.

The methods of compiled functions and the commands of the same names both end here.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.compile import Road
from dlvm.dsl.trace.kinds import shown
from dlvm.ir import Array

from .unrolled import unrolled

if TYPE_CHECKING:
    from dlvm.gen.profile.records import Profile
    from dlvm.viewing.page import Page


def profile_of(road: Road, arrays: Sequence[Array], seconds: float) -> Profile:
    """The profile of the program of a road, measured for about ``seconds``."""
    if not (isinstance(seconds, int | float) and seconds > 0):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"seconds={seconds!r:.40}: expected a number above 0",
            remedy="leave it out to measure for 0.3 seconds",
        )
    timers = road.timers()
    ordinary = _fastest(road, arrays, seconds / 3)
    hints = tuple(map(str, unrolled(road.traced)))
    return replace(timers.measure(arrays, ordinary, seconds), hints=hints)


def page_of(
    road: Road, arrays: Sequence[Array] | None, seconds: float, hidden: Collection[str] = ()
) -> Page:
    """The page of the program of a road, with a profile if there are arrays to call it with.

    Lines of ``hidden`` files are left out.
    """
    from dlvm.viewing.model import model
    from dlvm.viewing.page import page

    profile = None if arrays is None else profile_of(road, arrays, seconds)
    return page(model(road, profile, arrays or (), hidden))


def place_of_page(path: str | PathLike[str] | None) -> Path | None:
    """The file that a page is written to, if there is one."""
    if not isinstance(path, str | PathLike | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UserError(
            f"view: path: expected the name of a file or None, found {shown(path)}",
            remedy="write .view(None, ...) with the arguments after None, or a file in its place",
        )
    return None if path is None else Path(path)


def write_page(path: Path, page: str) -> None:
    """Writes a page; a file that cannot be written is an error of the user's."""
    try:
        path.write_text(page, "utf8")
    except OSError as error:
        raise UserError(
            f"view: expected a file that can be written, found {path}: {error.strerror}",
            remedy="name a file in a folder that exists",
        ) from None


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
