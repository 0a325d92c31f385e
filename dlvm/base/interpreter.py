"""Which Python interpreters dlvm runs in: those whose lock lets one thread run Python at a time."""

from __future__ import annotations

import sys


def check_interpreter() -> None:
    """Refuse a free-threaded Python that runs without its lock.

    The caches of programs are read by several threads, and only
    Python's lock keeps those reads whole.
    Python never lets go of the lock again once it has it, so that one look at import is enough.
    """
    enabled = getattr(sys, "_is_gil_enabled", None)
    if enabled is None or enabled():
        return
    raise ImportError(
        "dlvm needs Python's global lock (the GIL), found a free-threaded Python that runs without "
        "it\n  help: set PYTHON_GIL=1 in the environment, or start Python with -X gil=1",
        name="dlvm",
    )
