"""The command: batches of cases in child processes, until the time is over or there were enough.

An LLVM error ends a process and compiling leaks a little, so each child compiles a batch and
ends; one that dies or hangs is told with its case. Cases that fail stay in the folder ``--keep``
as ``.dlvm`` files, which ``--replay`` runs again; choices that reached something new stay there
too, and later runs begin with them.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from . import hostile
from .case import read
from .child import ALL, BATCH, CURRENT, SECONDS, child, keep_case
from .judge import judge
from .slopes import judge as judge_slopes

EVERY = (*ALL, *hostile.KINDS)


def fuzz(seconds: float, cases: float, first: int, kinds: Sequence[str], keep: Path) -> int:
    """Batches; how many cases failed."""
    failures, end, seed = 0, time.monotonic() + seconds, first
    while time.monotonic() < end and (seed - first) * len(kinds) < cases:
        told = batch(seed, kinds, keep)
        failures += len(told)
        print(*told, sep="\n", end="\n" if told else "", flush=True)
        seed += BATCH
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    hours = (used.ru_utime + used.ru_stime) / 3600
    count = (seed - first) * len(kinds)
    print(f"{count} cases, {failures} failures, {hours:.2f} core-hours, next seed {seed}")
    return failures


def batch(seed: int, kinds: Sequence[str], keep: Path) -> list[str]:
    """One child; what it says has failed, and whether it died."""
    command = [sys.executable, "-m", "tests.fuzz", "--child", str(seed), "--keep", str(keep)]
    command += ["--kinds", ",".join(kinds)]
    own = {**os.environ, "DLVM_CACHE": "0"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=own)
    lines = done.stdout.splitlines()
    told = [line for line in lines if line.startswith("FAIL")]
    if done.returncode:
        last = next((line for line in reversed(lines) if line.startswith("try")), f"try all {seed}")
        kind, at = re.fullmatch(r"try (.*) (\d+)", last).groups()  # type: ignore[union-attr]
        keep_case(keep / CURRENT, keep, kind, int(at))
        how = f"took over {SECONDS} s" if done.returncode == -14 else f"died ({done.returncode})"
        told.append(f"DIED {kind} {at} {how}: {done.stderr.strip()[-300:]}")
    return told


def replay(file: Path) -> None:
    """Judge a kept case again, in this process."""
    case = read(file.read_text("utf8"))
    if file.name.startswith("slopes"):
        judge_slopes(case)
    else:
        list(judge(case))
    print(f"{file.name}: nothing is wrong")


def main() -> int:
    """Parse the command line, and do what it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--programs", type=float, default=float("inf"), help="cases in all")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", default=",".join(EVERY), help="of what kinds, by commas")
    parser.add_argument("--keep", type=Path, help="where cases that fail are kept")
    parser.add_argument("--replay", type=Path, nargs="*", help="kept cases to be judged again")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    keep = options.keep or Path(tempfile.mkdtemp(prefix="dlvm-fuzz-"))
    keep.mkdir(parents=True, exist_ok=True)
    if options.replay:
        for file in options.replay:
            replay(file)
        return 0
    if options.child is not None:
        child(options.child, kinds, keep)
        return 0
    print(f"cases that fail are kept in {keep}", flush=True)
    return 1 if fuzz(options.seconds, options.programs, options.first, kinds, keep) else 0


if __name__ == "__main__":
    sys.exit(main())
