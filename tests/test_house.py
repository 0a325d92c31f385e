"""What the house demands of every file: small, named by what it does, one edge for each tool."""

from __future__ import annotations

import re
from pathlib import Path

from tools.size_budget import too_long

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("dlvm/ir", "dlvm/testing", "dlvm/cli", "dlvm/ops", "dlvm/trust", "dlvm"),
    *("dsl", "ad", "opt", "gen"),
)
SOURCES = sorted({f for room in ROOMS for f in (ROOT / room).glob("*.py")})


def importers(name: str) -> set[str]:
    pattern = re.compile(rf"^\s*(?:import|from) {name}\b", re.M)
    return {str(f.relative_to(ROOT)) for f in SOURCES if pattern.search(f.read_text("utf8"))}


def test_no_file_is_too_long_to_read():
    assert too_long(ROOT) == []


def test_every_room_says_what_it_is_for():
    assert [f.name for f in SOURCES if not f.read_text("utf8").startswith('"""')] == []


def test_no_room_is_called_after_nothing():
    nothing = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
    assert [f.name for f in SOURCES if f.stem in nothing] == []


def test_llvmlite_is_named_in_two_files_at_most():
    found = importers("llvmlite")
    assert len(found) <= 2
    assert all(name.startswith(("gen/", "dlvm/target")) for name in found)
