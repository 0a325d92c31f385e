"""``dlvm repro``, ``bisect`` and ``reduce``: replay, blame and shrink a failure of dlvm itself.

Anything that may end the process runs in a process of its own. A program is IR text, with or
without the header of a reproducer, or a function of a script. It runs on the arrays in the
reproducer or, where there are none, on random ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dlvm.base.errors import CompilerError, UserError
from dlvm.compile import expand
from dlvm.dsl.trace.specs import Spec
from dlvm.dsl.trace.trees import flatten
from dlvm.ir import Array, Module
from dlvm.target import Target
from dlvm.trust.failure import SECONDS, Failure

from .describing import add_out, subcommand
from .naming import add_named, add_size, call_written, sizes_of
from .output import coloured, print_json

if TYPE_CHECKING:
    from dlvm.trust.reproducer import Reproducer

SIZES = "draw arrays of this value of an open size"
SAME, OTHER = 3, 1
"""Exit codes: 3 if the program still fails in the same way, 1 if it fails in another way."""


def add(commands: Any) -> None:
    """Adds the subcommands to the parser."""
    repro = subcommand(commands, "repro", "replay a failure of dlvm", "failure.dlvm")
    repro.add_argument("file", help="the file that dlvm wrote when it failed, or -")
    repro.set_defaults(run=run_repro)
    bisect = subcommand(
        commands,
        "bisect",
        "find the pass and the rewrite rule that make a program fail",
        'model.py:f "f32[8,3]"',
    )
    add_named(bisect)
    bisect.add_argument("--seed", type=int, help="of the arrays that are not given")
    add_size(bisect, SIZES)
    bisect.set_defaults(run=run_bisect)
    reduce = subcommand(
        commands,
        "reduce",
        "find a smaller program that fails in the same way",
        'model.py:f "f32[8,3]" --out small.dlvm',
    )
    add_named(reduce)
    reduce.add_argument("--seed", type=int, help="of the arrays that are not given")
    add_size(reduce, SIZES)
    add_out(reduce, "where to write the program")
    reduce.set_defaults(run=run_reduce)
    for parser in (repro, bisect, reduce):
        parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit in seconds")
        parser.add_argument("--json", action="store_true")


def run_repro(options: argparse.Namespace) -> int:
    """Replays a file; returns 0 if nothing fails, 3 for the same failure, 1 for another one."""
    kept = reproducer_in(options.file)
    failure = _replayed(kept, options.seconds)
    same = failure is not None and (kept.failure is None or failure.same == kept.failure.same)
    if options.json:
        facts = {"fails": failure is not None, "same": same}
        print_json({**facts, "failure": None if failure is None else failure.to_dict()})
    elif failure is None:
        print(coloured("does not fail", "green"))
    else:
        how = "fails" if kept.failure is None else "fails in the same way"
        print(coloured(how if same else "fails in another way", "red"))
        print(failure)
    return 0 if failure is None else SAME if same else OTHER


def _replayed(kept: Reproducer, seconds: float) -> Failure | None:
    """The failure that replaying a file gives, or None."""
    from dlvm.dsl.faults.faults import replayed as again
    from dlvm.trust.reducing.apart import examine_apart, failure_apart

    if kept.attempt is not None:
        return failure_apart(lambda watch: again(kept), seconds)
    return examine_apart(kept.module, kept.arrays, seconds, **kept.how())


def run_bisect(options: argparse.Namespace) -> int:
    """Prints the pass and law to blame; returns 0 if nothing fails, 3 if something does."""
    from dlvm.trust.reducing.apart import bisect_apart

    kept = program_of(options)
    if kept.attempt is not None:
        found = _replayed(kept, options.seconds)
    else:
        found = bisect_apart(kept.module, kept.arrays, options.seconds, **kept.how())
    if options.json:
        print_json(None if found is None else found.to_dict())
    else:
        print("nothing fails" if found is None else found)
    return 0 if found is None else SAME


def run_reduce(options: argparse.Namespace) -> int:
    """Writes a smaller program; returns 0 if one fails in the same way, 1 if nothing fails."""
    from dlvm.trust.inputs import drawn
    from dlvm.trust.reducing.apart import bisect_apart
    from dlvm.trust.reducing.reduce import reduce

    kept = program_of(options)
    if kept.attempt is not None:
        raise UserError(
            "expected a program to reduce; this failure happened in Python, before tracing ended"
        )
    how = kept.how()
    found = bisect_apart(kept.module, kept.arrays, options.seconds, **how)
    if found is None:
        print("nothing fails", file=sys.stderr)
        return OTHER
    arrays = kept.arrays or tuple(drawn(expand(kept.module), kept.seed))
    case, failure = reduce(kept.module, arrays, found, options.seconds, **how)
    smaller = str(replace(kept, module=case.module, arrays=case.arrays, failure=failure))
    before = sum(1 for fn in kept.module.functions for _ in fn.walk())
    if options.out is not None:
        options.out.write_text(smaller, "utf8")
    if options.json:
        facts = {"ops": case.ops, "before": before, "failure": failure.to_dict()}
        print_json({**facts, "text": smaller})
    else:
        if options.out is None:
            print(smaller, end="")
        print(f"{before} operations became {case.ops}", file=sys.stderr)
    return 0


def reproducer_in(file: str) -> Reproducer:
    """The reproducer in a file of IR text, which may lack the header."""
    from dlvm.trust.reproducer import Reproducer, read

    if file != "-" and not Path(file).exists():
        raise UserError(f"there is no file {file}", remedy="name the file that dlvm wrote, or -")
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf8")
    except UnicodeDecodeError:
        raise UserError(
            f"expected IR text in UTF-8, found other bytes in {file}",
            remedy="name a file of IR text",
        ) from None
    found = read(text)
    threads = Target.host().threads
    return found if found.failure else Reproducer(found.module, seed=found.seed, threads=threads)


def program_of(options: argparse.Namespace) -> Reproducer:
    """The program that a command line names, with arrays for its parameters."""
    from dlvm.trust.reproducer import Reproducer

    called = call_written(options.program, options.arguments)
    if called is None:
        if options.arguments:
            raise UserError(
                f"expected no arguments for IR text, found {' '.join(options.arguments)}",
                remedy="leave the arguments out; --seed and --size choose random arrays",
            )
        found = reproducer_in(options.program)
        if found.attempt is not None:
            return found
        if found.arrays is not None and options.seed is None and not options.size:
            return found
        return replace(found, arrays=arrays_for(found.module, (), options))
    function, written = called
    module = function.trace(*written.given, **written.named)
    leaves = flatten(function.parameters.bind(tuple(written.given), written.named).values)[0]
    arrays = arrays_for(module, leaves, options)
    return Reproducer(module, arrays=arrays, threads=Target.host().threads)


def arrays_for(
    module: Module, leaves: Sequence[Any], options: argparse.Namespace
) -> tuple[Array, ...] | None:
    """Arrays for the parameters: those on the command line, and random ones for the others.

    The answer is None if derivatives cannot be expanded, so that the domains of operations are
    unknown.
    """
    from dlvm.trust.inputs import drawn

    try:
        arrays = drawn(expand(module), options.seed or 0, sizes_of(options.size))
    except CompilerError:
        return None
    for i, (leaf, like) in enumerate(zip(leaves, arrays, strict=False)):
        if not isinstance(leaf, Spec) and np.shape(leaf) == like.shape:
            arrays[i] = np.asarray(leaf).astype(like.dtype)
    return tuple(arrays)
