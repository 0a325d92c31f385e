"""``dlvm view``: writes a page that shows a program after every pass, down to assembly."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dlvm.dsl.call.profiling import page_of, write_page
from dlvm.dsl.words.origins import user_origin

from .describing import add_out, subcommand
from .inputs import add_inputs, call_named
from .naming import road_named


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "view",
        "write a page that shows a program after every pass, down to assembly",
        'model.py:f "f32[8,3]" --out page.html',
    )
    add_inputs(parser)
    add_out(parser, "the page; default view.html")
    parser.add_argument("--profile", action="store_true", help="call the program and measure it")
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds to measure for")
    parser.set_defaults(run=run, out=Path("view.html"))


def run(options: argparse.Namespace) -> int:
    """Writes the page."""
    outside = user_origin()  # where the program is staged if that is in no line of the script
    hidden = [outside.file] if outside else []
    if options.profile:
        call = call_named(options)
        page = page_of(call.road, call.arrays, options.seconds, hidden)
    else:
        road = road_named(options)
        page = page_of(road, None, options.seconds, hidden)
    write_page(options.out, page)
    print(options.out)
    return 0
