"""Nearness of a test to a change, by names alone: where there is no map of what tests run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from .changes import Changes, inside
from .sources import ROOT

SLOW = ("tests/robust/", "tests/test_guards", "tests/test_leaks", "tests/test_fuzz",
        "tests/trust/test_planted", "tests/test_packaging", "tests/test_docs",
        "tests/test_examples")  # fmt: skip
"""Tests that start processes or take seconds each: near only if they are changed themselves."""


class Nearness:
    """How near a test is to what has changed: 0 is the change itself, None is far.

    Changed tests come first; then tests that mirror a changed file, or are about an operation
    whose class has changed; tests of files that name what has changed; the mirrored folder.
    """

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.rank_of_file: dict[str, int | None] = {}
        helpers = [Path(n).stem for n in changes.tests if "test_" not in n and n.endswith(".py")]
        self.helper = re.compile(r"^from .*\b(" + "|".join(helpers or ["-"]) + r")\b", re.M)

    def __call__(self, item: str) -> int | None:
        file, _, case = item.partition("::")
        if file not in self.rank_of_file:
            self.rank_of_file[file] = self._of_file(file)
        rank = self.rank_of_file[file]
        if (rank is None or rank > 1) and self.about(case):
            return 1
        return rank

    def about(self, case: str) -> bool:
        """Whether the name of a test, or what it is given, names a changed definition."""
        return bool(set(re.findall(r"\w+", case)) & self.changes.definitions)

    def _of_file(self, file: str) -> int | None:
        if file in self.changes.tests:
            return 0
        if file.startswith(SLOW):
            return None
        if file in self.mirrors:
            return 1
        text = (ROOT / file).read_text("utf8")
        if (self.mentioned and self.mentioned.search(text)) or self.helper.search(text):
            return 2
        return 3 if file.startswith(tuple(self.folders) or ("-",)) else None

    @cached_property
    def mirrors(self) -> set[str]:
        """Files of tests that mirror a changed one, by its name or by that of its folder."""
        return {str(path) for name in self.changes.sources for path in _mirrors(Path(name))}

    @cached_property
    def folders(self) -> set[str]:
        """Folders of tests that mirror the folders of changed files."""
        found = {f"tests/{inside(Path(name)).parent}/" for name in self.changes.sources}
        return found - {"tests/./"}

    @cached_property
    def mentioned(self) -> re.Pattern[str] | None:
        """What files of tests may say that are about a changed file."""
        places = [inside(Path(n)).with_suffix("") for n in self.changes.sources]
        words = {str(place).replace("/", ".") for place in places}
        words |= {w for w in self.changes.definitions if len(w) > 3}
        return re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b") if words else None


def _mirrors(source: Path) -> Iterator[Path]:
    place = Path("tests") / inside(source)
    for name in (source.stem, source.parent.name):
        yield place.parent / f"test_{name}.py"
        yield place.parent.parent / f"test_{name}.py"
        yield Path("tests") / f"test_{name}.py"
