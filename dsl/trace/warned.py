"""Warnings about a trace or a compile: ``dlvm.TraceWarning``, with the user's line."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from dlvm.base.errors import Origin, TraceWarning
from dlvm.base.progress import LARGE_PROGRAM
from dlvm.dsl.words.lines import is_tried
from dlvm.ir import Module

from .scopes import user_origin

UNROLLED = LARGE_PROGRAM
"""Operations recorded at one line above which that line is reported as an unrolled loop."""


def warned(message: str, origin: Origin | None) -> None:
    """Warns at a line of the user's; without one, at the line that called dlvm."""
    at = origin or user_origin()
    file, line = (at.file, at.line) if at else ("<unknown>", 0)
    warnings.warn_explicit(message, TraceWarning, file, line)


def swallowed(refused: Sequence[tuple[str, str | None, Origin]], told: set[str]) -> None:
    """Warns once of a refusal that a ``try`` of the user caught, in a trace that has ended."""
    if "swallowed" in told:
        return
    for message, remedy, at in refused:
        if is_tried(at):
            told.add("swallowed")
            help = f"; {remedy}" if remedy else ""
            warned(
                "an except clause of yours catches a refusal of dlvm, so that what it guards is "
                f"never computed: {message}{help}",
                at,
            )
            return


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
