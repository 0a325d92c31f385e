"""``dlvm check``: verifies a program after every pass, its machine code, and its gradient.

``dlvm.trust`` states which answers are compared and which tolerances hold. The gradient is computed
in f64 along a random direction and compared with finite differences; if those are accurate to fewer
than three digits, as near a kink, the gradient is skipped, which is a failure unless it is allowed.
Derivatives that the program states are checked one by one before, also those of functions of which
it takes the gradient itself; surrogates are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import CompilerError, UserError
from dlvm.compile import expand, passed
from dlvm.ir import Array, Declaration, Module

from .describing import subcommand
from .inputs import Call, add_inputs, call_named
from .output import coloured, print_json

if TYPE_CHECKING:
    from dlvm.trust.derivatives import Slopes


@dataclass(frozen=True)
class Finding:
    """The outcome of one check; ``passed`` is None if the check was inconclusive."""

    what: str
    passed: bool | None
    said: str


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "check",
        "check passes, machine code and gradient",
        'model.py:f "f32[B,3]" --size B=8',
    )
    add_inputs(parser)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--allow-skipped", action="store_true", help="a gradient that was skipped is no failure"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the findings; returns 1 if a check failed or a gradient could not be checked."""
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
    skipped = differentiable(call.road.traced) and not options.allow_skipped
    return 1 if any(f.passed is False or (f.passed is None and skipped) for f in found) else 0


WORDS = {True: ("holds", "green"), False: ("FAILS", "red"), None: ("skipped", "yellow")}


def _found(what: str, look: Callable[[], tuple[bool | None, str]]) -> Finding:
    try:
        return Finding(what, *look())
    except (UserError, CompilerError) as error:
        return Finding(what, False, str(error))


def _passes(module: Module) -> tuple[bool, str]:
    from dlvm.opt.pipelines import default

    steps = default()
    passed(module.verify(), steps, verify=True)
    return True, f"every rule of the language, before and after {len(steps)} passes"


def _answers(call: Call) -> tuple[bool, str]:
    """Compares the results of the machine code with those of the references."""
    from dlvm.trust.answers import Question, answered, differ

    question = Question(expand(call.road.traced), call.arrays)
    if question.answer.error is not None:
        raise question.answer.error
    run: Any = call.road.executable.run
    found = answered(lambda write: run([np.array(a) for a in call.arrays], write))
    difference = differ(question, found)
    count = len(found.results)
    said = f"{count} results equal those of the references up to rounding"
    return difference is None, said if difference is None else str(difference)


def differentiable(module: Module) -> bool:
    """Whether a program has float parameters and float results, so that it has a gradient."""
    main = module.main
    return any(p.dtype.is_float for p in main.params) and any(
        r.dtype.is_float for r in main.results
    )


def _gradient(module: Module, arrays: Sequence[Array]) -> tuple[bool | None, str]:
    """Compares the adjoint along a direction with finite differences; parameter by parameter
    where that is inconclusive.
    """
    from dlvm.trust.derivatives import stating
    from dlvm.trust.rules import is_surrogate

    main = module.main
    if not differentiable(module):
        return None, "the program has no float parameter or no float result"
    if wrong := _wrong_rule(module, arrays):
        return False, wrong
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    whole = expand(module)
    if own := [op for op in stating(whole, whole.main) if op.ruled is None or is_surrogate(op)]:
        places = sorted({f"{op.name} at {op.origin}" if op.origin else op.name for op in own})
        what = "the program has derivatives that are meant to differ from its slopes"
        return None, f"{what}: {', '.join(places)}"
    slopes = _slopes(module, wrt, arrays)
    if slopes is None:
        return None, "the program raises an error"
    if slopes.tells:
        return slopes.agree, str(slopes)
    alone = {main.params[i].name: _slopes(module, (i,), arrays) for i in wrt}
    wrong = [f"{name}: {s}" for name, s in alone.items() if s and s.tells and not s.agree]
    if wrong:
        return False, "; ".join(wrong)
    unclear = [name for name, s in alone.items() if s is None or not s.tells]
    if not unclear:
        return True, f"the slopes along {', '.join(alone)} agree with differences, one by one"
    return None, f"{slopes}: inconclusive for {', '.join(unclear)}, such as at a kink"


def _wrong_rule(module: Module, arrays: Sequence[Array]) -> str | None:
    """The first derivative that the program states and that is wrong by itself."""
    from dlvm.testing.gradients import is_wrong
    from dlvm.trust.derivatives import differentiated
    from dlvm.trust.rules import guilty

    for program, given in differentiated(module, arrays):
        blame = guilty(program, given, 1, is_wrong, of_values=False, stated=True)
        if blame is not None:
            written = f", written at {blame.rule}," if blame.rule else ""
            at = f" at {blame.origin}" if blame.origin else ""
            return f"the derivative of {blame.op}{written} is wrong by itself, as its use{at} shows"
    return None


def _slopes(module: Module, wrt: tuple[int, ...], arrays: Sequence[Array]) -> Slopes | None:
    """The slope along a random line in some parameters, in f64; None if the program raises."""
    from dlvm.trust.derivatives import slopes
    from dlvm.trust.recast import widened

    name = "gradient"
    while name in module:
        name += "_"
    declared = Declaration("adjoint", name, module.main.name, wrt=wrt, seeded=True)
    whole = expand(widened(Module((*module.entries, declared))))
    return slopes(declared, whole, arrays)
