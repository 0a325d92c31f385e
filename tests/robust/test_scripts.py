"""Each script in its short form, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import SCRIPTS

ROOT = Path(__file__).parents[2]
POSIX = ("forks", "interrupts", "disks")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_finds_nothing_wrong(name: str, tmp_path: Path):
    if name in POSIX and os.name != "posix":
        pytest.skip(f"{name}: this system has neither forks nor signals of this kind")
    command = [sys.executable, "-m", f"tests.robust.{name}", "--short"]
    own = {**os.environ, "DLVM_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=own, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout and done.stdout.count(": ") >= 1
