"""Who writes the page: compiled functions, the command line, and dumps of scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.cli import WRONG, main

from .programs import ARGUMENTS, step

SCRIPT = """\
import dlvm


def loss(w, x):
    return dlvm.tanh(x @ w).sum()


slope = dlvm.grad(loss)
"""


def data_of(page: str) -> Any:
    """The data in a page."""
    start = page.index('id="data">') + len('id="data">')
    return json.loads(page[start : page.index("</script>", start)])


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "model.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_a_page_is_returned_and_written_where_it_is_wanted(tmp_path: Path):
    made = step.compile(*ARGUMENTS)
    page = made.view(tmp_path / "step.html")
    assert (tmp_path / "step.html").read_text("utf8") == page
    assert data_of(page)["profile"] is None
    assert data_of(made.view(None, *ARGUMENTS, seconds=0.01))["profile"]["calls"] > 0
    names = dict(zip(("w", "x", "u"), ARGUMENTS, strict=True))
    assert data_of(made.view(seconds=0.01, **names))["profile"]["calls"] > 0


def test_what_cannot_be_a_page_or_an_argument_is_refused(tmp_path: Path):
    made = step.compile(*ARGUMENTS)
    with pytest.raises(
        UserError, match=r"expected the name of a file or None, found an array float64"
    ):
        made.view(*ARGUMENTS)  # pyright: ignore
    with pytest.raises(UserError, match="name a file in a folder that exists"):
        made.view(tmp_path / "none" / "step.html")
    with pytest.raises(UserError, match=r"axis 1 of f64\[20,1\] must be 1, found 2"):
        made.view(None, *ARGUMENTS[:2], np.ones((20, 2)))
    with pytest.raises(UserError, match="expected a number above 0"):
        made.view(None, *ARGUMENTS, seconds=0)


def test_a_page_leaves_the_code_and_the_cache_as_they_are(script: Path):
    made = dlvm.function(lambda x: dlvm.cumsum(x * 3)).compile(np.ones(7))
    first = made(np.ones(7))
    before = made.text("asm"), sorted(script.glob("cache/**/*")), made.road.executable
    made.view()
    after = made.text("asm"), sorted(script.glob("cache/**/*")), made.road.executable
    assert before == after and before[1]
    np.testing.assert_array_equal(made(np.ones(7)), first)


def test_the_command_writes_a_page(script: Path, capsys: pytest.CaptureFixture[str]):
    given = ("model.py:slope", "f32[3,4]", "f32[B,3]")
    assert main(("view", *given)) == 0
    assert capsys.readouterr().out == "view.html\n"
    plain = data_of((script / "view.html").read_text("utf8"))
    assert plain["profile"] is None and plain["sources"][0]["name"] == "model.py"
    assert plain["memory"][0]["arena"] is None
    more = ("--profile", "--size", "B=9", "--seconds", "0.01", "-o", "other.html")
    assert main(("view", *given, *more)) == 0
    measured = data_of((script / "other.html").read_text("utf8"))
    assert measured["profile"]["parts"]
    assert main(("view", *given, "-o", "no/page.html")) == WRONG
    assert "name a file in a folder that exists" in capsys.readouterr().err


def test_a_program_for_another_processor_has_its_assembly(script: Path):
    made = dlvm.function(lambda x: dlvm.exp(x), target="aarch64-linux-gnu").compile(np.ones(7))
    stages = {s["name"]: s["lines"] for s in data_of(made.view())["stages"]}
    assert any("fmla" in text or "v0." in text for text, _ in stages["asm"])


def test_a_program_for_a_gpu_has_its_ptx_by_kernel(script: Path):
    made = dlvm.function(lambda x: dlvm.cumsum(dlvm.exp(x @ x), axis=0), target="cuda")
    data = data_of(made.compile(np.ones((7, 7))).view())
    ptx = next(s["lines"] for s in data["stages"] if s["name"] == "ptx")
    entries = [group for text, group in ptx if ".entry" in text]
    assert entries and all(data["groups"][group][0] for group in entries)


def test_a_program_that_calls_python_shows_the_line_that_does(script: Path):
    made = dlvm.function(lambda x: dlvm.linalg.eigvalsh(x) + 1).compile(np.eye(3))
    data = data_of(made.view())
    loops = next(s["lines"] for s in data["stages"] if s["name"] == "loops")
    called = [g for text, g in loops if text.lstrip().startswith("call reference")]
    assert all(data["groups"][g][0] for g in called)


def test_a_dump_has_the_page(script: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DLVM_DUMP", "dump")
    dlvm.function(lambda x: dlvm.cumsum(x * 5))(np.ones(6))
    (folder,) = (p for p in (script / "dump").iterdir() if p.is_dir())
    page = (folder / "view.html").read_text("utf8")
    shown = {s["known_as"]: s["lines"] for s in data_of(page)["stages"]}
    assert (folder / "asm.txt").read_text("utf8").splitlines() == [t for t, _ in shown["asm"]]
    assert f'href="{folder.name}/view.html"' in (script / "dump/index.html").read_text("utf8")
