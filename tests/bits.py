"""The bits of what machine code gives, of some thousand programs: kept before a change, read after.

    python -m tests.bits --keep FILE [--seeds 160]     writes a line for each program
    python -m tests.bits FILE                          tells which programs give other bits now

A program is drawn from the number of a seed and its kind, those of the fuzzer; its line has a
digest of its text, so that a program which is drawn otherwise now is told as such, and a digest of
its results. The bits are those of this kind of processor, which stands in the first line. Each
program runs on one thread and on two, and both give the same bits. A batch runs in a child
process, as compiling leaks a little.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from dlvm.compile import Options, Road
from dlvm.target import Target
from dlvm.testing.drawing.dice import Seeded
from tests.fuzz.case import Case
from tests.fuzz.subjects import KINDS

BATCH = 10
THREADS = (1, 2)


def digest(parts: Sequence[bytes]) -> str:
    """A short name of some bytes."""
    return hashlib.sha256(b"|".join(parts)).hexdigest()[:16]


def bits(case: Case) -> str:
    """The digest of what a program gives; of the error where it ends in one."""
    program = case.program()
    found: list[str] = []
    for threads in THREADS:
        arrays = [a.copy() for a in program.arrays]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                road = Road(program.module, Options(threads=threads))
                results = road.executable.run(arrays, write=lambda text: None)
            parts = [f"{r.dtype}{r.shape}".encode() + canonical(r) for r in results]
        except Exception as error:
            parts = [type(error).__name__.encode(), str(error).splitlines()[0].encode()]
        found.append(digest(parts))
    return found[0] if len(set(found)) == 1 else "threads differ: " + ", ".join(found)


def canonical(x) -> bytes:
    """The bytes of an array, every NaN as one: which it is, no arithmetic promises."""
    x = x.copy()
    if x.dtype.kind not in "iub":
        x[x != x] = float("nan")
    return x.tobytes()


def lines(first: int, count: int) -> Iterator[str]:
    """A line for each program of some seeds."""
    for seed in range(first, first + count):
        for kind, draw in KINDS.items():
            case = draw(Seeded(seed))
            text = digest([str(case).encode()])
            yield f"{kind.replace(' ', '-')} {seed} {text} {bits(case)}"


def batches(seeds: range) -> Iterator[str]:
    """The lines of all seeds, from child processes."""
    for first in range(seeds.start, seeds.stop, BATCH):
        count = min(BATCH, seeds.stop - first)
        command = [sys.executable, "-m", "tests.bits", "--child", str(first), str(count)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "DLVM_CACHE": "0"}
        )
        yield from done.stdout.splitlines()
        if done.returncode:
            yield f"died {first} {done.returncode} {done.stderr.strip()[-200:]!r}"


def head() -> str:
    """The kind of processor that bits are of."""
    target = Target.host()
    return f"# {target.triple} {target.cpu} {digest([target.features.encode()])}"


def compared(before: Sequence[str]) -> int:
    """Tell what differs from what was kept; how many programs do."""
    if before[0] != head():
        print(f"kept on another processor: {before[0]}, this is {head()}")
        return 1
    kept = {tuple(line.split()[:2]): line.split()[2:] for line in before[1:]}
    seeds = [int(seed) for _, seed in kept]
    told: Counter[str] = Counter()
    for line in batches(range(min(seeds), max(seeds) + 1)):
        kind, seed, *now = line.split(maxsplit=3)
        was = kept.get((kind, seed))
        state = "the same"
        if was is None or was[0] != now[0]:
            state = "another program"
        elif was[1:] != now[1].split():
            state = "other bits"
        told[state] += 1
        if state != "the same":
            print(f"{kind} {seed}: {state}", flush=True)
    print(", ".join(f"{count} {state}" for state, count in told.items()))
    return told["other bits"]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.bits", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--seeds", type=int, default=160)
    parser.add_argument("--child", type=int, nargs=2)
    options = parser.parse_args()
    if options.child:
        for line in lines(*options.child):
            print(line, flush=True)
    elif options.keep:
        found = [head(), *batches(range(options.seeds))]
        options.keep.write_text("\n".join(found) + "\n", "utf8")
        print(f"{len(found) - 1} programs, in {options.keep}")
    else:
        sys.exit(bool(compared(options.file.read_text("utf8").splitlines())))


if __name__ == "__main__":
    main()
