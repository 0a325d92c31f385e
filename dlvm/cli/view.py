"""``dlvm view``: writes a page that shows a program after every pass, down to assembly."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dlvm.dsl.call.profiling import page_of

from .inputs import add_inputs, call_named
from .naming import road_named


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = commands.add_parser(
        "view", help="write a page that shows a program after every pass, down to assembly"
    )
    add_inputs(parser)
    parser.add_argument(
        "-o", "--out", type=Path, metavar="FILE", help="the page; default view.html"
    )
    parser.add_argument("--profile", action="store_true", help="call the program and measure it")
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds to measure for")
    parser.set_defaults(run=run, out=Path("view.html"))


def run(options: argparse.Namespace) -> int:
    """Writes the page."""
    if options.profile:
        call = call_named(options)
        page_of(call.road, call.arrays, options.seconds, options.out)
    else:
        road = road_named(options.program, options.arguments, options.schedule)
        page_of(road, None, options.seconds, options.out)
    print(options.out)
    return 0
