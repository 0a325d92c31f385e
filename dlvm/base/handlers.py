"""Which exceptions come from the user's signal handlers, which Python calls between any two lines.

Such an exception, of a time limit for example, passes through the compiler and belongs to the user.
"""

from __future__ import annotations

import signal
from types import CodeType


def raised_by_handler(error: BaseException) -> bool:
    """Whether a signal handler that is installed now has raised an exception."""
    codes, at = _codes(), error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in codes:
            return True
        at = at.tb_next
    return False


def _codes() -> set[CodeType]:
    """The code of every signal handler that is a function, a method or an object with a call."""
    found = map(signal.getsignal, signal.valid_signals())
    functions = (h if hasattr(h, "__code__") else type(h).__call__ for h in found if callable(h))
    codes = (getattr(f, "__code__", None) for f in functions)
    return {c for c in codes if isinstance(c, CodeType)}
