"""``dlvm tune``: searches the schedules of a program's kernels, and keeps those that are faster."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.ir.interpret import bind

from .describing import subcommand
from .inputs import Call, add_inputs, call_named
from .output import print_json, print_table

if TYPE_CHECKING:
    from dlvm.gen.tune.tuner import Result

SLOWER = 1.01
"""The time of a call, in times that of the planner's, from which on nothing is kept."""


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "tune",
        "search for faster schedules, which compiles then use",
        'model.py:f "f32[8,3]" --seconds 0.1',
    )
    add_inputs(parser)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds for each kernel")
    parser.add_argument("--forget", action="store_true", help="take back what was found before")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the gain for each kernel, and for a call of the whole program."""
    from dlvm.gen.tune.tuner import forget, of_program, tuned

    if options.schedule is not None:
        raise UserError(
            "dlvm tune searches for schedules, and was given one",
            remedy="leave --schedule out, or measure it with dlvm bench",
        )
    call = call_named(options)
    module, target = call.road.kernels, call.road.options.machine()
    forget(module, target)
    if options.forget:
        print("forgotten")
        return 0
    found = list(tuned(module, target, options.seconds, _sizes(call), seed=options.seed))
    gains = any(result.gains for result in found)
    whole = of_program(module, target, [np.array(a) for a in call.arrays]) if gains else 1.0
    kept = gains and whole <= SLOWER
    if not kept:
        forget(module, target)
    facts = {"kernels": [_facts(r) for r in found], "call": whole, "kept": kept}
    if options.json:
        print_json(facts)
    else:
        print_table([*_rows(found), ("a call", f"{whole:.2f}", "", "kept" if kept else "not kept")])
    return 0


def _sizes(call: Call) -> dict[str, int]:
    """The sizes of the symbols in the arguments."""
    params = call.road.traced.main.params
    return bind([p.type for p in params], call.arrays, [p.name for p in params])


def _facts(r: Result) -> dict[str, Any]:
    return {
        "name": r.kernel.name,
        "time": r.time,
        "tried": r.tried,
        "possible": r.possible,
        "space": r.space,
        "steps": r.steps,
    }


def _rows(found: list[Result]) -> list[tuple[str, str, str, str]]:
    head = ("kernel", "time", "tried", "schedule, where it is faster than the planner's")
    return [head, *(_row(r) for r in found)]


def _row(r: Result) -> tuple[str, str, str, str]:
    steps = "; ".join(r.steps) if r.gains else ""
    return r.kernel.name, f"{r.time:.2f}", f"{r.possible} of {r.tried} of {r.space}", steps
