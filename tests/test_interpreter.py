"""Tests of dlvm.base.interpreter: a free-threaded Python without its lock is refused at import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dlvm.base.interpreter import check_interpreter


@pytest.mark.parametrize("enabled", [lambda: True, None])
def test_a_python_with_its_lock_is_served(enabled: object, monkeypatch: pytest.MonkeyPatch) -> None:
    if enabled is None:
        monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    else:
        monkeypatch.setattr(sys, "_is_gil_enabled", enabled, raising=False)
    check_interpreter()


def test_the_import_without_the_lock_is_refused_with_what_to_set() -> None:
    code = "import sys; sys._is_gil_enabled = lambda: False; import dlvm"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    said = done.stderr.splitlines()[-2:]
    assert said[0].startswith("ImportError: dlvm needs Python's global lock (the GIL)")
    assert said[1] == "  help: set PYTHON_GIL=1 in the environment, or start Python with -X gil=1"
