"""Faults planted on purpose, in the rooms where real ones would live: are they found and named?

    python -m tests.planted [--programs 400] [NAME ...]

Each is a change of one rule, made from outside for a while. Random programs look for it, ``bisect``
names it and ``reduce`` shrinks the program; the table says how long each took. What finds them
knows nothing of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import dlvm.dsl  # noqa: F401  registers every rule
from dlvm.ad.batch import BATCHED, leaf
from dlvm.ad.forward import TANGENTS
from dlvm.errors import UserError
from dlvm.gen import build as build_room
from dlvm.gen import coalesce, cpu, math, memory
from dlvm.gen.driver import Driver
from dlvm.gen.pull import Pull
from dlvm.ir import F64, I64, RULES, Array, Declaration, Module, Op, Rule
from dlvm.ops import (
    Abs,
    Add,
    Broadcast,
    Cond,
    Constant,
    Exp,
    Gather,
    Less,
    Matmul,
    Maximum,
    Mul,
    Neg,
    Permute,
    Reshape,
    Scan,
    ScatterAdd,
    Select,
    Sin,
    Slice,
    Sub,
    Sum,
    Tanh,
    Update,
    While,
)
from dlvm.opt import branches, hoisting, sharing, simplification
from dlvm.target import Target
from dlvm.testing.dice import Seeded
from dlvm.testing.random_programs import random_program
from dlvm.trust.apart import bisect_apart, examine_apart
from dlvm.trust.case import Case
from dlvm.trust.failure import Failure
from dlvm.trust.reduce import reduce

STRAIGHT = (Add, Mul, Sub, Sin, Tanh, Exp, Abs, Maximum, Neg, Less, Select, Sum, Matmul, Broadcast)
MOVING = (Reshape, Permute, Slice, Constant, Gather, Update, ScatterAdd)
CONTROL = (Cond, Scan, While)
BUDGET = 400
"""How many programs may be looked at."""
Plant = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Bug:
    """A fault: where it is expected to show, and the law that must be named, if it is one."""

    name: str
    plant: Plant
    stage: str
    kind: str = "answer"
    law: Callable[..., Any] | str | None = None
    area: str = "straight"
    seed: int = 0
    """Where the suite starts, which looks at few programs."""


def drawn(area: str, seed: int) -> Case | None:
    """A random program of straight code, with control flow, or with a derivative declared."""
    classes: Collection[type[Op]] = (*STRAIGHT, *MOVING)
    if area == "control":
        classes = (*STRAIGHT, *CONTROL, *CONTROL)
    dice = Seeded(seed)
    derived = area in ("adjoint", "tangent", "batched")
    if area == "tangent":
        classes = (*STRAIGHT[:8], Cond, Cond)
    program = random_program(dice, classes, (F64, I64), symbolic=not derived, max_ops=12)
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


# -- the faults ------------------------------------------------------------------------------------


def _law(root: type[Op], law: Callable[[Any], Any]) -> Plant:
    rule = Rule(law.__name__, root, law, (), (), True, law.__doc__ or "")
    return lambda: mock.patch.dict(RULES, {root: [rule, *RULES[root]]})


def wrong_sign(self: Any, *dy: Any) -> Any:
    """d(x y) = y dx - x dy."""
    return self.y * dy[0], -(self.x * dy[0])


TANGENT_OF_COND = TANGENTS[Cond]


def turned_tangent(engine: Any, op: Any, xs: Any, dx: Any) -> Any:
    """The tangent of a branch, its sign turned."""
    results, dy = TANGENT_OF_COND(engine, op, xs, dx)
    return results, [None if d is None else -d for d in dy]


def exchanged(b: Any, op: Any, xs: Any, flags: Any) -> Any:
    """A batched difference the other way round."""
    return leaf(b, op, xs[::-1], flags[::-1])


def difference_is_sum(op: Sub) -> Any:
    """x - y = x + y."""
    return Add(op.x, op.y)


def failing_law(op: Exp) -> Any:
    """Looks for what is not there."""
    return {}["nothing"]


def carried_is_invariant(body: Any, captured: Any) -> Any:
    """What a loop carries is taken to be the same on every trip."""
    return INVARIANT(body, body.params)


INVARIANT = hoisting._invariant
INTERVALS = memory.intervals
RULE_OF = Pull._rule
FOR_LOOP = Driver.for_loop
EXP = math.UNARY["exp"]
OBJECT = build_room.object_code


def ending_early(program: Any) -> Any:
    """Memory is free again one step too early."""
    found = INTERVALS(program)
    for interval in found.values():
        interval.last = max(interval.first, interval.last - 1)
    return found


def no_enemies(program: Any, among: Any) -> Any:
    """No two storages hold different values at once."""
    return defaultdict(set)


def next_element(self: Any, value: Any, at: Any) -> Any:
    """A slice that starts one further."""
    if isinstance(value, Slice) and value.starts:
        at = replace(at, index=(*at.index[:-1], at.index[-1] + 1))
    return RULE_OF(self, value, at)


def one_trip_less(self: Any, step: Any) -> None:
    """A loop that stops before its last trip."""
    FOR_LOOP(self, replace(step, length=step.length - 1))


def rough_exponential(lanes: Any, x: str) -> str:
    """The exponential with nine digits."""
    return lanes.mul(EXP(lanes, x), lanes.number(1 + 1e-9))


def fewer_lanes(count: int, lanes: int) -> str:
    """The mask of the last vector, one lane short."""
    return f"<{', '.join('i1 true' if i < count - 1 else 'i1 false' for i in range(lanes))}>"


def no_type(count: int, lanes: int) -> str:
    """A mask that LLVM can't read."""
    return "<i1 perhaps>"


