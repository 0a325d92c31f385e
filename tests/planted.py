"""Faults planted on purpose, in the rooms where real ones would live: are they found and named?

    python -m tests.planted [--programs 400] [NAME ...]

Each is a change of one rule, made from outside for a while. Random programs look for it, ``bisect``
names it and ``reduce`` shrinks the program; the table says how long each took. What finds them
knows nothing of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import Any

import dlvm.dsl  # noqa: F401  registers every rule
from dlvm.base.errors import UserError
from dlvm.ir import F64, I64, Declaration, Module, Op
from dlvm.ops import (
    Abs,
    Add,
    Broadcast,
    Cond,
    Constant,
    CumulativeSum,
    Exp,
    Gather,
    Less,
    Matmul,
    Maximum,
    Mul,
    Neg,
    Permute,
    Print,
    Reshape,
    Scan,
    ScatterAdd,
    Select,
    Sin,
    Slice,
    Sub,
    Sum,
    Tanh,
    Tap,
    Update,
    While,
)
from dlvm.target import Target
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.drafts import Draft
from dlvm.testing.drawing.random_programs import of_one, random_program
from dlvm.trust.failure import Failure
from dlvm.trust.reducing.apart import bisect_apart, examine_apart
from dlvm.trust.reducing.case import Case
from dlvm.trust.reducing.reduce import reduce

from .faults import BUGS, Bug

STRAIGHT = (Add, Mul, Sub, Sin, Tanh, Exp, Abs, Maximum, Neg, Less, Select, Sum, Matmul, Broadcast)
MOVING = (Reshape, Permute, Slice, Constant, Gather, Update, ScatterAdd)
CONTROL = (Cond, Scan, While)
AREAS: dict[str, tuple[type[Op], ...]] = {
    "control": (*STRAIGHT, *CONTROL, *CONTROL),
    "telling": (Add, Sin, Cond, Print, Tap, Print),
    "branches": (Cond, Cond, Less, Add),
    "storage": (CumulativeSum, Permute),
    "tangent": (*STRAIGHT[:8], Cond, Cond),
}
BUDGET = 400
"""How many programs may be looked at."""


def drawn(area: str, seed: int) -> Case | None:
    """A random program of straight code, with control flow, or with a derivative declared."""
    if area == "folds":
        alone = of_one(Draft(dice := Seeded(seed), (F64,), (3,), (Sin,)), Sum, (F64,), {})
        return Case(alone.module, alone.arrays) if alone else None
    classes = AREAS.get(area, (*STRAIGHT, *MOVING))
    dice = Seeded(seed)
    derived = area in ("adjoint", "tangent", "batched")
    how: dict[str, Any] = {"sizes": (3,)} if area == "storage" else {}
    symbolic = not derived and area != "storage"
    program = random_program(dice, classes, (F64, I64), symbolic, 12, **how)
    if not derived:
        return Case(program.module, program.arrays)
    main = program.module.main
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    floats = [r for r in main.results if r.type.dtype.is_float]
    if area == "batched":
        declared = Declaration(area, "d", main.name, axes=(0,) * len(main.params), size=2)
    elif not wrt or not floats:
        return None
    else:
        declared = Declaration(area, "d", main.name, wrt, seeded=area == "adjoint")
    return Case(Module((*program.module.entries, declared)), program.arrays)


@dataclass(frozen=True)
class Hunt:
    """How a fault was found, named and cut down, and the seconds that each took."""

    bug: Bug
    programs: int
    case: Case
    named: Failure
    reduced: Case
    still: Failure
    seconds: tuple[float, float, float]


def hunt(bug: Bug, budget: int = BUDGET, seconds: float = 60.0, first: int = 0) -> Hunt | None:
    """Look for a fault with random programs; None where the budget does not reach."""
    how: dict[str, Any] = {"target": Target.host()}
    with bug.plant():
        start = time.perf_counter()
        found = _found(bug, range(first, first + budget), how)
        if found is None:
            return None
        programs, case = found
        middle = time.perf_counter()
        named = bisect_apart(case.module, case.arrays, **how)
        assert named is not None
        late = time.perf_counter()
        reduced, still = reduce(case.module, case.arrays, named, seconds, **how)
        end = time.perf_counter()
    times = (middle - start, late - middle, end - late)
    return Hunt(bug, programs, case, named, reduced, still, times)


def _found(bug: Bug, seeds: range, how: dict[str, Any]) -> tuple[int, Case] | None:
    for programs, seed in enumerate(seeds, 1):
        case = drawn(bug.area, seed)
        try:
            if case and examine_apart(case.module, case.arrays, **how) is not None:
                return programs, case
        except UserError:  # a derivative that there is none of
            continue
    return None


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description="planted faults: found, named, reduced")
    parser.add_argument("--programs", type=int, default=BUDGET)
    parser.add_argument("--show", action="store_true", help="the reduced programs too")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    missed = 0
    print(f"{'fault':14} {'found':>8} {'after':>5} {'named':>8} {'reduced':>8} ops  named as")
    for bug in BUGS:
        if options.names and bug.name not in options.names:
            continue
        done = hunt(bug, options.programs)
        if done is None:
            missed += 1
            print(f"{bug.name:14} not found in {options.programs} programs")
            continue
        find, name, cut = done.seconds
        ops = f"{done.case.ops}>{done.reduced.ops}"
        blamed = f"{done.still.stage}: {done.still.law or '-'}"
        print(
            f"{bug.name:14} {find:7.2f}s {done.programs:5} {name:7.2f}s {cut:7.2f}s {ops:5} "
            f"{blamed}",
            flush=True,
        )
        if options.show:
            print(done.reduced.module, done.still, sep="\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
