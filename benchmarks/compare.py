"""Two commits beside one another: the same races, in processes that take turns.

    python -m benchmarks.compare BEFORE [AFTER] [--only TEXT] [--turns 3] [--threads N]

Each commit is checked out in a folder of its own; without AFTER it is the working tree. The quick
races are run in turn, and the medians of dlvm's times are compared: above 1, AFTER is faster.
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
        times: dict[str, Times] = {name: {} for name in folders}
        for turn in range(options.turns):
            print(f"turn {turn + 1} of {options.turns}", flush=True)
            for name, folder in folders.items():
                races(folder, Path(scratch), options.only, options.threads, times[name])
    show(times["before"], times["after"])


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
    command += ["--only", only, "--threads", str(threads)]
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
        into.setdefault(f"{race['name']} {race['size']}", []).append(race["ms"]["dlvm"])


def show(before: Times, after: Times) -> None:
    """A line for each race that both could run."""
    print(f"{'':52}{'before ms':>11}{'after ms':>11}  before/after")
    for name in before:
        if name in after:
            old, new = statistics.median(before[name]), statistics.median(after[name])
            print(f"{name:52}{old:11.4f}{new:11.4f}{old / new:14.2f}")


if __name__ == "__main__":
    main()
