"""Two commits beside one another: the same races, in processes that take turns.

    python -m benchmarks.compare BEFORE [AFTER] [--only TEXT] [--turns 3] [--threads N]

Each commit is checked out in a folder of its own; without AFTER it is the working tree. The quick
races are run in turn, and the medians of dlvm's times are compared: above 1, AFTER is faster. What
one of the two can't run is left out. Races in which AFTER takes more than ``LIMIT`` times as long
are run again, and the exit code is 1 if one of them is again that much slower.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
Times = dict[str, list[float]]
LIMIT = 1.1


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("before")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = {
            "before": checked_out(options.before, Path(scratch) / "before"),
            "after": checked_out(options.after, Path(scratch) / "after"),
        }
        told = options.turns, options.threads, Path(scratch)
        slower = show(*compared(folders, options.only, *told))
        print(f"\n{len(slower)} take more than {LIMIT} times as long; they are run again\n")
        names = sorted({name.partition("  ")[0] for name in slower})
        again = [name for only in names for name in show(*compared(folders, only, *told))]
    if twice := sorted({*slower} & {*again}):
        raise SystemExit(f"slower twice: {', '.join(twice)}")
    print("none is slower twice")


def compared(
    folders: dict[str, Path], only: str, turns: int, threads: int, scratch: Path
) -> tuple[Times, Times]:
    """The times of both, in processes that take turns."""
    before: Times = {}
    after: Times = {}
    for turn in range(turns):
        print(f"turn {turn + 1} of {turns}", file=sys.stderr, flush=True)
        races(folders["before"], scratch, only, threads, before)
        races(folders["after"], scratch, only, threads, after)
    return before, after


def checked_out(commit: str | None, folder: Path) -> Path:
    """A folder with the files of a commit, and the races of today; or the working tree."""
    if commit is None:
        return ROOT
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def races(folder: Path, scratch: Path, only: str, threads: int, into: Times) -> None:
    """Run the quick races of today on the code of a folder; a process of its own each time."""
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(scratch)]
    command += ["--keep-going", "--only", only, "--threads", str(threads)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    environment["DLVM_CACHE"] = "0"
    shadow = scratch / "run"
    shadow.mkdir(exist_ok=True)
    link = shadow / "benchmarks"
    link.unlink(missing_ok=True)
    link.symlink_to(ROOT / "benchmarks")
    done = subprocess.run(command, cwd=shadow, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the races failed on {folder}:\n{done.stderr[-2000:]}")
    for race in json.loads((scratch / "races.json").read_text())["races"]:
        into.setdefault(f"{race['name']}  {race['size']}", []).append(race["ms"]["dlvm"])


def show(before: Times, after: Times) -> list[str]:
    """Prints a line for each race that both could run; those in which AFTER is slower."""
    print(f"{'':52}{'before ms':>11}{'after ms':>11}  before/after")
    slower: list[str] = []
    for name in before:
        if name in after:
            old, new = statistics.median(before[name]), statistics.median(after[name])
            print(f"{name:52}{old:11.4f}{new:11.4f}{old / new:14.2f}", flush=True)
            slower += [name] if new > LIMIT * old else []
    return slower


if __name__ == "__main__":
    main()
