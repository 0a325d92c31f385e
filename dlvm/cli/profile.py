"""``dlvm profile``: shows where the time and the memory of a call go, by kernels and lines."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from dlvm.dsl.call.profiling import profile_of

from .describing import subcommand
from .inputs import add_inputs, call_named
from .output import print_json


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "profile",
        "show where the time and the memory of a call go, by kernels and lines",
        'model.py:f "f32[8,3]" --trace line.json',
    )
    add_inputs(parser)
    parser.add_argument("--seconds", type=float, default=0.3, help="seconds to measure for")
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write a time line for Perfetto",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the profile, or writes its time line."""
    call = call_named(options)
    profile = profile_of(call.road, call.arrays, options.seconds)
    if options.trace is not None:
        options.trace.write_text(json.dumps(profile.trace()), "utf8")
    if options.json:
        print_json(profile.to_dict())
    else:
        print(profile)
    return 0
