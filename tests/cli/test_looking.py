"""Planted problems, and the documented command that finds the line, the kernel or the cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from dlvm.cli import main
from tests.test_house import ROOT

SCRIPT = """\
import dlvm


def slow(x, w):
    y = dlvm.sqrt(x)
    y = y @ w  # the slow line: 6
    return dlvm.cumsum(y, axis=1)


def wide(x):
    small = dlvm.cumsum(x)
    table = dlvm.cumsum(small[:, None] * small[None, :], axis=0)  # the peak: 12
    return dlvm.cumsum(table, axis=1).sum()
"""


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_profile_finds_the_slow_line(capsys, script):
    given = ("profile", "model.py:slow", "f64[300,200]", "f64[200,200]", "--seconds", "0.02")
    assert main(given) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[0].startswith("slow: ")
    assert rows[2].endswith("model.py:6")
    assert main([*given, "--json", "--trace", "line.json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"][0]["lines"][-1] == "model.py:6"  # with a formula that it computes
    assert 0 <= found["parts"][0]["flops"] - 2 * 300 * 200 * 200 <= 300 * 200
    line = json.loads((script / "line.json").read_text())
    assert any("model.py:6" in e["name"] for e in line["traceEvents"])


def test_profile_finds_the_line_of_the_peak(capsys):
    assert main(["profile", "model.py:wide", "f64[150]", "--seconds", "0.02"]) == 0
    said = capsys.readouterr().out
    assert "most of it made at model.py:12" in said


RUN = """\
import numpy as np
import dlvm

options = {"rate": 1.0}


@dlvm.function
def logs(x):
    return (dlvm.log(x) * options["rate"]).sum()  # the NaN: 9


@dlvm.function
def turned(x):
    y = dlvm.cumsum(x, axis=0)
    return y @ y.T


logs(np.ones(3))
options["rate"] = 2.0
logs(np.ones(4))
turned(np.ones((3, 3)))
print(turned.explain())
logs(np.array([1.0, 2.0, 3.0, -1.0]))
"""


def ran(folder, **environment):
    (folder / "train.py").write_text(RUN)
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, "train.py"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_script_tells_both_causes_of_a_recompile(script):
    done = ran(script, DLVM_LOG="compiles")
    assert done.returncode == 0
    second = done.stderr.splitlines()[1]
    assert "x was f64[3], is f64[4]" in second
    assert "['rate'] was 1.0, is 2.0" in second


def test_a_script_writes_its_programs(script):
    assert ran(script, DLVM_DUMP="dump").returncode == 0
    page = (script / "dump" / "index.html").read_text()
    assert page.count("logs</td>") == 2
    assert "rate" in page


def test_a_script_names_the_line_of_a_nan(script):
    done = ran(script, DLVM_CHECK="nans")
    assert done.returncode == 1
    assert "train.py:9" in done.stderr
    assert "log" in done.stderr


def test_a_script_tells_the_refused_fusion(script):
    said = ran(script).stdout
    assert "1 refused fusions, which go through memory" in said
    assert "train.py:14" in said
