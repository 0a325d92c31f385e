"""How a subcommand describes itself: one sentence, its options, and one example."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLE = "example:"
"""The word in front of the example with which the help of a subcommand ends."""


def subcommand(commands: Any, name: str, help: str, example: str) -> argparse.ArgumentParser:
    """Adds a subcommand; ``example`` is what stands after its name, of the function f(x)."""
    return commands.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"{EXAMPLE} {' '.join(('dlvm', name, *example.split()))}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_out(parser: argparse.ArgumentParser, help: str, metavar: str = "FILE", **more: Any) -> None:
    """Adds the option that says where results go."""
    parser.add_argument("-o", "--out", type=Path, metavar=metavar, help=help, **more)
