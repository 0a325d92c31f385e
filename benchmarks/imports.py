"""What ``import dlvm`` costs beyond ``import numpy``, in fresh processes that take turns.

    python benchmarks/imports.py [--rounds 15] [--out benchmarks/out/imports.json] [--detail]

Each round starts a process for each line of the table; the medians are shown, in milliseconds.
Byte code is written first, as installing does, and kept in a folder of its own. ``--detail``
names the modules that take longest by themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out" / "imports.json"
PROGRAMS = {
    "python": "pass",
    "numpy": "import numpy",
    "dlvm": "import numpy, dlvm",
    "dlvm and what compiles": "import numpy, dlvm, dlvm.gen.build, dlvm.ad, dlvm.opt.pipelines",
}
CLOCK = "import time; start = time.perf_counter()\n{}\nprint(time.perf_counter() - start)"


def environment(folder: str) -> dict[str, str]:
    """That of the processes, in which byte code may be written whatever the caller's says."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": folder}


def python(program: str, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True)


def medians(rounds: int, env: dict[str, str]) -> dict[str, float]:
    """Seconds of each program."""
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for turn in range(rounds + 1):
        for name, program in PROGRAMS.items():
            taken = float(python(CLOCK.format(program), env).stdout)
            if turn:  # the first writes byte code
                times[name].append(taken)
    return {name: statistics.median(found) for name, found in times.items()}


def slowest(env: dict[str, str], shown: int = 20) -> list[tuple[str, float]]:
    """The modules that take longest by themselves, in seconds."""
    report = python(PROGRAMS["dlvm"], env, "-X", "importtime").stderr
    lines = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", report)
    ours = [(name, int(us) / 1e6) for us, name in lines if not name.startswith("numpy")]
    return sorted(ours, key=lambda found: -found[1])[:shown]


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="the cost of importing dlvm")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--detail", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        env = environment(folder)
        found = medians(options.rounds, env)
        for name, seconds in found.items():
            print(f"{name:24}{seconds * 1e3:8.1f}{(seconds - found['numpy']) * 1e3:+8.1f}")
        for name, seconds in slowest(env) if options.detail else ():
            print(f"    {seconds * 1e3:8.1f}  {name}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    fields = ({"benchmark": "imports", "name": n, "seconds": s} for n, s in found.items())
    options.out.write_text("".join(json.dumps(f) + "\n" for f in fields), "utf8")


if __name__ == "__main__":
    main()
