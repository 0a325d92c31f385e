"""``dlvm opt``: a program after some passes, with a look in between."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

from dlvm import passes
from dlvm.compile import passed
from dlvm.ir import Module
from dlvm.passes import Pass

from .naming import add_named, road_named
from .output import duration


def add(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser("opt", help="a program after some passes")
    add_named(parser)
    add_passes(parser)
    parser.add_argument(
        "--print-after", metavar="NAMES", default="", help="passes to print after, or all"
    )
    parser.add_argument(
        "--verify-each", action="store_true", help="check the rules after each pass"
    )
    parser.add_argument("--time", action="store_true", help="time and size after each pass")
    parser.set_defaults(run=run)


def add_passes(parser: argparse.ArgumentParser) -> None:
    """Which passes: those named, or the default pipeline."""
    parser.add_argument("--passes", metavar="A,B", help="the default pipeline if left out")


def pipeline(names: str | None) -> tuple[Pass, ...]:
    """The passes of a list of names."""
    from dlvm.opt.pipelines import DEFAULT

    _ = every_pass()
    return DEFAULT if names is None else passes.named(names)


def every_pass() -> dict[str, Pass]:
    """The passes by name; they are registered where they are written."""
    for room in ("dlvm.ad", "dlvm.opt"):
        importlib.import_module(room)
    return passes.PASSES


def run(options: argparse.Namespace) -> int:
    """Print the result; what is said on the way goes to the standard error."""
    chosen = pipeline(options.passes)
    after: list[str] = options.print_after.split(",") if options.print_after else []
    if after and after != ["all"]:
        passes.named(options.print_after)

    def watch(name: str, module: Module, seconds: float) -> None:
        if options.time:
            print(f"{name:20} {duration(seconds):>9} {_ops(module):8} ops", file=sys.stderr)
        if name in after or after == ["all"]:
            print(f"// ---- after {name}\n{module}", file=sys.stderr)

    traced = road_named(options.program, options.arguments).traced
    print(passed(traced, chosen, watch, options.verify_each or None), end="")
    return 0


def _ops(module: Module) -> int:
    return sum(1 for fn in module.functions for _ in fn.walk())
