"""Errors for Python that can't be staged: the user's line, and the rewrite of that very line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dlvm.errors import Origin, TraceError

from .scopes import user_origin

if TYPE_CHECKING:
    from .tensor import Tensor

_REWRITES: tuple[tuple[str, str], ...] = (
    (r"^while (?P<c>.+):", "dlvm.while_loop(lambda state: {c}, body, state)"),
    (
        r"^(?:el)?if (?P<c>.+):",
        "dlvm.where({c}, a, b) for values, dlvm.cond({c}, then, otherwise, *xs) for branches",
    ),
    (r"^assert (?P<c>[^,]+)", 'dlvm.assert_({c}, "message")'),
    (r"(?P<a>\w[^=]*?) if (?P<c>.+?) else (?P<b>[^):,]+)", "dlvm.where({c}, {a}, {b})"),
    (r"\bnot (?P<a>[\w.\[\]]+)", "~{a}"),
    (r"(?P<a>[\w.\[\]()]+) and (?P<b>[\w.\[\]()]+)", "({a}) & ({b})"),
    (r"(?P<a>[\w.\[\]()]+) or (?P<b>[\w.\[\]()]+)", "({a}) | ({b})"),
    (r"\bmax\((?P<a>[^,()]+), *(?P<b>[^,()]+)\)", "dlvm.maximum({a}, {b})"),
)


def no_truth(x: Tensor) -> TraceError:
    """Python asked whether a staged value is true."""
    origin = user_origin()
    return TraceError(
        f"{x.describe()} has no truth value while the function is traced",
        origin=origin,
        remedy=f"write {rewritten(origin)}",
    )


def rewritten(origin: Origin) -> str:
    """How the user's line is written on staged values."""
    line = origin.source()
    for pattern, rewrite in _REWRITES:
        if found := re.search(pattern, line):
            return rewrite.format(**{k: v.strip() for k, v in found.groupdict().items()})
    return "dlvm.where(condition, a, b), or dlvm.cond(condition, then, otherwise, *xs)"


def no_number(x: Tensor, what: str) -> TraceError:
    """Python or NumPy wanted the number that a staged value will only have in a call."""
    remedies = {
        "a NumPy array": "dlvm.stack([a, b]) makes one array of staged values; "
        "dlvm.asarray keeps one staged",
        "an index or a size": "x[i] and dlvm.take(x, i) accept staged indices; "
        "a size must be static (static=) or symbolic (x.shape[0])",
    }
    return TraceError(
        f"{x.describe()} can't become {what} while the function is traced",
        origin=user_origin(),
        remedy=remedies.get(what, "keep it as it is, or return it and convert the result"),
    )


def unknown_length(x: Tensor, what: str) -> TraceError:
    """Python wanted to walk along an axis whose size is unknown, or that is not there."""
    reason = "its leading size is a symbol" if x.shape else "it has no axes"
    return TraceError(
        f"{what} over {x.describe()}: {reason}",
        origin=user_origin(),
        remedy="use dlvm.scan or dlvm.map over the leading axis, and x.shape[0] as its size",
    )


def used_after(x: Tensor) -> TraceError:
    """A staged value outlived the trace or the region in which it was made."""
    return TraceError(
        f"a staged value ({x.describe()}) is used after its trace or region has ended",
        origin=user_origin(),
        remedy="return it from the function, and don't store staged values outside",
    )
