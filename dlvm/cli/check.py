"""``dlvm check``: the rules of the language, machine code against the references, the gradient.

Programs of floats are run a second time in f64, as the exact answer: machine code may be some
times as far from it as the references are. The gradient is taken in f64 along a random direction
and compared with differences; where two step sizes do not agree, as at a kink, nothing is said.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dlvm import passes
from dlvm.compile import expand
from dlvm.errors import CompilerError, UserError
from dlvm.ir import Array, Declaration, Module, parse
from dlvm.ir.interpret import Interpreter

from .inputs import Call, add_inputs, call_named
from .output import coloured, print_json

WORSE = 8.0
"""How many times further from the exact answer than the references machine code may be."""
ROUNDINGS = 256.0
"""And how many roundings of the largest element besides."""
STEP, AGREE, CLOSE = 1e-4, 1e-3, 1e-5
GRADIENT = "gradient_that_is_checked"


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
    exact = in_f64(call.road.traced)
    looks = (
        ("passes", lambda: _passes(call.road.traced)),
        ("machine code", lambda: _answers(call, exact)),
        ("gradient", lambda: _gradient(exact, call.arrays)),
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


def in_f64(module: Module) -> Module | None:
    """The program with f64 for every float, where its text says all; None where it does not."""
    text = str(module)
    if re.search(r"^data #\d+ : (bf16|f16|f32)", text, re.M) or '"' in text:
        return None
    return parse(re.sub(r"\b(bf16|f16|f32)\b", "f64", text)).verify()


def _passes(module: Module) -> tuple[bool, str]:
    from dlvm.opt.pipelines import DEFAULT

    passes.run(expand(module.verify()), DEFAULT, verify=True)
    return True, f"every rule of the language, before and after {len(DEFAULT)} passes"


# -- machine code --------------------------------------------------------------------------------


def _answers(call: Call, exact: Module | None) -> tuple[bool, str]:
    """Machine code beside the references."""
    made = call.road.executable.run([np.array(a) for a in call.arrays])
    meant = _run(call.road.traced, call.arrays)
    truth = meant if exact is None else _run(exact, call.arrays)
    worst = max(map(_excess, made, meant, truth), default=0.0)
    said = f"{len(made)} results beside the references, {worst:.2g} of what is allowed"
    return worst <= 1, said


def _excess(made: Array, meant: Array, truth: Array) -> float:
    """How much of the allowed distance from the exact answer machine code takes."""
    if made.dtype != meant.dtype or made.shape != meant.shape:
        return np.inf
    if made.dtype.kind in "biu":
        return 0.0 if np.array_equal(made, meant) else np.inf
    a, b, c = (x.astype(np.float64) for x in (made, meant, truth))
    finite = np.isfinite(b) & np.isfinite(c)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return np.inf
    a, b, c = a[finite], b[finite], c[finite]
    rounding = _epsilon(made.dtype) * ROUNDINGS * np.max(np.abs(c), initial=0)
    allowed = WORSE * np.max(np.abs(b - c), initial=0) + rounding
    distance = np.max(np.abs(a - c), initial=0)
    return float(distance / max(allowed, np.finfo(float).tiny))


def _epsilon(dtype: np.dtype[Any]) -> float:
    if dtype.kind == "f":
        return float(np.finfo(dtype).eps)
    return 2.0**-8  # bf16, which NumPy does not know


def _run(module: Module, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """The results by the references, of arrays of the types that the module states."""
    full = expand(module)
    params = full.main.params
    given = [a.astype(p.dtype.numpy) for a, p in zip(arrays, params, strict=True)]
    with np.errstate(all="ignore"):
        return tuple(map(np.asarray, Interpreter(full).enter(full.main.name, given)))


# -- the gradient --------------------------------------------------------------------------------


def _gradient(module: Module | None, arrays: Sequence[Array]) -> tuple[bool | None, str]:
    """The adjoint along a direction beside differences."""
    if module is None:
        return None, "the program holds texts or large constants of other types than f64"
    main = module.main
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    out = [j for j, r in enumerate(main.results) if r.dtype.is_float]
    if not wrt or not out:
        return None, "no float goes in, or none comes out"
    dice = np.random.default_rng(0)
    x = [a.astype(p.dtype.numpy) for a, p in zip(arrays, main.params, strict=True)]
    direction = {i: dice.standard_normal(x[i].shape) for i in wrt}
    value = _run(module, x)
    seeds = {j: dice.standard_normal(value[j].shape) for j in out}

    def along(step: float) -> float:
        moved = [a + step * direction[i] if i in direction else a for i, a in enumerate(x)]
        found = _run(module, moved)
        return sum(float(np.sum(found[j] * seeds[j])) for j in out)

    declared = Declaration("adjoint", GRADIENT, main.name, wrt=wrt, seeded=True)
    full = expand(Module((*module.entries, declared)))
    with np.errstate(all="ignore"):
        found = Interpreter(full).enter(GRADIENT, [*x, *seeds.values()])
    adjoint = sum(float(np.sum(g * direction[i])) for g, i in zip(found, wrt, strict=True))
    return _compared(adjoint, along)


def _compared(adjoint: float, along: Callable[[float], float]) -> tuple[bool | None, str]:
    """A derivative beside differences of a function at two steps."""
    wide, narrow = ((along(h) - along(-h)) / (2 * h) for h in (STEP, STEP / 2))
    better = (4 * narrow - wide) / 3
    scale = max(abs(adjoint), abs(better), 1e-300)
    said = f"{adjoint:.9g} along a direction, {better:.9g} by differences"
    if abs(wide - narrow) > AGREE * scale and abs(adjoint - better) > CLOSE * scale:
        return None, f"{said}, which do not agree with one another: a kink, or too rough"
    noise = abs(along(0.0)) * 1e-15 / STEP
    return abs(adjoint - better) <= CLOSE * scale + 100 * noise, said
