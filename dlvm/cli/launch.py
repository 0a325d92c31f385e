"""``dlvm launch``: runs a script as ranks of MPI, and starts it again after one was killed."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from dlvm.base.errors import UserError
from dlvm.launch.on_ray import Cluster
from dlvm.launch.places import Here
from dlvm.launch.restarts import Ranks, launched
from dlvm.launch.starts import Started

from .describing import subcommand


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "launch",
        "run a script as ranks of MPI, again after one was killed",
        "--ranks 1:2 model.py",
    )
    parser.add_argument(
        "--ranks",
        type=_ranks,
        required=True,
        metavar="N",
        help="4, or 2:8 for as many as there is room for",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=3,
        metavar="N",
        help="starts after a rank was killed; default 3",
    )
    parser.add_argument(
        "--logs", type=Path, metavar="FOLDER", help="a file for each rank; only rank 0 is shown"
    )
    parser.add_argument(
        "--stuck", type=_seconds, metavar="SECONDS", help="kill a rank that others wait for"
    )
    parser.add_argument("--ray", action="store_true", help="on a cluster of Ray")
    parser.add_argument("--address", help="that of a cluster of Ray; default a new one, here only")
    parser.add_argument("script", help="a file of Python")
    parser.add_argument("given", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs the script to its end; its exit code is that of the rank that ended it."""
    if not Path(options.script).is_file():
        raise UserError(
            f"expected a file of Python to run, found no {options.script}",
            remedy="give its path after the options of dlvm launch",
        )
    if options.address and not options.ray:
        raise UserError("--address is that of a cluster of Ray", remedy="give --ray as well")
    place = Cluster(options.address) if options.ray else Here()
    try:
        job = Started(place, options.script, options.given, options.stuck)
        return launched(job, options.ranks, options.restarts, options.logs)
    finally:
        place.close()


def _ranks(text: str) -> Ranks:
    least, colon, most = text.partition(":")
    try:
        found = Ranks(int(least), int(most if colon else least))
    except ValueError:
        found = Ranks(0, 0)
    if not 1 <= found.least <= found.most:
        raise argparse.ArgumentTypeError(f"expected 4, or 2:8 for 2 to 8 ranks, found {text}")
    return found


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, found {text}")
    return found
