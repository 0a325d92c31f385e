"""``dlvm opt``: prints a program after some passes, and on request after each of them."""

from __future__ import annotations

import argparse
import importlib
import sys
from typing import Any

from dlvm import passes
from dlvm.base.units import duration
from dlvm.compile import passed
from dlvm.ir import Module
from dlvm.passes import Pass

from .describing import subcommand
from .naming import add_fixed, road_named
from .output import program_text
from .show import add_lines, located


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "opt",
        "print a program after some passes",
        'model.py:f "f32[8,3]" --passes simplify,share',
    )
    add_fixed(parser)
    add_passes(parser)
    parser.add_argument(
        "--print-after",
        metavar="NAMES",
        nargs="?",
        const="all",
        default="",
        help="passes to print after; all if none is named",
    )
    add_lines(parser)
    parser.add_argument(
        "--verify-each", action="store_true", help="run the verifier after each pass"
    )
    parser.add_argument(
        "--time",
        action="store_true",
        help="print the time and the number of operations after each pass",
    )
    parser.set_defaults(run=run)


def add_passes(parser: argparse.ArgumentParser) -> None:
    """Adds the option that chooses passes; without it the default pipeline runs."""
    parser.add_argument("--passes", metavar="A,B", help="default: the default pipeline")


def pipeline(names: str | None) -> tuple[Pass, ...]:
    """The passes with these comma-separated names."""
    from dlvm.opt.pipelines import default

    _ = every_pass()
    return default() if names is None else passes.named(names)


def every_pass() -> dict[str, Pass]:
    """All passes by name, after the packages that register them are imported."""
    for room in ("dlvm.ad", "dlvm.opt"):
        importlib.import_module(room)
    return passes.PASSES


def run(options: argparse.Namespace) -> int:
    """Prints the program after the passes; times and intermediate programs go to standard error."""
    chosen = pipeline(options.passes)
    after: list[str] = options.print_after.split(",") if options.print_after else []
    if after and after != ["all"]:
        passes.named(options.print_after)

    def watch(name: str, module: Module, seconds: float) -> None:
        if options.time:
            print(f"{name:20} {duration(seconds):>9} {_ops(module):8} ops", file=sys.stderr)
        if name in after or after == ["all"]:
            text = program_text(located(module, options.lines), sys.stderr)
            print(f"// ---- after {name}\n{text}", file=sys.stderr)

    traced = road_named(options).traced
    done = passed(traced, chosen, watch, options.verify_each or None)
    print(program_text(located(done, options.lines)), end="")
    return 0


def _ops(module: Module) -> int:
    return sum(1 for fn in module.functions for _ in fn.walk())
