"""``make map``: runs every file of tests in a process of its own, and notes what each test runs.

python -m tests.quick.mapping [--only tests/opt] [--jobs 2]

A process starts with empty caches, so what a test finds ready, a test of its file has made.
Every function notes its first call by a test (``tracing/sitecustomize.py``).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from .mapped import MAP, Map, digest, file_of, test_files
from .sources import ROOT, source, sources

TRACING = Path(__file__).parent / "tracing"
GOLDEN = "tests/golden"
Notes = dict[str, tuple[list[str], float]]
"""The notes of each test and its seconds; under "" stands what was noted before the first."""


class Begins:
    """Tells the tracer which test begins."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        sys.modules["sitecustomize"].NOTES_OF.begin(nodeid)  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:  # it ran less than it would have
            sys.modules["sitecustomize"].NOTES_OF.write("P")  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Begins(), "begins")


def kept() -> Iterator[str]:
    """The functions whose results outlive a call."""
    for name in sources():
        yield from (f"{name}:{function}" for function in source(name).kept)


def run(file: str, notes: Path, cached: Path) -> tuple[Notes, str]:
    """The notes of one file of tests, and what it said if it failed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DLVM_")}
    env |= {"PYTHONPATH": f"{TRACING}:{ROOT}", "SUITE_NOTES": str(notes), "SUITE_ROOT": str(ROOT)}
    env |= {"SUITE_CACHED": str(cached), "SUITE_WHOLE": "1"}
    env |= {"SUITE_BYTECODE": str(cached.parent / "bytecode")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "--assert=plain"]
    command += ["-p", "tests.quick.mapping", file]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    said = (done.stdout + done.stderr)[-2000:] if done.returncode not in (0, 5) else ""
    return dict(read(notes, time.monotonic())), said


def read(notes: Path, end: float) -> Iterator[tuple[str, tuple[list[str], float]]]:
    """The notes of a file, test by test, and the seconds of each."""
    test, found, start = "", [], 0.0
    for line in notes.read_text("utf8").splitlines():
        if line.startswith("T "):
            _, now, name = line.split(" ", 2)
            yield test, (found, float(now) - start)
            test, found, start = name, [], float(now)
        else:
            found.append(line)
    yield test, (found, end - start)


def joined(notes: dict[str, Notes]) -> Map:
    """The map that the notes of all files make."""
    tests = sorted(t for found in notes.values() for t in found if t)
    names = {
        n[2:] for found in notes.values() for lines, _ in found.values() for n in lines if n[2:]
    }
    functions = sorted(names)
    column = {name: i for i, name in enumerate(functions)}
    row = {test: i for i, test in enumerate(tests)}
    files = sorted({file_of(test) for test in tests})
    ran = np.zeros((len(tests), len(functions)), bool)
    shared = np.zeros((len(files), len(functions)), bool)
    always, apart = np.zeros(len(functions), bool), np.zeros(len(tests), bool)
    for found in notes.values():
        own = [files.index(f) for f in sorted({file_of(test) for test in found if test})]
        for test, (lines, _) in found.items():
            whose = [row[t] for t in ([test] if test else found) if t]
            apart[whose] |= "P" in lines
            kinds = {k: [column[n[2:]] for n in lines if n[:2] == f"{k} "] for k in "RFI"}
            always[kinds["I"]] = True
            shared[np.ix_(own, kinds["F"] + (kinds["R"] if not test else []))] = True
            ran[np.ix_(whose if test else [], kinds["R"])] = True
    seconds = {test: took for found in notes.values() for test, (_, took) in found.items()}
    cost = np.array([seconds[test] for test in tests], np.float32)
    return Map(
        tests, functions, ran, shared, always, apart, cost, {n: digest(n) for n in sources()}
    )


def main() -> int:
    """Make the map; how many files failed, whose notes count all the same."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="tests/", help="files that begin so")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=MAP)
    options = parser.parse_args()
    files = [n for n in (*test_files(), GOLDEN) if n.startswith(options.only)]
    notes: dict[str, Notes] = {}
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        cached = Path(folder) / "cached"
        cached.write_text("\n".join(kept()), "utf8")
        runs = {f: pool.submit(run, f, Path(folder) / str(i), cached) for i, f in enumerate(files)}
        for file, each in runs.items():
            notes[file], said = each.result()
            failed += bool(said)
            took = sum(took for test, (_, took) in notes[file].items() if test)
            print(f"{took:6.1f} s {file}{': FAILED' if said else ''}", flush=True)
            print(said, end="")
    made = joined(notes)
    made.save(options.out)
    print(f"{len(made.tests)} tests, {len(made.functions)} functions, {failed} files failed")
    return failed


if __name__ == "__main__":
    sys.exit(main())
