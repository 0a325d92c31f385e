"""``dlvm launch``: ranks that are killed start again, all others tell how they ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlvm.cli import main
from dlvm.launch.restarts import Ranks
from dlvm.launch.starts import ended

from . import needs_mpi

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "DLVM_THREADS": "1"}
LAUNCH = [sys.executable, "-m", "dlvm", "launch"]


def launch(*told: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAUNCH, *told], capture_output=True, text=True, env=ENV, cwd=ROOT, timeout=100
    )


@needs_mpi
def test_after_a_kill_the_script_starts_again_with_one_rank_fewer(tmp_path: Path):
    logs = ["--logs", str(tmp_path)]
    done = launch("--ranks", "2", "--restarts", "0", *logs, "tests/mpi/launched.py", "die")
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stdout == "0 of 2 does die\n"
    assert "rank 1 was killed by SIGKILL" in done.stderr
    assert "start-1/rank-1.out ends with\n  1 of 2 does die\n" in done.stderr


@needs_mpi
def test_a_script_that_ends_by_itself_is_not_started_again():
    done = launch("--ranks", "2", "tests/mpi/launched.py", "leave", "--ranks", "7")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "dlvm launch: rank 1 ended with code 3"


def test_as_many_ranks_start_as_there_is_room_for():
    ranks = Ranks(2, 8)
    assert [ranks.within(n) for n in (0, 2, 5, 9)] == [2, 2, 5, 8]


def test_the_first_rank_that_failed_is_told(tmp_path: Path):
    for rank, note in enumerate(("0 1.0", "1 3.5", "-11 3.0")):
        (tmp_path / f"ended-{rank}").write_text(note)
    (tmp_path / "ended-3.new").write_text("1 ")
    end = ended(tmp_path, 9)
    assert (end.rank, end.code, end.dies) == (2, 128 + signal.SIGSEGV, True)
    assert end.why == "rank 2 was killed by SIGSEGV"


@pytest.mark.parametrize("ranks", ["0", "3:2", "two", "2:", ":3"])
def test_other_numbers_of_ranks_are_refused(ranks: str, capsys: pytest.CaptureFixture[str]):
    assert main(["launch", "--ranks", ranks, "a.py"]) == 2
    assert f"expected 4, or 2:8 for 2 to 8 ranks, found {ranks}" in capsys.readouterr().err


def test_a_script_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["launch", "--ranks", "2", "nowhere.py"]) == 1
    assert "found no nowhere.py" in capsys.readouterr().err


def test_without_a_launcher_the_error_says_where_it_was_looked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLVM_MPI", str(tmp_path / "lib" / "libmpi.so"))
    monkeypatch.setenv("PATH", "")
    assert main(["launch", "--ranks", "2", __file__]) == 1
    assert f"found no {tmp_path}/bin/mpiexec.hydra" in capsys.readouterr().err


SAVING = """
import time, dlvm, sys
runs = dlvm.states(sys.argv[1])
runs.preempted()
open(sys.argv[1] + "/ready", "w")
while not runs.preempted():
    time.sleep(0.05)
print("saved")
"""


@needs_mpi
def test_ranks_that_are_asked_to_end_may_save_and_leave(tmp_path: Path):
    (tmp_path / "a.py").write_text(SAVING)
    told = [*LAUNCH, "--ranks", "1", str(tmp_path / "a.py"), str(tmp_path)]
    process = subprocess.Popen(told, stdout=subprocess.PIPE, text=True, env=ENV)
    until = time.monotonic() + 60
    while not (tmp_path / "ready").exists() and time.monotonic() < until:
        time.sleep(0.05)
    process.terminate()
    assert process.communicate(timeout=20)[0] == "saved\n" and process.returncode == 0
