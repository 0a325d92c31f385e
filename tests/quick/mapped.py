"""The map: which functions of the project each test runs, and what a change therefore concerns.

``make map`` writes it (``tests.quick.mapping``), ``make quick`` reads it. A test depends on the
functions that it ran, on those whose results it may have found ready because another test of its
file had run them, and on those that ran while the package was imported.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .changes import Changes
from .sources import ROOT, Source, source, sources

MAP = ROOT / "out" / "map.npz"
OLD = 0.3
"""A map is old where this share of the files that it knows has changed since it was made."""


def digest(name: str) -> str:
    """What a file holds, in short."""
    return hashlib.sha256((ROOT / name).read_bytes()).hexdigest()[:16]


@dataclass
class Map:
    """Tests against functions, as bits."""

    tests: list[str]
    functions: list[str]
    """Each as ``file:qualified name``."""
    ran: np.ndarray
    """What each test ran: tests x functions."""
    shared: np.ndarray
    """What tests of a file may have found ready: files x functions."""
    always: np.ndarray
    """Functions that run while the package is imported."""
    apart: np.ndarray
    """Tests that start processes which could not be followed."""
    seconds: np.ndarray
    """How long each test took when the map was made."""
    digests: dict[str, str]

    @cached_property
    def files(self) -> list[str]:
        """The files of tests, in the order of ``shared``."""
        return sorted({file_of(test) for test in self.tests})

    @cached_property
    def known(self) -> frozenset[str]:
        """All tests."""
        return frozenset(self.tests)

    @cached_property
    def columns(self) -> dict[str, int]:
        """The number of each function."""
        return {name: i for i, name in enumerate(self.functions)}

    @cached_property
    def of_file(self) -> dict[str, list[int]]:
        """The functions of each source file."""
        found: dict[str, list[int]] = {}
        for i, name in enumerate(self.functions):
            found.setdefault(name.partition(":")[0], []).append(i)
        return found

    def save(self, path: Path = MAP) -> None:
        """Write the map."""
        path.parent.mkdir(exist_ok=True)
        arrays: dict[str, Any] = {n: getattr(self, n) for n in ("always", "apart", "seconds")}
        arrays |= {n: np.packbits(getattr(self, n), axis=1) for n in ("ran", "shared")}
        arrays |= {"tests": np.array(self.tests), "functions": np.array(self.functions)}
        arrays["digests"] = np.array([f"{k} {v}" for k, v in self.digests.items()])
        np.savez_compressed(path, **arrays)

    @staticmethod
    def load(path: Path = MAP) -> Map:
        """Read a map."""
        with np.load(path) as found:
            count = len(found["functions"])
            bits = {n: np.unpackbits(found[n], axis=1, count=count) for n in ("ran", "shared")}
            return Map(
                [*map(str, found["tests"])],
                [*map(str, found["functions"])],
                bits["ran"].astype(bool),
                bits["shared"].astype(bool),
                found["always"],
                found["apart"],
                found["seconds"],
                dict(str(line).split(" ") for line in found["digests"]),
            )

    def age(self, changes: Changes) -> float:
        """The share of its files that are not as they were, those of the change left out."""
        rest = [n for n in self.digests if n not in changes.lines]
        changed = [n for n in rest if not (ROOT / n).exists() or digest(n) != self.digests[n]]
        return len(changed) / max(len(rest), 1)

    def tests_of(self, columns: Iterable[int]) -> set[str]:
        """The tests that depend on any of these functions."""
        which = sorted(set(columns))
        if self.always[which].any():
            return set(self.tests)
        files = {f for f, row in zip(self.files, self.shared[:, which], strict=True) if row.any()}
        ran = self.ran[:, which].any(axis=1) | self.apart
        return {t for t, hit in zip(self.tests, ran, strict=True) if hit or file_of(t) in files}

    def tests_that_ran(self, columns: Iterable[int]) -> set[str]:
        """The tests that ran any of these functions themselves."""
        hits = self.ran[:, sorted(set(columns))].any(axis=1)
        return {test for test, hit in zip(self.tests, hits, strict=True) if hit}

    @cached_property
    def size(self) -> dict[str, int]:
        """How many functions each test runs: few are near to what they test."""
        return dict(zip(self.tests, map(int, self.ran.sum(axis=1)), strict=True))

    @cached_property
    def cost(self) -> dict[str, float]:
        """How long each test took."""
        return dict(zip(self.tests, map(float, self.seconds), strict=True))


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


class Relevance:
    """The tests that a change concerns, by a map; those that the map does not know are of them."""

    def __init__(self, of: Map, changes: Changes) -> None:
        self.map, self.changes = of, changes
        of_file = {n: set(self.functions(n)) for n in changes.lines if n.endswith(".py")}
        columns = {i for found in of_file.values() for i in found}
        self.blind = {n for n, found in of_file.items() if not found}
        self.tests = of.tests_of(columns) if columns else set()
        self.ran = of.tests_that_ran(columns)
        mentioned = {Path(n).name for n in changes.lines if not n.endswith(".py")}
        self.files = changes.tests | set(_that_mention(mentioned, of.files)) | self._importers()
        self.unknown = {f for f in test_files() if f not in of.digests} | self._maybe_new()

    def _importers(self) -> set[str]:
        """Files of tests that name a changed file of which the map knows nothing: a table of the
        tests, a tool, an example, or code that no test ran; through other tables as well.
        """
        found, stems = set[str](), {Path(n).stem for n in self.blind}
        texts = {n: (ROOT / n).read_text("utf8") for n in sources() if n.startswith("tests/")}
        while stems:
            said = re.compile(r"\b(?:" + "|".join(map(re.escape, stems)) + r")\b")
            new = {n for n, text in texts.items() if n not in found and said.search(text)}
            found |= new
            stems = {Path(n).stem for n in new if not Path(n).name.startswith("test_")}
        return found

    def _maybe_new(self) -> set[str]:
        """Files that the change may give new tests: those that walk what it adds to."""
        added = any(n not in self.map.digests for n in self.changes.sources)
        return {file_of(t) for t in self.tests} if added or self.changes.definitions else set()

    def __call__(self, test: str) -> bool:
        """Whether a change concerns a test."""
        return test in self.tests or file_of(test) in self.files or test not in self.map.known

    def functions(self, name: str) -> Iterator[int]:
        """The functions of the map that a changed file concerns."""
        for side, lines, text in self.changes.sides(name):
            for line in lines:
                if 0 < line <= len(text) and _says_something(text[line - 1]):
                    yield from self._at(name, side, line)

    def _at(self, name: str, side: Source, line: int) -> Iterator[int]:
        function, whole = side.at(line), self.map.of_file.get(name, [])
        if function is not None:
            column = self.map.columns.get(f"{name}:{function}")
            if column is not None:
                yield column
            elif function in side.registered:
                yield from whole
        elif (holder := side.class_at(line)) is not None:
            start = f"{name}:{holder}."
            own = [i for i in whole if self.map.functions[i].startswith(start)]
            yield from own or whole
        else:
            yield from self._readers(name, side.assigned.get(line, set())) or whole

    def _readers(self, name: str, words: set[str]) -> list[int]:
        """Functions that read names which a file gives a meaning, in it and in what imports it."""
        if not words:
            return []
        module = Path(name).stem
        said = re.compile(r"\b(?:" + "|".join(words) + r")\b")
        found: list[int] = []
        for other in sources():
            text = (ROOT / other).read_text("utf8")
            if module not in text or not said.search(text):
                continue
            known = source(other)
            imports = {w for names in known.assigned.values() for w in names}
            if other != name and not (imports & words or module in imports):
                continue
            reading = [f for f, read in known.words.items() if read & words]
            found += [self.map.columns.get(f"{other}:{f}", -1) for f in reading]
        return [i for i in found if i >= 0]


def _says_something(line: str) -> bool:
    """Whether a line is more than space and a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _that_mention(names: set[str], files: Iterable[str]) -> Iterator[str]:
    """Files of tests in whose text a name stands."""
    if names:
        pattern = re.compile("|".join(map(re.escape, names)))
        for file in files:
            path = ROOT / file
            if path.name in names or (path.exists() and pattern.search(path.read_text("utf8"))):
                yield file


def test_files() -> list[str]:
    """The files of tests that are Python; golden files are tests, too."""
    return [n for n in sources() if n.startswith("tests/") and Path(n).name.startswith("test_")]
