"""``dlvm show``: prints a program at one stage of the compiler, or at all of them."""

from __future__ import annotations

import argparse
from typing import Any

from dlvm import passes
from dlvm.base.errors import did_you_mean
from dlvm.compile import MODULES, OF_A_MESH, STAGES, Road
from dlvm.ir import Module
from dlvm.ir.text.printer import printed

from .describing import subcommand
from .naming import add_fixed, add_schedule, road_named
from .output import coloured, program_text, shows_colours


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "show",
        "print a program at one stage of the compiler",
        'model.py:f "f32[8,3]" --stage kernels',
    )
    add_fixed(parser)
    parser.add_argument(
        "--stage",
        type=_stage,
        metavar="STAGE",
        help=f"one of {', '.join(STAGES)} or all, with a mesh {' or '.join(OF_A_MESH)} as well; "
        "default traced",
    )
    parser.add_argument(
        "--mesh",
        metavar="data=2,model=4",
        help="compile for the ranks of this mesh, and print what they exchange; default: the one "
        "of the function",
    )
    add_lines(parser)
    parser.add_argument(
        "--laws", action="store_true", help="print the laws that are applied and what they save"
    )
    parser.add_argument(
        "--show-properties", action="store_true", help="print what is known of every matrix"
    )
    add_schedule(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the text of the stage."""
    road = road_named(options)
    if options.laws:
        return _laws(road.differentiated)
    if options.show_properties:
        return _properties(road.differentiated)
    if options.mesh and options.stage is None:
        return _exchanged(road, options.lines)
    if options.stage != "all":
        print(program_text(_text(road, options.stage or "traced", options.lines)), end="")
        return 0
    for stage in STAGES:
        print(coloured(f"// ---- {stage}", "bold"))
        print(program_text(_text(road, stage, options.lines)))
    return 0


def add_lines(parser: argparse.ArgumentParser) -> None:
    """Adds the option that comments a program with lines of the source."""
    parser.add_argument(
        "--lines",
        action=argparse.BooleanOptionalAction,
        help="comment operations with their lines, // model.py:12; default: on a terminal",
    )


def located(module: Module, lines: bool | None) -> str:
    """The text of a module, with comments that name lines if these are wanted."""
    return printed(module.entries, places=shows_colours() if lines is None else lines)


def _stage(name: str) -> str:
    known = (*STAGES, *OF_A_MESH, "ptx", "all")
    if name in known:
        return name
    meant = did_you_mean(name, known)
    raise argparse.ArgumentTypeError(f"expected one of {', '.join(known)}, found {name!r}{meant}")


def _text(road: Road, stage: str, lines: bool | None) -> str:
    """One stage as text; the first ones are modules, whose operations know their lines."""
    if stage in MODULES or (stage in OF_A_MESH and road.options.mesh is not None):
        return located(getattr(road, stage), lines)
    return road.text(stage)


def _exchanged(road: Road, lines: bool | None) -> int:
    """Prints the program of each rank, then what ranks exchange, and the memory that each needs."""
    from dlvm.opt.sharding.told import told

    print(program_text(located(road.partitioned, lines)))
    print(*told(road.partitioned, road.report.peak_bytes), sep="\n")
    return 0


def _laws(module: Module) -> int:
    """Prints each law that is applied, and the assumptions that would save more."""
    from dlvm.opt.law_report import applied_laws, helpful_assumptions

    for applied in applied_laws(module):
        print(applied)
    for line in helpful_assumptions(module):
        print(coloured(line, "bold"))
    return 0


def _properties(module: Module) -> int:
    """Prints every matrix of which something is known, as ``%3: psd, symmetric``."""
    from dlvm.ir.knowledge import properties_of
    from dlvm.ir.text.printer import name_values
    from dlvm.opt.laws.simplification import simplify

    simple = passes.run(module, [simplify])
    print(simple, end="")
    for fn in simple.functions:
        print(coloured(f"// ---- properties in @{fn.name}", "bold"))
        for value, name in name_values(fn).items():
            if found := properties_of(value):
                print(f"{name}: {', '.join(sorted(found))}")
    return 0
