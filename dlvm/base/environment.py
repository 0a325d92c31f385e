"""Every environment variable that dlvm reads, in one table; ``docs/environment.md`` shows it.

Variables are read when they are needed, not at import, so a program may set them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal

from .errors import UserError

VARIABLES = {
    "DLVM_CACHE": "`0` keeps no compiled code on disk and reads none",
    "DLVM_CACHE_BYTES": "how much of the disk the cache may take, 1 GiB where it is not set",
    "DLVM_CACHE_DIR": "where compiled code is kept, instead of the user's cache directory",
    "DLVM_CHECK": "what `dlvm.debug` looks at in every call: `nans`, `infs`, `bounds`, with commas",
    "DLVM_INTERPRET": "`1` runs staged code by the NumPy references of the operations",
    "DLVM_REPRO": "the folder of the reproducers of failures of dlvm itself, instead of one in the "
    "user's cache directory; `0` writes none",
    "DLVM_THREADS": "how many threads functions use whose `threads=` says nothing; else one or "
    "every core, whichever a call finds faster",
    "DLVM_VERIFY": "`ir` (or `1`) checks the program after every pass; `passes` also compares what "
    "it means before and after, down to machine code, on random arguments",
    "NO_COLOR": "set to anything, the command `dlvm` uses no colour",
}


_environ: Any = os.environ
_raw: dict[Any, Any] = getattr(_environ, "_data", _environ)  # a look at each call must be quick


def value(name: str) -> str:
    """What a variable of the table is set to, or nothing."""
    return os.environ.get(name, "") if name in VARIABLES else _undocumented(name)


def switch(name: str) -> Callable[[], bool]:
    """A quick look whether a variable that is off by default is on now."""
    key = name if _raw is _environ else _environ.encodekey(name)
    get, off = _raw.get, (None, "", "0", b"", b"0")
    return lambda: get(key) not in off


def enabled(name: str) -> bool:
    """Whether a variable that is off by default is on."""
    return value(name) not in ("", "0")


def verifying() -> Literal["", "ir", "passes"]:
    """How much ``DLVM_VERIFY`` asks to be verified."""
    match value("DLVM_VERIFY"):
        case "" | "0":
            return ""
        case "1" | "ir":
            return "ir"
        case "passes":
            return "passes"
        case other:
            raise UserError(
                f"DLVM_VERIFY={other!r}: expected ir or passes", remedy="unset it to verify nothing"
            )


def _undocumented(name: str) -> str:
    raise LookupError(f"{name} does not stand in the table of environment variables")
