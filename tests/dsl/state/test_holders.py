"""A few programs over the classes of Python's library; the command of ``holders`` draws others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_under_audit_no_program_is_silently_old():
    """In a process of its own, as the objects of some classes do things."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.dsl.state.holders", "10"]
    try:
        told = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=os.environ, timeout=300
        )
    except subprocess.TimeoutExpired:
        pytest.skip("an object of Python's library did not end, in code that no signal stops")
    if told.returncode < 0:
        pytest.skip(f"an object of Python's library ended the process: {told.returncode}")
    assert not told.returncode, told.stderr
    counts = re.findall(r"DLVM_VERIFY=(\w*): (\{.*\})", told.stdout)
    assert [mode for mode, _ in counts] == ["", "state"]
    assert "silent" not in counts[1][1] and "wrong" not in told.stdout, told.stdout
