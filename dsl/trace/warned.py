"""Warnings about a trace or a compile: ``dlvm.TraceWarning``, with the user's line."""

from __future__ import annotations

import warnings
from collections import Counter

from dlvm.base.errors import Origin, TraceWarning
from dlvm.base.progress import LARGE_PROGRAM
from dlvm.ir import Module

from .scopes import user_origin

UNROLLED = LARGE_PROGRAM
"""Operations recorded at one line above which that line is reported as an unrolled loop."""


def warned(message: str, origin: Origin | None) -> None:
    """Warns at a line of the user's; without one, at the line that called dlvm."""
    at = origin or user_origin()
    file, line = (at.file, at.line) if at else ("<unknown>", 0)
    warnings.warn_explicit(message, TraceWarning, file, line)


def unrolled(label: str, module: Module, told: set[str]) -> None:
    """Warns once about a trace in which one line has recorded thousands of operations."""
    if "unrolled" in told or module.operations() < UNROLLED:
        return
    lines = Counter(
        (op.origin.file, op.origin.line) for fn in module.functions for op in fn.ops if op.origin
    )
    (file, line), count = lines.most_common(1)[0] if lines else (("", 0), 0)
    if count < UNROLLED:
        return
    told.add("unrolled")
    warned(
        f"{label} records {count} operations at this line, once for each trip of a Python loop; "
        "compiling takes longer with each of them: write dlvm.fori_loop or dlvm.scan, which "
        "compile the body once",
        Origin(file, line),
    )
