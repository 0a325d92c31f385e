"""``dlvm.export``: a function in the language of another tool, and the table of such languages.

A format registers an exporter under its name; nothing else has to know of it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.specs import check_function

from .program import program_of

Exporter = Callable[..., "str | bytes"]
"""Writes a program in a format; keywords are the options of the format."""
FORMATS: dict[str, Exporter] = {}
OURS = {"onnx": "dlvm.onnx.exporting.writing", "stablehlo": "dlvm.stablehlo.writing"}
"""Formats whose modules are imported, and register themselves, at their first use."""


def register(name: str, exporter: Exporter) -> None:
    """Makes ``dlvm.export(..., format=name)`` call an exporter."""
    FORMATS[name] = exporter


@facing_users
def export(f: Callable[..., Any], *args: Any, format: str, **options: Any) -> str | bytes:
    """Write a function, a gradient or a training step in the language of another tool.

    ``args`` are arrays or ``dlvm.spec(...)``, as for ``f.compile``; sizes may be open. Captured
    arrays become constants. ``format="stablehlo"`` gives the text of a StableHLO module, which XLA
    and IREE compile; ``format="onnx"`` the bytes of an ONNX file, of version ``opset=18`` of its
    operations. An operation that the format can't say is an error that names it and its
    line.
    """
    check_function(f, "export")
    exporter = exporter_named(format)
    _check_options(format, exporter, options)
    return exporter(program_of(f, args, {}), **options)


def _check_options(format: str, exporter: Exporter, options: dict[str, Any]) -> None:
    """Demands options that the format has."""
    known = [*inspect.signature(exporter).parameters][1:]
    for name in options:
        if name not in known:
            raise ArgumentError(
                f"export: the format {format!r} has no option {name!r}; "
                f"it has {', '.join(known) or 'none'}",
                origin=user_origin(),
                remedy=f"leave out {name}=",
            )


def exporter_named(format: str) -> Exporter:
    """The exporter of a format; an error that lists the formats if there is none."""
    if format in OURS:
        importlib.import_module(OURS[format])
    if format not in FORMATS:
        names = ", ".join(repr(n) for n in sorted({*OURS, *FORMATS}))
        raise ArgumentError(
            f"export: format={format!r}: expected one of {names}",
            origin=user_origin(),
            remedy='write format="stablehlo"',
        )
    return FORMATS[format]
