"""``dlvm launch``: ranks that are killed start again, all others tell how they ended."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dlvm.base import notes
from dlvm.base.notes import APART, COMPILING, TOGETHER, Life, Notes, lives, noted
from dlvm.cli import main
from dlvm.launch.restarts import Ranks
from dlvm.launch.starts import ended, first_of
from dlvm.launch.watching import Seen, Watch, culprits, line_of
from dlvm.target import cores

from . import needs_mpi

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "DLVM_THREADS": "1"}
LAUNCHED = ROOT / "tests/mpi/launched.py"
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
def test_a_run_that_was_killed_goes_on_with_fewer_ranks_and_has_the_same_bits(tmp_path: Path):
    script = "examples/ranks.py"
    whole = launch("--ranks", "2", script, str(tmp_path / "whole"))
    again = launch("--ranks", "1:2", script, str(tmp_path / "again"), "--kill", "12")
    assert (whole.returncode, again.returncode) == (0, 0), again.stderr
    (first,) = re.findall(r"ranks 2, from step 0: (.*)", whole.stdout)
    (second,) = re.findall(r"ranks 1, from step 10: (.*)", again.stdout)
    assert first == second
    assert "was killed by SIGKILL" in again.stderr and "restart 1 of 3: 1 rank of" in again.stderr


def test_the_page_shows_the_script_that_is_run():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/launch.md").read_text(), re.S)
    assert code in (ROOT / "examples/ranks.py").read_text()


@needs_mpi
def test_a_script_that_ends_by_itself_is_not_started_again():
    done = launch("--ranks", "2", "tests/mpi/launched.py", "leave", "--ranks", "7")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "dlvm launch: rank 1 ended with code 3"


@needs_mpi
def test_a_rank_that_is_stopped_is_told_with_its_line_and_all_start_again(tmp_path: Path):
    told = ["--ranks", "1:2", "--stuck", "2", "--logs", str(tmp_path)]
    done = launch(*told, "tests/mpi/launched.py", "stop")
    assert done.returncode == 0, done.stderr
    if cores() > 1:
        stands = line_in(LAUNCHED, "SIGSTOP")
        waits = line_in(LAUNCHED, "whole()\n")
        assert (
            f"rank 1 stands still at launched.py:{stands}, stopped by a signal, for 2 s;"
            f" rank 0 waits at launched.py:{waits}\n"
        ) in done.stderr
        assert "restart 1 of 3: 1 rank of launched.py" in done.stderr
        assert "launched.py" in (tmp_path / "start-1" / "rank-1.trace").read_text()


def line_in(path: Path, text: str) -> int:
    """The line of a file in which a text stands."""
    return path.read_text("utf8").partition(text)[0].count("\n") + 1


def seen(*ranks: tuple[int, int], stopped: int | None = None) -> list[Seen]:
    """Ranks that have begun so many calls, and do this."""
    return [Seen(Life(r, 0, *told), r == stopped) for r, told in enumerate(ranks)]


@pytest.mark.parametrize(
    ("ranks", "guilty"),
    [
        (seen((4, TOGETHER), (3, APART), (4, TOGETHER)), [1]),
        (seen((4, TOGETHER), (4, TOGETHER)), []),
        (seen((4, TOGETHER), (4, TOGETHER), stopped=1), [1]),
        (seen((4, TOGETHER), (3, APART), (3, APART)), [1, 2]),
        (seen((4, APART), (4, TOGETHER)), []),  # the first has left the call, so it is not missed
    ],
)
def test_those_are_guilty_whom_the_others_wait_for(ranks: list[Seen], guilty: list[int]):
    assert [s.life.rank for s in culprits(ranks)] == guilty


@pytest.mark.parametrize(
    ("ranks", "still"),
    [
        (seen((4, TOGETHER), (3, APART)), True),
        (seen((4, TOGETHER), (3, COMPILING)), False),
        (seen((0, APART), (0, APART)), False),
        (seen((0, APART), (0, APART), stopped=0), True),
        (seen((4, TOGETHER), (3, COMPILING), stopped=1), True),
    ],
)
def test_ranks_stand_still_if_one_waits_and_nobody_gets_further(ranks: list[Seen], still: bool):
    watch = Watch(5.0)
    assert [watch.still(ranks, now) for now in (100.0, 104.0)] == [False, False]
    assert watch.still(ranks, 105.5) is still
    further = [*ranks[:-1], *seen((9, TOGETHER))]
    assert not watch.still(further, 106.0) and not watch.still(further, 110.0)


def test_the_line_of_a_trace_is_that_of_the_script_and_of_no_file_that_ends_like_it():
    trace = '  File "/a/on_h.py", line 3 in f\n  File "/b/h.py", line 7 in g\n'
    assert line_of("b/h.py", trace) == "h.py:7"
    other = 'Thread 1:\n  File "h.py", line 1 in loads\n\n'
    assert line_of("h.py", other + trace) == "h.py:7"  # that of the main thread
    assert line_of("c.py", trace) == "a line that it did not tell"


def test_notes_are_read_as_they_were_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with tempfile.TemporaryDirectory() as folder:
        own = Notes(Path(folder), 3)
        faulthandler.unregister(signal.SIGQUIT)
        monkeypatch.setattr(notes, "_own", own)
        for _ in range(2):
            with noted(COMPILING), noted(TOGETHER), noted(TOGETHER):
                assert lives(Path(folder))[0].doing == TOGETHER
        assert lives(Path(folder)) == [Life(3, os.getpid(), 2, APART)]


def test_as_many_ranks_start_as_there_is_room_for():
    ranks = Ranks(2, 8)
    assert [ranks.within(n) for n in (0, 2, 5, 9)] == [2, 2, 5, 8]


def test_the_first_rank_that_failed_is_told(tmp_path: Path):
    for rank, note in enumerate(("0 1.0", "1 3.5", "-11 3.0")):
        (tmp_path / f"ended-{rank}").write_text(note)
    (tmp_path / "ended-3.new").write_text("1 ")
    end = first_of([[], ended(tmp_path)], 9)
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


@needs_mpi
def test_without_ray_the_error_names_the_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["launch", "--ray", "--ranks", "2", __file__]) == 1
    assert "expected the package ray for --ray" in capsys.readouterr().err


def test_an_address_without_ray_is_refused(capsys: pytest.CaptureFixture[str]):
    assert main(["launch", "--address", "a:1", "--ranks", "2", __file__]) == 1
    assert "give --ray as well" in capsys.readouterr().err


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
