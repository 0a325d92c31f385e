"""The page on testing: its blocks run, and print what stands below them."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from tests.test_house import ROOT

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PAGE = (ROOT / "docs/testing.md").read_text("utf8")


def blocks() -> list[tuple[str, str]]:
    """Code, and what it prints."""
    found = re.findall(r"```(python)?\n(.*?)```", PAGE, re.S)
    pairs: list[tuple[str, str]] = []
    for kind, text in found:
        pairs.append((text, "")) if kind else pairs.append((pairs.pop()[0], text))
    return pairs


def test_the_page_runs_and_prints_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "model.py"
    file.write_text("".join(code for code, _ in blocks()))
    namespace: dict[str, object] = {"__name__": "model"}
    line, checker = 0, doctest.OutputChecker()
    assert len(blocks()) > 6
    for code, shown in blocks():
        exec(compile("\n" * line + code, str(file), "exec"), namespace)
        line += code.count("\n")
        found = capsys.readouterr().out
        assert checker.check_output(shown, found, FLAGS), f"{code}\n{found}"
