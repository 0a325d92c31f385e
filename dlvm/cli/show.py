"""``dlvm show``: prints a program at one stage of the compiler, or at all of them."""

from __future__ import annotations

import argparse
from typing import Any

from dlvm.compile import STAGES

from .naming import add_named, add_schedule, road_named
from .output import coloured


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = commands.add_parser("show", help="print a program at one stage of the compiler")
    add_named(parser)
    parser.add_argument("--stage", choices=(*STAGES, "all"), default="traced")
    add_schedule(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the text of the stage."""
    road = road_named(options.program, options.arguments, options.schedule)
    if options.stage != "all":
        print(road.text(options.stage), end="")
        return 0
    for stage in STAGES:
        print(coloured(f"// ---- {stage}", "bold"))
        print(road.text(stage))
    return 0
