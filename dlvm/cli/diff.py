"""``dlvm diff``: shows what each pass changed, on the terminal or on an HTML page."""

from __future__ import annotations

import argparse
import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlvm.compile import expand, passed
from dlvm.ir import Module

from .describing import subcommand
from .naming import add_fixed, road_named
from .opt import add_passes, pipeline
from .output import coloured
from .page import page

CONTEXT = 2


@dataclass(frozen=True)
class Step:
    """A program before and after one pass."""

    name: str
    before: str
    after: str

    def difference(self, context: int = CONTEXT) -> list[str]:
        """The removed and added lines, with lines of context around them."""
        lines = (self.before.splitlines(), self.after.splitlines())
        return list(difflib.unified_diff(*lines, n=context, lineterm=""))[2:]


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "diff",
        "show what each pass changed",
        'model.py:f "f32[8,3]" --html page.html',
    )
    add_fixed(parser)
    add_passes(parser)
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write an HTML page that steps through the passes"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the differences, or writes the page."""
    road = road_named(options)
    found = steps(road.traced, options.passes)
    if options.html is not None:
        options.html.write_text(page(options.program, found), "utf8")
        return 0
    for step in found:
        changed = step.difference()
        print(coloured(f"==== {step.name}" + ("" if changed else ": no change"), "bold"))
        for line in changed:
            print(coloured(line, _colour(line)) if _colour(line) else line)
    return 0


def steps(traced: Module, names: str | None) -> list[Step]:
    """The program before and after the expansion of derivatives and each pass."""
    stages: list[Step] = []
    now = str(traced)

    def watch(name: str, module: Module, _: float = 0) -> None:
        nonlocal now
        before, now = now, str(module)
        stages.append(Step(name, before, now))

    if traced.declarations:
        watch("differentiate", expand(traced))
    passed(traced, pipeline(names), watch)
    return stages


def _colour(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
