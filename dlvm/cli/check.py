"""``dlvm check``: the rules of the language, machine code against the references, the gradient.

What is asked, and how far answers may be apart, is said by ``dlvm.trust``, as for everybody who
compares. The gradient is taken in f64 along a random direction beside differences; where these
know less than three digits, as at a kink, nothing is said.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm.base.errors import CompilerError, UserError
from dlvm.compile import expand, passed
from dlvm.ir import Array, Declaration, Module

from .inputs import Call, add_inputs, call_named
from .output import coloured, print_json


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at; ``passed`` is None where it can't be said."""

    what: str
    passed: bool | None
    said: str


def add(commands: Any) -> None:
    """Describe the command."""
    parser = commands.add_parser("check", help="rules, machine code and gradient")
    add_inputs(parser)
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was found; 1 where something is wrong."""
    call = call_named(options)
    looks = (
        ("passes", lambda: _passes(call.road.traced)),
        ("machine code", lambda: _answers(call)),
        ("gradient", lambda: _gradient(call.road.traced, call.arrays)),
    )
    found = [_found(what, look) for what, look in looks]
    if options.json:
        print_json([vars(f) for f in found])
    else:
        for f in found:
            word, colour = WORDS[f.passed]
            print(f"{f.what:14} {coloured(word, colour)}  {f.said}")
    return 1 if any(f.passed is False for f in found) else 0


WORDS = {True: ("holds", "green"), False: ("FAILS", "red"), None: ("skipped", "yellow")}


def _found(what: str, look: Callable[[], tuple[bool | None, str]]) -> Finding:
    try:
        return Finding(what, *look())
    except (UserError, CompilerError) as error:
        return Finding(what, False, str(error))


def _passes(module: Module) -> tuple[bool, str]:
    from dlvm.opt.pipelines import DEFAULT

    passed(module.verify(), DEFAULT, verify=True)
    return True, f"every rule of the language, before and after {len(DEFAULT)} passes"


def _answers(call: Call) -> tuple[bool, str]:
    """Machine code beside the references."""
    from dlvm.trust.answers import Question, answered, differ

    question = Question(expand(call.road.traced), call.arrays)
    if question.answer.error is not None:
        raise question.answer.error
    run: Any = call.road.executable.run
    found = answered(lambda write: run([np.array(a) for a in call.arrays], write))
    difference = differ(question, found)
    count = len(found.results)
    said = f"{count} results as the references give them, but for rounding"
    return difference is None, said if difference is None else str(difference)


def _gradient(module: Module, arrays: Sequence[Array]) -> tuple[bool | None, str]:
    """The adjoint along a direction beside differences."""
    from dlvm.trust.derivatives import slopes, states_its_own
    from dlvm.trust.recast import widened

    main = module.main
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    if not wrt or not any(r.dtype.is_float for r in main.results):
        return None, "no float goes in, or none comes out"
    name = "gradient"
    while name in module:
        name += "_"
    declared = Declaration("adjoint", name, main.name, wrt=wrt, seeded=True)
    whole = expand(widened(Module((*module.entries, declared))))
    if states_its_own(whole, whole.main):
        return None, "the program states derivatives that need not be slopes"
    found = slopes(declared, whole, arrays)
    if found is None:
        return None, "the program ends in an error"
    said = str(found) if found.tells else f"{found}: a kink, or too rough"
    return (found.agree if found.tells else None), said
