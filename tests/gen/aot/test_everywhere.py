"""Under every processor written functions give the bits of a call here, wherever it multiplies and
adds in one step; elsewhere they are as near as rounding lets them be.

    python -m tests.gen.aot.test_everywhere [TARGET ...]     all programs, as a table

The suite runs a few of them on each target whose tools are on PATH, and says which are not.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from dlvm.ir import dtype_of
from dlvm.targets import named

from .elsewhere import RUNNERS, outcomes
from .programs import Program, programs
from .running import Loaded

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


def exact(program: Program, target: str) -> bool:
    """Whether bits are promised."""
    return named(target).fma and program.name not in EXACT.get(target, ())


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


@pytest.mark.parametrize("program", list(programs()), ids=lambda p: p.name)
def test_programs_give_the_same_here(program: Program):
    bundle = program.bundle("host")
    found = Loaded(bundle, "host")(*program.arrays, misaligned=1)
    results = [found[r.get("into", r["name"])] for r in bundle.description["results"]]
    assert difference(results, program.expected()) == 0


def main() -> int:
    """A line for each target."""
    chosen = list(programs())
    expected = {p.name: p.expected() for p in chosen}
    worst = 0
    for target in sys.argv[1:] or RUNNERS:
        if why := obstacle(target):
            print(f"{target:26} not run: {why}")
            continue
        own = [p for p in chosen if p.name not in OLD_QEMU.get(target, ())]
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            found, bundles = outcomes(own, target, Path(folder))
        seconds = time.perf_counter() - start
        size = sum(len(b.files[f"{b.description['name']}.o"]) for b in bundles)
        same, near, wrong = 0, 0, list[str]()
        for program, (status, results) in zip(own, found, strict=True):
            apart = difference(results, expected[program.name])
            same += apart == 0
            near += 0 < apart <= 16 and not exact(program, target)
            if status or apart > (0 if exact(program, target) else 16):
                wrong.append(program.name)
        print(
            f"{target:26} {len(own)} programs: {same} of the same bits, {near} within rounding, "
            f"{len(wrong)} wrong {' '.join(wrong)}; {size >> 10} KB of objects, {seconds:.0f} s",
            flush=True,
        )
        worst += len(wrong)
    return 1 if worst else 0


if __name__ == "__main__":
    sys.exit(main())
