"""``dlvm aot``: writes a function as files for another processor."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dlvm.targets import TARGETS

from .describing import add_out, subcommand
from .naming import add_fixed, function_written
from .output import print_facts, print_json


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "aot",
        "write a function as files for another processor",
        'model.py:f "f32[8,3]" --target wasm32 --out built',
    )
    add_fixed(parser)
    names = ", ".join(("host", "webgpu", *TARGETS))
    parser.add_argument("--target", default="host", metavar="NAME", help=f"one of {names}")
    add_out(parser, "the folder to write; default build", "FOLDER", default=Path("build"))
    parser.add_argument("--name", default="", help="what the C function is called")
    parser.add_argument(
        "--state", action="append", default=[], metavar="NAME", help="a captured array that changes"
    )
    parser.add_argument("--small", action="store_true", help="the smallest code")
    parser.add_argument("--growing", type=int, metavar="BYTES", help="memory for what grows")
    parser.add_argument("--weights", default="bin", choices=("bin", "c"))
    parser.add_argument("--shared", action="store_true", help="a shared library as well")
    parser.add_argument(
        "--page", action="store_true", help="one web page as well, for wasm32 and webgpu"
    )
    parser.add_argument("--json", action="store_true", help="print the description")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Writes the files and says which."""
    from dlvm.ahead import written
    from dlvm.gen.aot.bundle import Wishes

    function, given = function_written(options)
    wishes = Wishes(
        options.name,
        options.target,
        tuple(options.state),
        options.small,
        options.growing,
        options.weights,
        options.shared,
        options.page,
    )
    bundle = written(function, given.given, given.named, wishes)
    paths = bundle.write(options.out)
    if options.json:
        print_json(bundle.description)
        return 0
    said = bundle.description
    facts: dict[str, Any] = {str(path): f"{path.stat().st_size} bytes" for path in paths}
    scratch = said["scratch"]
    facts["scratch"] = "depends on the sizes" if scratch is None else f"{scratch} bytes"
    print_facts(facts | {"stack": f"at most {said['stack_bytes']} bytes"})
    return 0
