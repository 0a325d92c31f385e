"""How far a run through batches is: a bar of tqdm, or lines in the log where there is no tqdm."""

from __future__ import annotations

import importlib
import logging
import time
from collections.abc import Iterator
from typing import Any

LONGEST = 60.0
"""Seconds between two lines of the log about progress, at most."""


def shown(found: Iterator[Any], start: int, total: int | None) -> Iterator[Any]:
    """The same batches, with a bar of tqdm, or with lines in the log where there is no tqdm."""
    try:
        bar: Any = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return _logged(found, start, total)
    return iter(bar(found, initial=start, total=total, unit="batch"))


def _logged(found: Iterator[Any], start: int, total: int | None) -> Iterator[Any]:
    """Writes a line after a second, and later ones after twice the time, each minute at least.

    They are warnings, which Python shows by default: the caller has asked for them.
    """
    began, due = time.perf_counter(), 1.0
    of = "" if total is None else f" of {total:,}"
    for number, batch in enumerate(found, start + 1):
        yield batch
        if (passed := time.perf_counter() - began) >= due:
            due = passed + min(passed, LONGEST)
            rate = (number - start) / passed
            said = "batch %s%s, %.0f s so far, %.3g batches a second"
            logging.getLogger("dlvm.data").warning(said, f"{number:,}", of, passed, rate)
