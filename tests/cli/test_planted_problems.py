"""Six problems, each planted in three programs: the documented command finds each of them.

Each run of the suite plants each problem in one program, which the seed draws. The test also runs
that program without the problem, which must not be reported there. The commands are processes of
their own, as users start them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.running import runs_all, seed
from tests.test_house import ROOT

from .problem_programs import NETWORK, PARTICLES, RECURRENT, Program

PROGRAMS = [NETWORK, RECURRENT, PARTICLES]
SECONDS = ("--seconds", "0.03")


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    def row(self, start: str) -> str:
        """The first line that begins with this."""
        return next(line for line in self.out.splitlines() if line.startswith(start))

    def lines_of_the_first_kernel(self) -> list[str]:
        """Those of the source, in the last column of a profile below its two heads."""
        return self.out.splitlines()[2].rpartition("  ")[2].split(", ")


@dataclass(frozen=True)
class Folder:
    """Where the scripts of one program are written and run."""

    path: Path
    program: Program
    known: dict[tuple[object, ...], Ran] = field(default_factory=dict[tuple[object, ...], Ran])
    """What the commands print of the program without a problem."""

    def python(self, problem: str = "", **environment: str) -> Ran:
        """The script itself, with a problem or without one."""
        return self._run([f"{self.program.name}.py"], problem, environment)

    def dlvm(self, command: str, problem: str = "", *options: str, **environment: str) -> Ran:
        """A command of ``dlvm`` on the function of the script."""
        name = f"{self.program.name}.py:{self.program.function}"
        given = ["-m", "dlvm", command, name, *self.program.arguments, *options]
        return self._run(given, problem, environment)

    def _run(self, command: list[str], problem: str, environment: dict[str, str]) -> Ran:
        if problem:
            return self._started(command, problem, environment)
        key = (*command, *environment.items())
        if key not in self.known:
            self.known[key] = self._started(command, problem, environment)
        return self.known[key]

    def _started(self, command: list[str], problem: str, environment: dict[str, str]) -> Ran:
        (self.path / f"{self.program.name}.py").write_text(self.program.written(problem))
        env = {**os.environ, "PYTHONPATH": str(ROOT), "DLVM_THREADS": "1", **environment}
        argv = [sys.executable, *command]
        done = subprocess.run(
            argv, cwd=self.path, env=env, capture_output=True, text=True, check=False
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each problem in one of the programs, which the seed draws, or in all in a whole run."""
    if "folder" in metafunc.fixturenames:
        drawn = zlib.crc32(metafunc.function.__name__.encode()) + seed()
        some = PROGRAMS if runs_all(metafunc.config) else [PROGRAMS[drawn % len(PROGRAMS)]]
        metafunc.parametrize("folder", some, ids=lambda p: p.name, indirect=True, scope="module")


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("planted"), request.param)


def test_both_causes_of_a_recompile_are_told(folder: Folder):
    well, planted = (folder.python(p, DLVM_LOG="compiles") for p in ("", "recompile"))
    assert well.code == planted.code == 0
    assert len(well.err.splitlines()) == 1
    first, second = planted.err.splitlines()
    for cause in folder.program.recompiled:
        assert cause in second
        assert cause in planted.out
        assert cause not in first + well.err + well.out


def test_the_slow_line_is_in_the_first_row_of_a_profile(folder: Folder):
    well, planted = (folder.dlvm("profile", p, *SECONDS) for p in ("", "slow"))
    line = folder.program.line("slow")
    assert line not in well.lines_of_the_first_kernel()
    assert line in planted.lines_of_the_first_kernel()


def test_the_line_of_the_peak_is_told(folder: Folder):
    well, planted = (folder.dlvm("profile", p, *SECONDS) for p in ("", "peak"))
    line = folder.program.line("peak")
    assert planted.row("memory at the peak: ").endswith(f", most of it made at {line}")
    assert line not in well.row("memory at the peak: ")


def test_the_line_of_a_nan_is_told(folder: Folder):
    well, planted = (folder.dlvm("run", p, DLVM_CHECK="nans") for p in ("", "nan"))
    assert well.code == 0, well.err
    assert planted.code == 1
    assert "made a NaN" in planted.err
    assert f"{folder.program.blamed} {folder.program.line('nan')}\n" in planted.err


def test_a_wrong_derivative_is_told_with_its_line(folder: Folder):
    well, planted = (folder.dlvm("check", p) for p in ("", "gradient"))
    assert well.code == 0, well.out
    assert planted.code == 1
    said = planted.row("gradient")
    assert "FAILS" in said
    assert f"written at {folder.program.line('gradient')}, is wrong by itself" in said


def test_a_refused_fusion_is_told_with_both_lines_and_its_reason(folder: Folder):
    well, planted = (folder.python(p, DLVM_LOG="compiles") for p in ("", "fusion"))
    pair = f"from {folder.program.line('writer')} to {folder.program.line('reader')}: "
    assert well.code == planted.code == 0
    assert f"{pair}{folder.program.refused}" in planted.out
    assert pair not in well.out