def ends_the_process(text: str, *args: Any, **kwargs: Any) -> bytes:
    """What LLVM does with an instruction that it can't select."""
    if "exp" in text or "fmul" in text:
        os.write(2, b"LLVM ERROR: Cannot select: v4f64 = fpow\n")
        os.abort()
    return OBJECT(text, *args, **kwargs)


def by_class(op: Op, numbers: Any) -> Any:
    """What an operation is, without its attributes."""
    return type(op), op.result_types


def swapped(condition: Any, x: Any, y: Any) -> Any:
    """The value of the other branch."""
    return CHOSEN(condition, y, x)


CHOSEN, LITERAL, FROZEN = branches._chosen, branches.literal, simplification._frozen


def opposite(known: Any, dtype: Any) -> Any:
    """The other truth than the one that is known."""
    return LITERAL(not known, dtype)


def one_more(array: Any) -> Array:
    """A constant that is one too large."""
    return FROZEN(array + 1 if array.dtype.kind in "if" else array)


BUGS = (
    Bug(
        "adjoint",
        lambda: mock.patch.object(Mul, "adjoint", wrong_sign),
        "differentiate",
        law=wrong_sign,
        area="adjoint",
        seed=90,
    ),
    Bug(
        "tangent",
        lambda: mock.patch.dict(TANGENTS, {Cond: turned_tangent}),
        "differentiate",
        law=turned_tangent,
        area="tangent",
        seed=5,
    ),
    Bug(
        "batching",
        lambda: mock.patch.dict(BATCHED, {Sub: exchanged}),
        "differentiate",
        law=exchanged,
        area="batched",
        seed=7,
    ),
    Bug("law", _law(Sub, difference_is_sum), "simplify", law=difference_is_sum),
    Bug("failing law", _law(Exp, failing_law), "simplify", kind="crash", law=failing_law, seed=9),
    Bug(
        "folding",
        lambda: mock.patch.object(simplification, "_frozen", one_more),
        "fold_constants",
        law="known_result",
        seed=8,
    ),
    Bug(
        "known branch",
        lambda: mock.patch.object(branches, "literal", opposite),
        "propagate",
        law="_visit",
        area="control",
        seed=74,
    ),
    Bug(
        "select",
        lambda: mock.patch.object(branches, "_chosen", swapped),
        "select_branches",
        law="select_branches",
        area="control",
        seed=29,
    ),
    Bug(
        "sharing",
        lambda: mock.patch.object(sharing, "facts", by_class),
        "share",
        law="share",
        seed=2,
    ),
    Bug(
        "hoisting",
        lambda: mock.patch.object(hoisting, "_invariant", carried_is_invariant),
        "hoist",
        kind="any",
        law="hoist",
        area="control",
    ),
    Bug(
        "index map",
        lambda: mock.patch.object(Pull, "_rule", next_element),
        "lower",
        kind="any",
        law="one_kernel",
        seed=65,
    ),
    Bug(
        "copies",
        lambda: mock.patch.object(coalesce, "interference", no_enemies),
        "coalesce",
        kind="any",
        area="control",
        seed=1,
    ),
    Bug("memory", lambda: mock.patch.object(memory, "intervals", ending_early), "memory", seed=94),
    Bug(
        "loop bound",
        lambda: mock.patch.object(Driver, "for_loop", one_trip_less),
        "machine",
        area="control",
    ),
    Bug(
        "polynomial",
        lambda: mock.patch.dict(math.UNARY, {"exp": rough_exponential}),
        "machine",
        law=rough_exponential,
        seed=22,
    ),
    Bug(
        "vector end", lambda: mock.patch.object(cpu, "_first_lanes", fewer_lanes), "machine", seed=8
    ),
    Bug(
        "LLVM text",
        lambda: mock.patch.object(cpu, "_first_lanes", no_type),
        "emit",
        kind="crash",
        seed=7,
    ),
    Bug(
        "abort",
        lambda: mock.patch.object(build_room, "object_code", ends_the_process),
        "emit",
        kind="died",
        seed=1,
    ),
)


# -- the hunt --------------------------------------------------------------------------------------


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
