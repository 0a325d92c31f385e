"""Planted problems, and the documented command that finds the line, the kernel or the cause."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import dlvm
from dlvm.cli import USAGE, WRONG, main
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


PARTS = """\
import dlvm


def scaled(w, x):
    y = dlvm.exp(x)
    return (y * w).sum()


@dlvm.custom_vjp
def doubled(x):
    return x * 2


doubled.defvjp(lambda x: (x * 2, None), lambda kept, dy: (3 * dy,))


def wrong(x):
    return doubled(x).sum()


def kinked(w, x):
    return dlvm.abs(x).sum() + dlvm.tanh(w).sum()


rounded = dlvm.custom_vjp(lambda x: dlvm.round(x), surrogate=True)
rounded.defvjp(lambda x: (dlvm.round(x), None), lambda kept, dy: (dy,))


def stepping(x):
    return rounded(x).sum()


def stepped(x):
    return x * x - 0.1 * dlvm.grad(wrong)(x)
"""
SCALED = ("f32[3]", "f32[3]")


@pytest.fixture
def parts(script):
    (script / "parts.py").write_text(PARTS)
    return script


def test_programs_name_their_lines_in_comments_that_are_read_back(parts, capsys):
    assert main(["show", "parts.py:scaled", *SCALED, "--lines"]) == 0
    said = capsys.readouterr().out
    assert "exp %x : f32[3]  // parts.py:5" in said
    assert "// parts.py:6" in said
    assert main(["show", "parts.py:scaled", *SCALED]) == 0
    plain = capsys.readouterr().out
    assert "//" not in plain
    assert str(dlvm.parse(said)) == plain


def test_programs_have_colours_on_a_terminal_only(parts, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main(["show", "parts.py:scaled", *SCALED]) == 0
    shown = capsys.readouterr().out
    assert "\033[36m%x\033[0m" in shown
    assert "\033[2m// parts.py:5\033[0m" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["show", "parts.py:scaled", *SCALED, "--no-lines"]) == 0
    plain = capsys.readouterr().out
    assert "\033" not in plain
    assert "//" not in plain


def test_print_after_alone_means_every_pass(parts, capsys):
    given = ("opt", "parts.py:scaled", *SCALED, "--passes", "simplify,share", "--print-after")
    assert main(given) == 0
    assert capsys.readouterr().err.count("// ---- after ") == 2
    assert main([*given, "share"]) == 0
    assert capsys.readouterr().err.count("// ---- after ") == 1


def test_an_argument_is_one_array_of_a_file(parts, capsys):
    np.savez(parts / "a.npz", x=np.zeros(3, np.float32), w=np.ones(3, np.float32))
    assert main(["run", "parts.py:scaled", "x=a.npz:x", "w=a.npz:w", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["values"] == 3
    assert main(["run", "parts.py:scaled", "x=a.npz:y", "w=a.npz:w"]) == WRONG
    assert "has no array 'y'; it has x, w" in capsys.readouterr().err


def test_a_slip_in_the_name_of_a_pass_or_a_stage_is_told(parts, capsys):
    assert main(["opt", "parts.py:scaled", *SCALED, "--passes", "simplfy"]) == WRONG
    assert "did you mean 'simplify'?" in capsys.readouterr().err
    assert main(["show", "parts.py:scaled", *SCALED, "--stage", "optimised"]) == USAGE
    assert "did you mean 'optimized'?" in capsys.readouterr().err
    with pytest.raises(dlvm.UserError, match=r"did you mean 'kernels'\?"):
        dlvm.function(lambda x: x * 2).compile(np.ones(3)).text("kernel")


def test_check_names_the_derivative_that_is_wrong(parts, capsys):
    for name in ("wrong", "stepped"):
        assert main(["check", f"parts.py:{name}", "f64[3]", "--allow-skipped"]) == WRONG
        said = capsys.readouterr().out
        assert "FAILS  the derivative of doubled, written at parts.py:14, is wrong" in said
        assert "at parts.py:18 shows" in said


def test_check_names_the_derivative_that_it_skips(parts, capsys):
    assert main(["check", "parts.py:stepping", "f64[3]"]) == WRONG
    said = capsys.readouterr().out
    assert "skipped" in said
    assert "custom_vjp at parts.py:30" in said
    assert main(["check", "parts.py:stepping", "f64[3]", "--allow-skipped"]) == 0


def test_a_right_derivative_that_the_program_states_passes(parts, capsys):
    (parts / "right.py").write_text(PARTS.replace("3 * dy", "2 * dy"))
    for name in ("wrong", "stepped"):
        assert main(["check", f"right.py:{name}", "f64[3]"]) == 0


def test_check_names_the_argument_at_a_kink(parts, capsys):
    np.save(parts / "near.npy", np.full(3, 3e-4))
    assert main(["check", "parts.py:kinked", "f64[3]", "near.npy"]) == WRONG
    assert "inconclusive for x, such as at a kink" in capsys.readouterr().out
