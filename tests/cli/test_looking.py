"""Planted problems, and the documented command that finds the line, the kernel or the cause."""

from __future__ import annotations

import json

import pytest

from dlvm.cli import main

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
    assert found["parts"][0]["lines"] == ["model.py:6"]
    assert found["parts"][0]["flops"] == 2 * 300 * 200 * 200
    line = json.loads((script / "line.json").read_text())
    assert any("model.py:6" in e["name"] for e in line["traceEvents"])


def test_profile_finds_the_line_of_the_peak(capsys):
    assert main(["profile", "model.py:wide", "f64[150]", "--seconds", "0.02"]) == 0
    said = capsys.readouterr().out
    assert "most of it made at model.py:12" in said
