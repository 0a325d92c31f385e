"""Looks for faults at random until the time is over, in every way that the project knows.

python -m tests.sweep --seconds 600 --seed 1 [--keep FOLDER]

Eight sweeps share the time: the fuzzer, the suite's own properties with forty times as many
examples, the cases of which a run of the suite draws a part, operations between guard pages,
scripts about threads, forks, signals and disks, faults that are planted and must be found by
random programs, old bugs and other faults that the suite itself must find, and calls that must
leave no memory behind. Each unit of a sweep is a command of its own; one that fails is printed,
what it said lies in the folder, and the command repeats it.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dlvm.testing.drawing.random_programs import TRACED

from .faults import BUGS
from .robust import SCRIPTS

ROOT = Path(__file__).parents[1]
UNIT = 60
"""Seconds that a unit of a sweep takes, where it can be told how long to look."""


@dataclass
class Sweep:
    """One way to look for faults: the command of a unit, and what share of the time it gets."""

    name: str
    share: float
    command: Callable[[random.Random, int], str]
    spent: float = field(default=0.0)


def _fuzz(dice: random.Random, seconds: int) -> str:
    return f"-m tests.fuzz --seconds {seconds} --first {dice.randrange(1 << 30)}"


def _long(dice: random.Random, seconds: int) -> str:
    return f"-m pytest -q -n 2 --shuffle --seconds {seconds} -k 'not robust and not planted'"


def _drawn(_: random.Random, seconds: int) -> str:
    return f"-m pytest -q -n 2 --shuffle --seconds {seconds} -m drawn"


def _guards(dice: random.Random, _: int) -> str:
    return f"-m tests.guards --only {dice.choice(TRACED).name}"


def _robust(dice: random.Random, _: int) -> str:
    return f"-m tests.robust.{dice.choice(SCRIPTS)}"


def _planted(dice: random.Random, _: int) -> str:
    names = dice.sample([bug.name for bug in BUGS], 3)
    return f"-m tests.planted {shlex.join(names)}"


def _power(dice: random.Random, _: int) -> str:
    return f"-m tests.power --random {dice.randrange(1 << 30)} --seeds {dice.randrange(1 << 16)}"


def _leaks(_: random.Random, seconds: int) -> str:
    return f"-m tests.leaks --calls {seconds * 1000}"


def sweeps() -> list[Sweep]:
    """All of them; the shares are relative."""
    return [
        Sweep("fuzz", 4, _fuzz),
        Sweep("long", 3, _long),
        Sweep("drawn", 2, _drawn),
        Sweep("guards", 1, _guards),
        Sweep("robust", 1, _robust),
        Sweep("planted", 0.5, _planted),
        Sweep("power", 0.5, _power),
        Sweep("leaks", 0.5, _leaks),
    ]


def run(sweep: Sweep, seed: int, seconds: float, keep: Path) -> bool:
    """One unit, cut off where the time is over; whether it found nothing."""
    command = sweep.command(random.Random(seed), max(int(min(UNIT, seconds)), 1))
    own = {"SUITE_SEED": str(seed), "SUITE_WHOLE": "1"}
    if sweep.name == "long":
        own["HYPOTHESIS_PROFILE"] = "long"
    unit = subprocess.Popen(
        [sys.executable, *shlex.split(command)],
        cwd=ROOT,
        env={**os.environ, **own},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = unit.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(unit.pid, signal.SIGKILL)
        unit.communicate()
        return True
    if unit.returncode:
        file = keep / f"{sweep.name}-{seed}.txt"
        file.write_text(said, "utf8")
        words = " ".join(f"{name}={value}" for name, value in own.items())
        print(f"FAILED {sweep.name}: {words} python {command}\n  said in {file}", flush=True)
    return not unit.returncode


def main() -> int:
    """Sweep; how many units failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=ROOT / "out" / "sweep")
    parser.add_argument("--only", help="the name of one sweep")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    ways = [w for w in sweeps() if options.only in (None, w.name)]
    end, seed, failed, units = time.time() + options.seconds, options.seed, 0, 0
    print(f"seed {seed}", flush=True)
    while (left := end - time.time()) > 0:
        sweep = min(ways, key=lambda w: w.spent / w.share)
        start = time.time()
        failed += not run(sweep, seed, left, options.keep)
        sweep.spent += time.time() - start
        seed, units = seed + 1, units + 1
    told = ", ".join(f"{w.name} {w.spent:.0f} s" for w in ways if w.spent)
    print(f"{units} units, {failed} failed ({told}); next seed {seed}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
