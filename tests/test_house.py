"""What the house demands of every file: small, named by what it does, one edge for each tool."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.forbidden import found_in, violations
from tools.size_budget import code_lines, too_long

ROOT = Path(__file__).parents[1]
ROOMS = ("dlvm", "dsl", "ad", "opt", "gen")
SOURCES = sorted({f for room in ROOMS for f in (ROOT / room).rglob("*.py")})


def importers(name: str) -> set[str]:
    pattern = re.compile(rf"^\s*(?:import|from) {name}\b", re.M)
    return {str(f.relative_to(ROOT)) for f in SOURCES if pattern.search(f.read_text("utf8"))}


def test_no_file_is_too_long_to_read():
    assert too_long(ROOT) == []


def test_lines_of_code_are_those_that_hold_code():
    text = (
        '"""What it is.\n\nMore."""\n\n# why\nx = (\n    1,\n)  # one\n\n\ndef f():\n    """F."""\n'
    )
    assert code_lines(text) == 4


def test_every_room_says_what_it_is_for():
    assert [f.name for f in SOURCES if not f.read_text("utf8").startswith('"""')] == []


def test_no_room_is_called_after_nothing():
    nothing = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
    assert [f.name for f in SOURCES if f.stem in nothing] == []


def test_llvmlite_is_named_in_two_files_at_most():
    found = importers("llvmlite")
    assert len(found) <= 2
    assert all(name.startswith(("gen/", "dlvm/target")) for name in found)


def test_nothing_becomes_code_or_objects_and_nothing_leaves_the_machine():
    assert violations() == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from marshal import loads",
        "import urllib.request",
        "def f():\n    from socket import socket",
        "eval('1')",
        "exec(text)",
        "compile(text, 'f', 'exec')",
        "__import__(name)",
        "os.system('ls')",
        "run(x, shell=True)",
        "np.load(f, allow_pickle=flag)",
    ],
)
def test_what_is_forbidden_is_found(line: str):
    assert list(found_in(line))


def test_what_is_not_forbidden_is_not_found():
    allowed = "import re, json\nre.compile('a')\nf.compile(x)\nrun(x, shell=False)\nmodel.eval()\n"
    assert list(found_in(allowed)) == []
