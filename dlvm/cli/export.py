"""``dlvm export``: writes a function in the language of another tool."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from dlvm.base.errors import UserError

from .describing import add_out, subcommand
from .naming import add_fixed, function_written


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "export",
        "write a function in the language of another tool",
        'model.py:f "f32[8,3]" --to stablehlo',
    )
    add_fixed(parser)
    parser.add_argument("--to", required=True, metavar="FORMAT", help="onnx or stablehlo")
    add_out(parser, "the file to write")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the function to the file, or text to the standard output."""
    from dlvm.exporting.formats import exporter_named
    from dlvm.exporting.program import program_of

    function, given = function_written(options)
    exporter = exporter_named(options.to)
    found = exporter(program_of(function, given.given, given.named))
    if options.out is None:
        _print(found)
    elif isinstance(found, bytes):
        options.out.write_bytes(found)
    else:
        options.out.write_text(found, "utf8")
    return 0


def _print(found: str | bytes) -> None:
    if isinstance(found, str):
        sys.stdout.write(found)
        return
    if sys.stdout.isatty():
        raise UserError("this format is no text", remedy="name a file with --out")
    sys.stdout.buffer.write(found)
