"""Environment variables stand in one table, which the page shows and which nothing goes around."""

import re
from pathlib import Path

import pytest

import dlvm.launch
from dlvm.base import environment

from .test_house import ROOT, SOURCES

PAGE = (ROOT / "docs" / "environment.md").read_text("utf8")


def test_the_page_shows_the_table():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.M)
    assert dict(rows) == environment.VARIABLES
    assert [name for name, _ in rows] == sorted(environment.VARIABLES)


def test_every_variable_that_is_named_anywhere_is_in_the_table():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    named = {n for f in (*SOURCES, *pages) for n in re.findall(r"DLVM_\w+", f.read_text("utf8"))}
    assert named == {n for n in environment.VARIABLES if n.startswith("DLVM_")}


def test_the_environment_is_read_in_one_room():
    readers = {f for f in SOURCES if re.search(r"\bos\.(environ|getenv)", f.read_text("utf8"))}
    alone = Path(dlvm.launch.__path__[0], "rank.py")  # runs without the package
    assert readers == {Path(environment.__file__), alone}


def test_a_variable_outside_the_table_can_not_be_read():
    with pytest.raises(LookupError):
        environment.value("DLVM_OTHER")


def test_nothing_and_nought_are_off(monkeypatch):
    for text, on in (("", False), ("0", False), ("1", True), ("ir", True)):
        monkeypatch.setenv("DLVM_VERIFY", text)
        assert environment.enabled("DLVM_VERIFY") is on
