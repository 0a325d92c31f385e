"""What a running script tells of its compiles: every cause, a line, and files."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.dsl.call.explain import SHOWN, shares

X = np.ones((2, 3))


def test_every_cause_of_a_recompile_is_told():
    rate = {"a": 1.0, "b": 2.0}

    @dlvm.function
    def f(x, y):
        return x * rate["a"] + y * rate["b"]

    f(X, X)
    rate.update(a=3.0, b=4.0)
    f(X, X)
    f(X[:1], X[:1])
    rate["a"] = 5.0
    f(X[:, :2], X[:, :2])
    first, second, third, fourth = f.explain().compiles
    assert first.causes == ("first call",)
    assert [re.sub(r".*\[", "[", c) for c in second.causes] == [
        "['a'] was 1.0, is 3.0",
        "['b'] was 2.0, is 4.0",
    ]
    assert third.causes == ("x was f64[2,3], is f64[1,3]", "y was f64[2,3], is f64[1,3]")
    assert len(fourth.causes) == 3
    said = str(f.explain())
    assert all(cause in said for c in f.explain().compiles for cause in c.causes)


def test_a_reason_is_one_line_and_counts_the_other_causes():
    f = dlvm.function(lambda a, b, c, d, e: a + b + c + d + e)
    f(*[1.0] * 5)
    f(*[X] * 5)
    (last,) = f.explain().compiles[1:]
    assert len(last.causes) == 5
    assert last.reason.endswith("and 2 more")


def test_the_nearest_program_is_the_one_compared_with():
    f = dlvm.function(lambda x, y: x + y)
    f(X, X)
    f(np.ones(4), np.ones(4))
    f(X, X[:1])
    assert f.explain().compiles[-1].causes == ("y was f64[2,3], is f64[1,3]",)


def test_ten_lines_are_shared_by_all_parts():
    parts = [("a", ["1"] * 20), ("b", ["2"]), ("c", []), ("d", ["3"] * 3)]
    assert shares(parts, SHOWN) == [6, 1, 0, 3]
    assert shares(parts[1:], SHOWN) == [1, 0, 3]


def test_a_line_for_each_compile(monkeypatch, capfd):
    monkeypatch.setenv("DLVM_LOG", "compiles")
    f = dlvm.function(lambda x: x * 2, threads=1)
    f(X)
    f(X[:1])
    f(X[:1])
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"dlvm: lambda compiled for \(x: f64\[2,3\]\) in .*: first call", lines[0])
    assert lines[1].endswith("x was f64[2,3], is f64[1,3]")
    monkeypatch.setenv("DLVM_LOG", "all")
    with pytest.raises(UserError, match="expected compiles"):
        f(X[:, :1])


def test_every_program_is_written(monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_DUMP", str(tmp_path / "dump"))

    @dlvm.function
    def scaled(x):
        return dlvm.exp(x).sum()  # a line of the source

    scaled(X)
    scaled(X[:1])
    folders = sorted(p for p in (tmp_path / "dump").iterdir() if p.is_dir())
    assert len(folders) == 2
    about = json.loads((folders[1] / "program.json").read_text())
    assert about["causes"] == ["x was f64[2,3], is f64[1,3]"]
    assert about["seconds"]
    assert "# a line of the source" in (folders[0] / "source.py").read_text()
    assert "exp" in (folders[0] / "traced.txt").read_text()
    assert "define" in (folders[0] / "llvm.txt").read_text()
    page = (tmp_path / "dump" / "index.html").read_text()
    assert page.count("<tr>") == 3
    assert f'href="{folders[1].name}/asm.txt"' in page
    assert "x was f64[2,3], is f64[1,3]" in page


def test_a_folder_that_cannot_be_written_is_told(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DLVM_DUMP", str(tmp_path / "file"))
    with pytest.raises(UserError, match="folder that can be written"):
        dlvm.function(lambda x: x * 2)(X)


def test_interpreted_programs_are_written_as_far_as_they_go(monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    monkeypatch.setenv("DLVM_DUMP", str(tmp_path))
    dlvm.function(lambda x: x * 2)(X)
    (folder,) = (p for p in tmp_path.iterdir() if p.is_dir())
    assert (folder / "kernels.txt").exists()
    assert not (folder / "llvm.txt").exists()
