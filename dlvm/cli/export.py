"""``dlvm export``: writes a function in the language of another tool."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dlvm.base.errors import UserError

from .naming import add_named, function_written


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = commands.add_parser("export", help="write a function in the language of another tool")
    add_named(parser)
    parser.add_argument("--to", required=True, metavar="FORMAT", help="onnx or stablehlo")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the file to write")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the function to the file, or text to the standard output."""
    from dlvm.exporting.formats import exporter_named
    from dlvm.exporting.program import program_of

    function, given = function_written(options.program, options.arguments)
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
