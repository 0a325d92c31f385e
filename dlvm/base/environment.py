"""Every environment variable that dlvm reads, in one table, which ``docs/environment.md`` shows.

A variable is read when it is needed, not at import, so a program may set it while it runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, Literal

from .errors import UserError

VARIABLES = {
    "DLVM_CACHE": "`0` keeps no compiled code on disk and reads none",
    "DLVM_CACHE_BYTES": "the size limit of the cache on disk, in bytes; 1 GiB if it is not set",
    "DLVM_CACHE_DIR": "where compiled code is kept, instead of the user's cache directory",
    "DLVM_CHECK": "the checks of `dlvm.debug` in every call: `nans`, `infs`, `bounds`, with commas",
    "DLVM_DUMP": "a folder into which every program that is compiled is written: why, its source, "
    "its stages also as a page, its times, and a page that lists all programs",
    "DLVM_INTERPRET": "`1` runs staged code by the NumPy references of the operations",
    "DLVM_LOG": "`compiles` writes a line to the standard error for each program that is compiled",
    "DLVM_MPI": "the library of MPI that ranks of a mesh use, instead of `libmpi_abi.so.1`",
    "DLVM_NOTES": "a folder where each rank of a mesh notes how far it is; `dlvm launch` sets it",
    "DLVM_PROGRESS": "`0` shows no line about a compile that takes more than 2 s; there is one "
    "only at a terminal and in notebooks",
    "DLVM_REPRO": "the folder for reproducers of failures of dlvm itself, instead of one in the "
    "user's cache directory; `0` writes none",
    "DLVM_THREADS": "how many threads functions use whose `threads=` says nothing; else one or "
    "every core, whichever a call finds faster",
    "DLVM_VERIFY": "`ir` (or `1`) verifies the program after every pass; `passes` also compares "
    "results before and after, down to machine code, on random arguments; `state` traces again at "
    "each call, and is an error where the function has become another one; `ranks` compares what "
    "ranks of a mesh should have alike; several with commas",
    "NO_COLOR": "if it is set to any text, the command `dlvm` uses no colour",
}


_environ: Any = os.environ
_raw: dict[Any, Any] = getattr(_environ, "_data", _environ)  # read on each call, so it must be fast


def value(name: str) -> str:
    """The value of a variable in the table, or an empty string if it is not set."""
    return os.environ.get(name, "") if name in VARIABLES else _undocumented(name)


def of_child(**more: str) -> dict[str, str]:
    """The environment for a process that is started, with more variables where they are not set."""
    return {**more, **os.environ}


def set_for(package: str, name: str, text: str) -> None:
    """Sets a variable that a package reads at its import, unless it is set or imported already."""
    if package not in sys.modules:
        os.environ.setdefault(name, text)


def switch(name: str) -> Callable[[], bool]:
    """A fast function that tells whether a variable, off by default, is on now."""
    key = name if _raw is _environ else _environ.encodekey(name)
    get, off = _raw.get, (None, "", "0", b"", b"0")
    return lambda: get(key) not in off


def enabled(name: str) -> bool:
    """Whether a variable that is off by default is on."""
    return value(name) not in ("", "0")


def verifying() -> Literal["", "ir", "passes"]:
    """How far ``DLVM_VERIFY`` requests that what passes do is verified."""
    asked = _verified()
    return "passes" if "passes" in asked else "ir" if asked & {"1", "ir"} else ""


def auditing() -> bool:
    """Whether ``DLVM_VERIFY`` requests that functions are traced again at each call."""
    return "state" in _verified()


LAUNCHERS = ("PMI_RANK", "PMI_ID", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
"""Variables that launchers of MPI set for each process."""


def launched() -> bool:
    """Whether a launcher of MPI has started this process."""
    return any(name in os.environ for name in LAUNCHERS)


def comparing_ranks() -> bool:
    """Whether ``DLVM_VERIFY`` requests that what ranks of a mesh should have alike is compared."""
    return "ranks" in _verified()


def _verified() -> frozenset[str]:
    asked = frozenset(filter(None, value("DLVM_VERIFY").split(",")))
    if unknown := asked - {"0", "1", "ir", "passes", "ranks", "state"}:
        raise UserError(
            f"DLVM_VERIFY={min(unknown)!r}: expected ir, passes, ranks or state",
            remedy="unset DLVM_VERIFY to verify nothing",
        )
    return asked


def logging_compiles() -> bool:
    """Whether ``DLVM_LOG`` requests a line for each compile."""
    match value("DLVM_LOG"):
        case "" | "0":
            return False
        case "compiles":
            return True
        case other:
            raise UserError(
                f"DLVM_LOG={other!r}: expected compiles", remedy="unset DLVM_LOG to log nothing"
            )


def _undocumented(name: str) -> str:
    raise LookupError(f"{name} is not in the table of environment variables")
