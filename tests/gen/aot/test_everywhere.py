"""Under every processor written functions give the bits of a call here, wherever it multiplies and
adds in one step; elsewhere they are as near as rounding lets them be.

    python -m tests.gen.aot.test_everywhere [--drawn 100] [TARGET ...]     all, as a table

The suite runs a few of them on each target whose tools are on PATH, and says which are not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from dlvm.ir import dtype_of
from dlvm.targets import named

from .elsewhere import RUNNERS, outcomes
from .programs import Drawn, Program, programs, random_programs
from .running import Loaded

RANDOM, CHUNK = 30, 40
"""Random programs that the suite looks at, and programs that one executable holds."""
SOME = ("train", "ordered", "special32", "int8", "halves", "grown", "deeper", "random")
EXACT = {"thumbv7em-none-eabihf": ("special64", "product64", "random")}
"""Programs that compute in f64 on a processor that has none."""
OLD_QEMU = {"riscv64-linux-gnu+v": ("special32", "special64")}
"""Programs with instructions at which qemu 7.2 ends with a failed assertion of its own."""


def host_runs(target: str) -> bool:
    """Whether this machine has the instructions of a target."""
    here, wanted = named("host"), named(target)
    if wanted.triple.split("-")[0] != here.triple.split("-")[0]:
        return False
    return set(wanted.features.split(",")) - {"+sahf", "+cx16", "+lzcnt"} <= set(
        here.features.split(",")
    )


def obstacle(target: str) -> str:
    """Why a target can't be run here, if it can't."""
    runner = RUNNERS[target]
    if missing := runner.missing():
        return f"not on PATH: {', '.join(missing)}"
    return "" if runner.emulator or host_runs(target) else "this processor lacks instructions"


def exact(program: Program | Drawn, target: str) -> bool:
    """Whether bits are promised."""
    doubles = named(target).doubles or not is_drawn(program)
    return named(target).fma and doubles and program.name not in EXACT.get(target, ())


def is_drawn(program: Program | Drawn) -> bool:
    """Whether nobody wrote it."""
    return isinstance(program, Drawn)


def difference(found, expected) -> float:
    """0 where all bits are the same, any NaN for any NaN; else how far, of the largest element."""
    worst = 0.0
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        known = dtype_of(b)
        same = np.array_equal(a, b, equal_nan=known is not None and known.is_float)
        if a.size and not same:
            wide, true = a.astype(np.float64), b.astype(np.float64)
            assert (np.isnan(wide) == np.isnan(true)).all()
            apart = np.nanmax(np.abs(wide - true)) / np.nanmax(np.abs(true))
            worst = max(
                worst,
                float(apart) / float(np.finfo(true.dtype if a.itemsize == 8 else np.float32).eps),
            )
    return worst


@pytest.mark.parametrize("target", RUNNERS)
def test_programs_give_the_same_everywhere(target: str, tmp_path: Path):
    if why := obstacle(target):
        pytest.skip(f"{target}: {why}")
    left_out = OLD_QEMU.get(target, ())
    chosen = [p for p in programs() if p.name in SOME and p.name not in left_out]
    found, _ = outcomes(chosen, target, tmp_path)
    for program, (status, results) in zip(chosen, found, strict=True):
        apart = difference(results, program.expected())
        assert status == 0 and apart <= (0 if exact(program, target) else 16), program.name


@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "wasm32"])
def test_random_programs_give_the_same_elsewhere(target: str, tmp_path: Path):
    if why := obstacle(target):
        pytest.skip(f"{target}: {why}")
    chosen = random_programs(RANDOM)
    found, _ = outcomes(chosen, target, tmp_path)
    for program, (status, results) in zip(chosen, found, strict=True):
        apart = difference(results, program.expected())
        assert status == 0 and apart <= (16 if target == "wasm32" else 0), program.name


@pytest.mark.drawn(3)
@pytest.mark.parametrize("program", list(programs()), ids=lambda p: p.name)
def test_programs_give_the_same_here(program: Program):
    bundle = program.bundle("host")
    found = Loaded(bundle, "host")(*program.arrays, misaligned=1)
    results = [found[r.get("into", r["name"])] for r in bundle.description["results"]]
    assert difference(results, program.expected()) == 0


def main() -> int:
    """A line for each target."""
    parser = argparse.ArgumentParser(description="written functions under every processor")
    parser.add_argument("--drawn", type=int, default=100, help="random programs beside the others")
    parser.add_argument("targets", nargs="*", default=list(RUNNERS))
    options = parser.parse_args()
    chosen = [*programs(), *random_programs(options.drawn)]
    expected = {p.name: p.expected() for p in chosen}
    worst = 0
    for target in options.targets:
        if why := obstacle(target):
            print(f"{target:26} not run: {why}")
            continue
        left_out = OLD_QEMU.get(target, ())
        own = [p for p in chosen if not (p.name in left_out or (left_out and is_drawn(p)))]
        start, size, same, wrong = time.perf_counter(), 0, 0, list[str]()
        for first in range(0, len(own), CHUNK):
            some = own[first : first + CHUNK]
            with tempfile.TemporaryDirectory() as folder:
                found, bundles = outcomes(some, target, Path(folder))
            size += sum(len(b.files[f"{b.description['name']}.o"]) for b in bundles)
            for program, (status, results) in zip(some, found, strict=True):
                apart = difference(results, expected[program.name])
                same += apart == 0
                if status or apart > (0 if exact(program, target) else 16):
                    wrong.append(program.name)
        seconds = time.perf_counter() - start
        near = len(own) - same - len(wrong)
        print(
            f"{target:26} {len(own)} programs: {same} of the same bits, {near} within rounding, "
            f"{len(wrong)} wrong {' '.join(wrong)}; {size >> 10} KB of objects, {seconds:.0f} s",
            flush=True,
        )
        worst += len(wrong)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
