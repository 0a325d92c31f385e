"""Feedback in a minute: the tests nearest to what has changed, and a sample of all others.

python -m tests.quick [--seconds 45] [--since COMMIT]

What has changed is what differs from a commit: from where this branch left ``main``, or, where
nothing is committed since, the files that are not committed, or the last commit. The tests run in
this order until the time is over: changed tests; tests that mirror a changed file, or are about an
operation whose class has changed; tests of files that name what has changed; tests of the mirrored
folder. Every fifth test is of the sample of all others, which is another one each time
(``SUITE_SEED`` repeats one). Tests that start processes and last long are left out unless they
are changed themselves. At the end stands what was not started in time.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("dlvm", "dsl", "ad", "opt", "gen")
SLOW = ("tests/robust/", "tests/test_guards", "tests/test_leaks", "tests/test_fuzz",
        "tests/trust/test_planted", "tests/test_packaging", "tests/test_docs",
        "tests/test_examples")  # fmt: skip
"""Tests that start processes or take seconds each."""
EVERY = 5
"""One test of so many is of the sample."""
LAST = 6.0
"""Seconds before the end in which no test starts: for the last one, the start and the report."""
SINCE, SEED = "QUICK_SINCE", "SUITE_SEED"


def git(*arguments: str) -> str:
    """What git prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def base() -> str:
    """The commit that changes are counted from."""
    fork = git("merge-base", "HEAD", "main").strip() if git("branch", "--list", "main") else ""
    if fork and fork != git("rev-parse", "HEAD").strip():
        return fork
    return "HEAD" if git("status", "--porcelain").strip() else "HEAD~1"


class Changes:
    """Files that differ from a commit, and what has changed in them."""

    def __init__(self, since: str) -> None:
        self.lines = dict(_changed_lines(git("diff", "--unified=0", since)))
        for name in git("ls-files", "--others", "--exclude-standard").splitlines():
            self.lines.setdefault(name, set(range(1, 100_000)))

    @property
    def tests(self) -> set[str]:
        """Changed files of tests."""
        return {name for name in self.lines if name.startswith("tests/")}

    @property
    def sources(self) -> list[str]:
        """Changed files of the package."""
        return [n for n in self.lines if n.endswith(".py") and n.split("/")[0] in ROOMS]

    @cached_property
    def mirrors(self) -> set[str]:
        """Files of tests that mirror a changed one, by its name or by that of its folder."""
        return {str(path) for name in self.sources for path in _mirrors(Path(name))}

    @cached_property
    def folders(self) -> set[str]:
        """Folders of tests that mirror the folders of changed files."""
        return {f"tests/{_inside(Path(name)).parent}/" for name in self.sources} - {"tests/./"}

    @cached_property
    def definitions(self) -> set[str]:
        """Names of functions and classes in which a line has changed, and of operations."""
        return {found for name in self.sources for found in _defined(name, self.lines[name])}

    @cached_property
    def mentioned(self) -> re.Pattern[str] | None:
        """What files of tests may say that are about a changed file."""
        modules = [str(_inside(Path(n)).with_suffix("")).replace("/", ".") for n in self.sources]
        words = {*modules, *(w for w in self.definitions if len(w) > 3)}
        return re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + r")\b") if words else None


def _changed_lines(diff: str) -> Iterator[tuple[str, set[int]]]:
    """Each file of a difference, and the numbers of the lines that are new in it."""
    for part in re.split(r"^diff --git ", diff, flags=re.M)[1:]:
        name = re.search(r"^\+\+\+ b/(.*)$", part, re.M) or re.search(r"^--- a/(.*)$", part, re.M)
        if name:
            spans = re.findall(r"^@@ \S+ \+(\d+)(?:,(\d+))? @@", part, re.M)
            yield name[1], {i for at, n in spans for i in range(int(at), int(at) + int(n or 1) + 1)}


def _inside(source: Path) -> Path:
    """The place of a file among the tests that mirror it."""
    return Path(*source.parts[1:]) if source.parts[0] == "dlvm" else source


def _mirrors(source: Path) -> Iterator[Path]:
    place = Path("tests") / _inside(source)
    for name in (source.stem, source.parent.name):
        yield place.parent / f"test_{name}.py"
        yield place.parent.parent / f"test_{name}.py"
        yield Path("tests") / f"test_{name}.py"


def _defined(name: str, lines: set[int]) -> Iterator[str]:
    """Definitions of a file that hold one of these lines; of an operation, its name in the text."""
    path = ROOT / name
    if not path.exists():
        return
    for node in ast.parse(path.read_text("utf8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            if lines & set(range(first, (node.end_lineno or first) + 1)):
                yield node.name
                yield from re.findall(r"^    name = '(\w+)'", ast.unparse(node), re.M)


class Nearness:
    """How near a test is to what has changed: 0 is the change itself, None is far."""

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
        if (rank is None or rank > 1) and set(re.findall(r"\w+", case)) & self.changes.definitions:
            return 1
        return rank

    def _of_file(self, file: str) -> int | None:
        changes = self.changes
        if file in changes.tests:
            return 0
        if file.startswith(SLOW):
            return None
        if file in changes.mirrors:
            return 1
        text = (ROOT / file).read_text("utf8")
        if changes.mentioned and changes.mentioned.search(text):
            return 2
        if self.helper.search(text):
            return 2
        return 3 if file.startswith(tuple(changes.folders) or ("-",)) else None


# -- the plugin ----------------------------------------------------------------------------------


class Quick:
    """Puts the nearest tests first, and one of the others after every few of them."""

    def __init__(self, since: str) -> None:
        self.near = Nearness(Changes(since))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        kept = [i for i in items if not i.nodeid.startswith(SLOW) or self.near(i.nodeid) == 0]
        random.Random(int(os.environ[SEED])).shuffle(kept)
        ranks = {item: self.near(item.nodeid) for item in kept}
        far = [item for item in kept if ranks[item] is None]
        near = sorted((i for i in kept if ranks[i] is not None), key=lambda i: ranks[i] or 0)
        items[:] = _interleaved(near, far)


def _interleaved(near: list[pytest.Item], far: list[pytest.Item]) -> Iterator[pytest.Item]:
    """All of both: every fifth is far, as long as there are near ones."""
    step = EVERY - 1
    for i in range(0, max(len(near), step * len(far)), step):
        yield from near[i : i + step]
        yield from far[i // step : i // step + 1]


def pytest_configure(config: pytest.Config) -> None:
    if SINCE in os.environ:
        config.pluginmanager.register(Quick(os.environ[SINCE]), "quick")


def main() -> int:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--since", help="the commit that changes are counted from")
    options = parser.parse_args()
    since, seed = options.since or base(), os.environ.get(SEED, str(int(time.time()) % 1_000_000))
    changed = Changes(since)
    print(f"quick: {len(changed.lines)} files differ from {since}:", *list(changed.lines)[:12])
    print("not run unless they are changed:", *SLOW, flush=True)
    how = ["-n2", "--maxschedchunk=2", f"--seconds={options.seconds - LAST}", "-p", "tests.quick"]
    env = {**os.environ, SEED: seed, SINCE: since}
    return subprocess.run([sys.executable, "-m", "pytest", *how], cwd=ROOT, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
