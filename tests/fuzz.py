"""Random programs against machine code for as long as you like, in child processes.

    python -m tests.fuzz --seconds 60 [--programs 1000] [--first 0]

Programs of whole numbers, of f64 and of f32 at edge sizes, of sizes that fill vectors and tiles,
and gradients. An LLVM error ends a process and compiling leaks a little, so each child compiles a
batch and ends; a child that dies names its seed by the last line that it wrote. Whole numbers
must be equal; floats, in programs of smooth operations only, within rounding.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import time
from collections.abc import Collection

import numpy as np

from dlvm.ad import expand
from dlvm.errors import UserError
from dlvm.gen.build import build
from dlvm.ir import BOOL, F32, F64, I8, I32, I64, U8, Declaration, DType, Module, Op
from dlvm.ops import ArgMax, Cast, CumulativeLogSumExp, Elementwise, LogSumExp, Modf
from dlvm.ops.logic import Comparison
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run

from .dice import Seeded
from .programs import TRACED, Program, random_program

BATCH = 40
Kind = tuple[tuple[DType, ...], Collection[type[Op]]]


def is_exact(cls: type[Op]) -> bool:
    """Whether it gives whole numbers from whole numbers, to the bit."""
    rounds = cls in (LogSumExp, CumulativeLogSumExp)
    return not (rounds or (issubclass(cls, Elementwise) and cls.accepts == "f"))


def is_smooth(cls: type[Op]) -> bool:
    """Whether a little error in stays a little error out."""
    return not issubclass(cls, Comparison | Cast | ArgMax | Modf)


SMOOTH = [c for c in TRACED if is_smooth(c)]
KINDS: dict[str, Kind] = {
    "whole": ((I64, I32, BOOL, U8, I8), [c for c in TRACED if is_exact(c) and c is not Cast]),
    "f64": ((F64,), SMOOTH),
    "f32": ((F32,), SMOOTH),
    "gradient": ((F64,), SMOOTH),
    "large": ((F32, F64), SMOOTH),
}
LARGE = (1, 16, 17, 33, 64, 71)
"""Sizes that fill vectors and tiles, and such that do not."""


def program_of(kind: str, seed: int) -> Program:
    """The program of a seed."""
    dtypes, classes = KINDS[kind]
    if kind == "gradient":
        return gradient_of(random_program(Seeded(seed), classes, dtypes, max_ops=10, loss=True))
    sizes = LARGE if kind == "large" else ()
    return random_program(Seeded(seed), classes, dtypes, max_ops=14, sizes=sizes)


def gradient_of(program: Program) -> Program:
    """The gradient of a program of one number, with the number, as a program of its own."""
    main = program.module.main
    wrt = tuple(i for i, p in enumerate(main.params) if p.dtype.is_float)
    adjoint = Declaration("adjoint", "gradient", main.name, wrt, (0,))
    functions = expand(Module((*program.module.entries, adjoint))).functions
    first = sorted(functions, key=lambda fn: fn.name != "gradient")
    return Program(Module(tuple(first)), program.arrays)


def check(program: Program, dtype: DType) -> None:
    """Machine code, for every result, against the interpreter."""
    with contextlib.redirect_stdout(io.StringIO()):
        code = build(run(expand(program.module), DEFAULT, verify=True))
        try:
            expected = program.run()
        except UserError:
            return
        found = code.run(program.arrays)
    error = float(np.finfo(dtype.numpy).eps) * 4096 if dtype.is_float else 0
    for a, b in zip(found, expected, strict=True):
        if b.dtype.kind in "iub":
            np.testing.assert_array_equal(a, b)
        elif np.isfinite(b).all() and float(np.abs(b).max(initial=0)) < 1e6:
            np.testing.assert_allclose(a, b, rtol=error, atol=error)


def child(first: int) -> None:
    """A batch of seeds; what fails is told and the rest goes on."""
    for seed in range(first, first + BATCH):
        for kind, (dtypes, _) in KINDS.items():
            print(f"try {kind} {seed}", flush=True)
            try:
                check(program_of(kind, seed), dtypes[0])
            except Exception as error:
                said = str(error).strip().splitlines() or [""]
                print(f"FAIL {kind} {seed} {type(error).__name__}: {said[0]}", flush=True)


def fuzz(seconds: float, programs: float, first: int) -> int:
    """Batches until the time is over or there were enough; how many seeds failed."""
    failures, end, seed = 0, time.monotonic() + seconds, first
    while time.monotonic() < end and (seed - first) * len(KINDS) < programs:
        command = [sys.executable, "-m", "tests.fuzz", "--child", str(seed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        told = [line for line in lines if line.startswith("FAIL")]
        if done.returncode:
            told.append(f"DIED {lines[-1] if lines else seed}: {done.stderr.strip()[-200:]}")
        failures += len(told)
        print(*told, sep="\n", end="\n" if told else "", flush=True)
        seed += BATCH
    print(f"{(seed - first) * len(KINDS)} programs, {failures} failures, next seed {seed}")
    return failures


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="random programs against machine code")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--programs", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--child", type=int)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child)
        return 0
    return 1 if fuzz(options.seconds, options.programs, options.first) else 0


if __name__ == "__main__":
    sys.exit(main())
