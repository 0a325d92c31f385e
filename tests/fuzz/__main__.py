"""The command: batches of cases in child processes, until the time is over or there were enough.

An LLVM error ends a process and compiling leaks a little, so each child compiles a batch and
ends; one that dies or hangs is told with its case. Cases that fail stay in the folder ``--keep``
as ``.dlvm`` files, which ``--replay`` runs again, and beside each what it was cut down to; choices
that reached something new stay there too, and later runs begin with them. What a run has cost so
far is told after each batch, and when it is stopped.

``--planted`` makes faults on purpose (``tests.planted``), one after the other, and says how long
the same cases took to meet each of them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults import BUGS

from . import names
from .case import read
from .child import ALL, BATCH, CURRENT, OWN, SECONDS, child, keep_case, kept
from .judge import judge
from .shrink import shrink
from .slopes import judge as judge_slopes

EVERY = (*ALL, *OWN)
FAILED = re.compile(r"(?:FAIL|DIED) (.*?) (\d+) ")
ENOUGH = 3
"""How many cases of a batch are cut down."""
HOUR = 3600.0


@dataclass
class Run:
    """Batch after batch of some kinds, with or without a fault that was planted."""

    kinds: Sequence[str]
    keep: Path
    seed: int
    planted: str = ""
    cases: int = 0
    failures: int = 0
    started: float = field(default_factory=lambda: used())

    def batch(self) -> list[str]:
        """One child; what it says has failed, and whether it died."""
        command = ["--child", str(self.seed), "--kinds", ",".join(self.kinds)]
        done = self.asked(*command)
        lines = done.stdout.splitlines()
        told = [line for line in lines if line.startswith("FAIL")]
        if done.returncode:
            last = next((t for t in reversed(lines) if t.startswith("try")), f"try all {self.seed}")
            kind, at = re.fullmatch(r"try (.*) (\d+)", last).groups()  # type: ignore[union-attr]
            keep_case(self.keep / CURRENT, self.keep, kind, int(at))
            how = (
                f"took over {SECONDS} s" if done.returncode == -14 else f"died ({done.returncode})"
            )
            told.append(f"DIED {kind} {at} {how}: {done.stderr.strip()[-300:]}")
        self.seed += BATCH
        self.cases += sum(line.startswith("try") for line in lines)
        self.failures += len(told)
        return told

    def asked(self, *words: str) -> subprocess.CompletedProcess[str]:
        """This command in a process of its own."""
        command = [sys.executable, "-m", "tests.fuzz", *words, "--keep", str(self.keep)]
        command += ["--planted", self.planted] if self.planted else []
        own = {**os.environ, "DLVM_CACHE": "0"}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=own)

    def cut(self, told: str) -> str:
        """What a case that failed was cut down to, and whose fault it is."""
        kind, seed = FAILED.match(told).groups()  # type: ignore[union-attr]
        file = kept(self.keep, kind, int(seed))
        return self.asked("--shrink", str(file)).stdout.strip() if file.exists() else ""

    @property
    def seconds(self) -> float:
        """The processor's time of all children, and of their children."""
        return used() - self.started

    def __str__(self) -> str:
        hours = f"{self.seconds / HOUR:.3f} core-hours"
        return f"{self.cases} cases, {self.failures} failures, {hours}, next seed {self.seed}"


def used() -> float:
    """The time that the processor has spent on children so far."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def fuzz(run: Run, seconds: float, cases: float) -> int:
    """Batches until the time is over; how many cases failed."""
    end = time.monotonic() + seconds
    with contextlib.suppress(KeyboardInterrupt):
        while time.monotonic() < end and run.cases < cases:
            told = run.batch()
            for line in told:
                print(line, flush=True)
            for line in [t for t in told if FAILED.match(t)][:ENOUGH]:
                print(run.cut(line), flush=True)
            print(run, flush=True)
    print(f"in all {run}", flush=True)
    return run.failures


def hunt(run: Run, seconds: float) -> bool:
    """Batches until a fault that was planted is found; how long that took, and what is said."""
    told: list[str] = []
    while not told and run.seconds < seconds:
        told = run.batch()
    spent = run.seconds
    if not told:
        print(f"{run.planted:16} not found in {run.cases} cases, {spent:.0f} s", flush=True)
        return False
    cut = run.cut(told[0]).partition("\n")[0]
    seen = " ".join(FAILED.match(told[0]).groups())  # type: ignore[union-attr]
    print(f"{run.planted:16} {spent:6.0f} s {run.cases:6} {seen:20} {cut}", flush=True)
    return True


def planted(names: Sequence[str], kinds: Sequence[str], first: int, seconds: float) -> int:
    """The table of faults; how many were not found."""
    missed = 0
    print(f"{'fault':16} {'found after':>8} {'cases':>6} {'by':20} cut down and named")
    start = used()
    for name in names or [bug.name for bug in BUGS]:
        keep = Path(tempfile.mkdtemp(prefix="dlvm-planted-"))
        missed += not hunt(Run(kinds, keep, first, name), min(seconds, HOUR))
    print(f"{used() - start:.0f} s of the processor in all, {missed} not found")
    return missed


def replay(file: Path) -> None:
    """Judge a kept case again, in this process."""
    if file.name.startswith("names"):
        names.judge(int(file.stem.rpartition("-")[2]), file)
        print(f"{file.name}: nothing is wrong")
        return
    case = read(file.read_text("utf8"))
    if file.name.startswith("slopes"):
        judge_slopes(case)
    else:
        list(judge(case))
    print(f"{file.name}: nothing is wrong")


def shrink_file(file: Path) -> None:
    """Write what a case can be cut down to beside it, and say whose fault it is."""
    found = shrink(read(file.read_text("utf8")))
    if found is None:
        print("nothing smaller was looked for: it does not fail again")
        return
    file.with_suffix(".small").write_text(str(found), "utf8")
    law = found.failure.law
    print(f"{found.program.ops} operations, {found.failure.stage}: {law.name if law else '-'}")
    print(found)


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--programs", type=float, default=float("inf"), help="cases in all")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--kinds", default=",".join(EVERY), help="of what kinds, by commas")
    parser.add_argument("--keep", type=Path, help="where cases that fail are kept")
    parser.add_argument("--replay", type=Path, nargs="*", help="kept cases to be judged again")
    parser.add_argument("--planted", nargs="*", help="look for faults that are planted")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--shrink", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def work(options: argparse.Namespace, kinds: Sequence[str], keep: Path) -> int:
    """What a child does."""
    with contextlib.ExitStack() as stack:
        for bug in BUGS:
            if bug.name in (options.planted or ()):
                stack.enter_context(bug.plant())
        if options.shrink:
            shrink_file(options.shrink)
        else:
            child(options.child, kinds, keep, only=bool(options.planted))
    return 0


def main() -> int:
    """Do what the command line says."""
    options = parsed()
    kinds = options.kinds.split(",")
    if options.replay:
        for file in options.replay:
            replay(file)
        return 0
    if options.planted is not None and options.child is None and options.shrink is None:
        return 1 if planted(options.planted, kinds, options.first, options.seconds) else 0
    keep = options.keep or Path(tempfile.mkdtemp(prefix="dlvm-fuzz-"))
    keep.mkdir(parents=True, exist_ok=True)
    if options.child is not None or options.shrink is not None:
        return work(options, kinds, keep)
    print(f"cases that fail are kept in {keep}", flush=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    return 1 if fuzz(Run(kinds, keep, options.first), options.seconds, options.programs) else 0


if __name__ == "__main__":
    sys.exit(main())
