"""A save that is killed at any moment leaves the last whole file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import dlvm

SAVES = """
import os, random, signal, sys, time
import numpy as np
import dlvm

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's jobs may ignore it
path, kills, rng = sys.argv[1], int(sys.argv[2]), random.Random(0)


def save_for_ever(first, tells):
    for n in range(first, first + 10_000):
        dlvm.save(path, {"n": n, "w": np.full(1 << 20, n), "v": [np.full(1000, float(n))]})
        if n == first:
            os.write(tells, b".")


def killed(first):
    ready, tells = os.pipe()
    child = os.fork()
    if not child:
        try:
            save_for_ever(first, tells)
        finally:
            os._exit(1)
    os.read(ready, 1)
    time.sleep(rng.uniform(0, 0.06))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    found = dlvm.load(path)
    n = int(found["n"])
    assert (found["w"] == n).all() and (found["v.0"] == n).all()
    assert first <= n < first + 10_000, (first, n)


if kills:
    for kill in range(kills):
        killed(10_000 * kill)
else:
    save_for_ever(0, 1)
"""
KILLS = 30
COMMAND = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SAVES]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
def test_a_killed_save_leaves_the_last_whole_file(tmp_path: Path):
    """Processes that save one number after the other are killed at random moments."""
    given = [*COMMAND, str(tmp_path / "model"), str(KILLS)]
    done = subprocess.run(given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unfinished = [name for name in os.listdir(tmp_path) if name != "model"]
    assert unfinished and len(unfinished) <= KILLS  # some were cut off in the middle


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_ctrl_c_leaves_the_last_whole_file(tmp_path: Path):
    given = [*COMMAND, str(tmp_path / "model"), "0"]
    child = subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.read(1) == b"."
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in errors
    found = dlvm.load(tmp_path / "model")
    assert (found["w"] == found["n"]).all()
    others = [name for name in os.listdir(tmp_path) if name != "model"]
    assert all(name.startswith(".model.saving-") for name in others)  # one, if it came at the end


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed")
def test_a_killed_save_of_a_state_leaves_the_last_whole_state():
    given = [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.files.state_kills"]
    root = Path(__file__).parents[2]
    done = subprocess.run([*given, "10"], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    unfinished = int(done.stdout.split()[4])
    assert unfinished > 0, done.stdout  # some were cut off in the middle
