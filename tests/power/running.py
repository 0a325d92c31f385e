"""Runs the tests that must find a fault, in a copy of the sources that holds the fault."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .bugs_again import Bug
from .faults import Fault
from .plugin import PLANT

ROOT = Path(__file__).parents[2]
SOURCES = (
    "dlvm",
    "dsl",
    "ad",
    "opt",
    "gen",
    "tests",
    "tools",
    "examples",
    "docs",
    "pyproject.toml",
)
"""What is copied: the package, its tests, and what the tests read."""
SECONDS = 240
"""Seconds after which tests are stopped; a fault with which they do not end is missed."""
ENDED = " (the process ended)"
"""Follows the tests that ended the process instead of failing."""
OWN_TESTS = ("law", "failing law")
"""Faults that are laws of their own, so that the tests of these are not there without them."""


@dataclass(frozen=True)
class Result:
    """What the tests said of a fault under one seed."""

    name: str
    seed: int
    by: str
    """The test that failed first; empty where all passed."""
    seconds: float
    """Seconds of processor time of the run."""


@contextmanager
def copy_of_sources() -> Generator[Path]:
    """A temporary folder with the tracked files of the project."""
    with tempfile.TemporaryDirectory(prefix="dlvm-power-") as folder:
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES]
        names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if os.path.lexists(ROOT / name):
                to = Path(folder, name)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, to, follow_symlinks=False)
        yield Path(folder)


@contextmanager
def changed(root: Path, bug: Bug | None) -> Generator[None]:
    """A copy of the sources that holds a bug for a while."""
    if bug is None:
        yield
        return
    file = root / bug.file
    kept = file.with_name(file.name + ".kept")
    file.rename(kept)
    try:
        file.write_text(bug.applied(kept.read_text("utf8")), "utf8")
        yield
    finally:
        kept.replace(file)


def attempt(fault: Fault, seed: int, root: Path) -> Result:
    """Run the tests of a fault in a copy of the sources, under one seed."""
    with changed(root, fault.bug):
        return _tested(fault.name, fault.tests, "" if fault.bug else fault.name, seed, root)


def control(results: Sequence[Result], seed: int, root: Path) -> Result:
    """Run all tests that failed with a fault again, without one: all of them must pass."""
    found = (r for r in results if r.seed == seed and r.by and r.name not in OWN_TESTS)
    failed = sorted({r.by.removesuffix(ENDED) for r in found})
    return (
        _tested("no fault", failed, "", seed, root) if failed else Result("no fault", seed, "", 0)
    )


def _tested(name: str, tests: Sequence[str], plant: str, seed: int, root: Path) -> Result:
    """What tests say in a folder, where a fault is planted in their process if one is named."""
    with tempfile.TemporaryDirectory() as cache:
        own = {**os.environ, "SUITE_SEED": str(seed), "PYTHONPATH": str(root), PLANT: plant}
        words = ["-x", "-q", "-p", "tests.power.plugin", "-o", f"cache_dir={cache}", "--tb=line"]
        before = _of_children()
        said, code = _finished([sys.executable, "-m", "pytest", *words, *tests], root, own)
    return Result(name, seed, _first(said, code, tests), round(_of_children() - before, 1))


def _finished(command: list[str], root: Path, env: dict[str, str]) -> tuple[str, int]:
    """What a command says and its exit code, which is 0 if it was stopped as it did not end."""
    run = subprocess.Popen(
        command,
        cwd=root,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = run.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        said, _ = run.communicate()
        return said, 0
    return said, run.returncode


def _first(said: str, code: int, tests: Sequence[str]) -> str:
    """The test that failed first, or what ended the process; an error if no test could run."""
    if code == 0:
        return ""
    if found := re.search(r"^(?:FAILED|ERROR) (tests/.*?)(?: - .*)?$", said, re.M):
        return found[1]
    if code < 0:
        return tests[0] + ENDED
    raise RuntimeError(f"expected tests that run, found exit code {code}:\n{said[-3000:]}")


def _of_children() -> float:
    """Seconds of processor time of the processes that this one has waited for."""
    return sum(os.times()[2:4])
