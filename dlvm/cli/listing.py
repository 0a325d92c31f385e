"""``dlvm list``: lists the operations, passes or environment variables."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

from dlvm.base import environment
from dlvm.ir import OPS

from .describing import subcommand
from .opt import every_pass
from .output import print_json, print_table

Row = tuple[str, str]


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "list",
        "list operations, passes or variables",
        "passes",
    )
    parser.add_argument("what", choices=tuple(LISTINGS))
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the names, each with the first line of its description."""
    found = list(LISTINGS[options.what]())
    if options.json:
        print_json(dict(found))
    else:
        print_table(found)
    return 0


def _operations() -> Iterator[Row]:
    yield from sorted((name, _first_line(op.__doc__)) for name, op in OPS.items())


def _passes() -> Iterator[Row]:
    yield from sorted((name, _first_line(p.manual)) for name, p in every_pass().items())


def _variables() -> Iterator[Row]:
    yield from environment.VARIABLES.items()


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]


LISTINGS: dict[str, Callable[[], Iterator[Row]]] = {
    "ops": _operations,
    "passes": _passes,
    "variables": _variables,
}
