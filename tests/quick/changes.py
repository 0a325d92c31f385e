"""What differs from a commit: files, lines before and after, and the definitions around them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .sources import ROOMS, ROOT, Source, read


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


@dataclass
class Lines:
    """The lines of one file that differ, by their numbers before and after."""

    before: set[int] = field(default_factory=set)
    after: set[int] = field(default_factory=set)


class Changes:
    """Files that differ from a commit, and what has changed in them."""

    def __init__(self, since: str) -> None:
        self.since = since
        self.lines = dict(_changed_lines(git("diff", "--no-renames", "--unified=0", since)))
        for name in git("ls-files", "--others", "--exclude-standard").splitlines():
            self.lines.setdefault(name, Lines(after=set(range(1, 100_000))))

    @property
    def tests(self) -> set[str]:
        """Changed files of tests."""
        return {name for name in self.lines if name.startswith("tests/")}

    @property
    def sources(self) -> list[str]:
        """Changed files of the package."""
        return [n for n in self.lines if n.endswith(".py") and n.split("/")[0] in ROOMS]

    def sides(self, name: str) -> Iterator[tuple[Source, set[int], list[str]]]:
        """A file of Python before and after: its functions, the lines that differ, and its text."""
        lines = self.lines[name]
        if lines.before:
            yield _side(name, lines.before, git("show", f"{self.since}:{name}"))
        if (ROOT / name).exists():
            yield _side(name, lines.after, (ROOT / name).read_text("utf8"))

    @cached_property
    def definitions(self) -> set[str]:
        """Names of functions and classes in which a line has changed, and of operations."""
        return {found for name in self.sources for found in _defined(name, self.lines[name].after)}


def _side(name: str, lines: set[int], text: str) -> tuple[Source, set[int], list[str]]:
    return read(name, text), lines, text.splitlines()


def _changed_lines(diff: str) -> Iterator[tuple[str, Lines]]:
    """Each file of a difference, and the lines that differ.

    What is only taken out, or only put in, concerns no line of the other side.
    """
    for part in re.split(r"^diff --git ", diff, flags=re.M)[1:]:
        name = re.search(r"^\+\+\+ b/(.*)$", part, re.M) or re.search(r"^--- a/(.*)$", part, re.M)
        if name:
            found = Lines()
            for a, m, b, n in re.findall(
                r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", part, re.M
            ):
                found.before |= set(range(int(a), int(a) + int(m or 1)))
                found.after |= set(range(int(b), int(b) + int(n or 1)))
            yield name[1], found


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


def inside(source: Path) -> Path:
    """The place of a file among the tests that mirror it."""
    return Path(*source.parts[1:]) if source.parts[0] == "dlvm" else source
