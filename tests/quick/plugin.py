"""The plugin of ``make quick``: takes the tests that a change concerns, the nearest first.

``Choice`` says of a test whether the change concerns it, how near it is, and about how long it
takes; by the map where there is one that is not old, else by names.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from .changes import Changes
from .mapped import MAP, OLD, Map, Relevance, file_of, test_files
from .names import SLOW, Nearness
from .sources import ROOT

EVERY = 5
"""One test of so many is of the sample."""
FILES_OF_SAMPLE = 8
"""Files of tests that the sample is drawn from, so that not all have to be collected."""
DOCS = "tests/test_docs.py"
ALWAYS = ("test_every_", "test_the_readme_fits", "test_the_reference_")
"""Tests of the pages that take two seconds together, and are never left out."""
SINCE, SEED, TOLD = "QUICK_SINCE", "SUITE_SEED", "QUICK_TOLD"


class Choice:
    """Which tests are run, in which order."""

    def __init__(self, since: str) -> None:
        self.changes = Changes(since)
        self.by_name = Nearness(self.changes)
        self.relevance, self.why_not = None, "there is no map of what tests run (make map)"
        if MAP.exists():
            found = Map.load()
            age = found.age(self.changes)
            self.why_not = f"{age:.0%} of the files have changed since the map was made (make map)"
            self.relevance = Relevance(found, self.changes) if age <= OLD else None

    @cached_property
    def files(self) -> list[str]:
        """The files of tests to collect: those that the change concerns, and some others."""
        if self.relevance is None:
            return ["tests"]
        near = {file_of(test) for test in self.relevance.tests}
        near |= self.relevance.files | self.relevance.unknown
        every = test_files()
        rest = [f for f in every if f not in near and not f.startswith(SLOW)]
        random.Random(int(os.environ[SEED])).shuffle(rest)
        chosen = sorted({*near, *rest[:FILES_OF_SAMPLE], DOCS})
        return [f for f in chosen if f in every or (f.endswith(".dlvm") and (ROOT / f).exists())]

    def concerns(self, test: str) -> bool:
        """Whether the change concerns a test."""
        if self.relevance is not None:
            return self.relevance(test)
        return self.by_name(test) is not None

    def place(self, test: str) -> tuple[int, int]:
        """What is small comes first: changed tests, those by name that ran what has changed, others
        that ran it, those by name; of these, the tests that run little else.
        """
        rank = self.by_name(test)
        if self.relevance is None:
            return (4 if rank is None else rank), 0
        size = self.relevance.map.size.get(test, 0)
        named = rank in (0, 1, 2)
        ran = test in self.relevance.ran or test not in self.relevance.map.known
        place = 0 if rank == 0 else 1 if named and ran else 2 if ran else 3 if named else 4
        return place, int(math.log2(size + 1))

    def cost(self, test: str) -> float:
        """About how many seconds a test takes."""
        return self.relevance.map.cost.get(test, 0.0) if self.relevance is not None else 0.0


class Quick:
    """Puts the nearest tests first, and one of the others after every few of them."""

    def __init__(self, choice: Choice) -> None:
        self.choice = choice
        self.near: set[str] = set()
        self.ran = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item], config: pytest.Config
    ) -> None:
        choice = self.choice
        random.Random(int(os.environ[SEED])).shuffle(items)
        docs = [i for i in items if i.nodeid.startswith(DOCS) and i.name.startswith(ALWAYS)]
        always = {*docs}
        near = [i for i in items if i not in always and choice.concerns(i.nodeid)]
        chosen = {*near, *docs}
        far = [i for i in items if i not in chosen and not i.nodeid.startswith(SLOW)]
        near.sort(key=lambda i: choice.place(i.nodeid))
        items[:] = [*docs, *interleaved(near, far)]
        # imported here, as pytest rewrites that file when it becomes a plugin, and not before
        from tests.running import EXPECTED

        config.stash[EXPECTED] = {i.nodeid: choice.cost(i.nodeid) for i in items}
        self.near = {item.nodeid for item in near}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.skipped:
            self.ran += report.nodeid in self.near

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        told = getattr(session.config, "workeroutput", None)
        if told is not None:
            told["near"], told["near ran"] = len(self.near), self.ran

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        file = Path(os.environ[TOLD])
        told = json.loads(file.read_text()) if file.exists() else {"near": 0, "ran": 0}
        told["near"] = max(told["near"], output.get("near", 0))
        told["ran"] += output.get("near ran", 0)
        file.write_text(json.dumps(told))


def interleaved(near: list[Any], far: list[Any]) -> Iterator[Any]:
    """All of both: every fifth is far, as long as there are near ones."""
    step = EVERY - 1
    for i in range(0, max(len(near), step * len(far)), step):
        yield from near[i : i + step]
        yield from far[i // step : i // step + 1]


def pytest_configure(config: pytest.Config) -> None:
    if SINCE in os.environ:
        config.pluginmanager.register(Quick(Choice(os.environ[SINCE])), "quick")
