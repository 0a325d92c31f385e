"""Notes which functions of the project a process runs: Python imports this file at its start.

``python -m tests.quick.mapping`` puts this folder on ``PYTHONPATH``, so that the processes that a
test starts take notes as well, and forked ones go on with them. The notes are lines of one file:
``T``, the time and a test, then the functions that it ran, each with a letter.

- ``R``: the test ran it;
- ``F``: it ran below something whose result outlives a test (``@cache`` and its kin, a fixture of
  a whole file, a program of a function that is no test's own, the import of a test file), so any
  test of the file may depend on it;
- ``I``: it ran while a module of the package was imported, so every test depends on it;
- ``P``, without a function: the test started a process that can't take notes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import CodeType, FrameType
from typing import Any

NOTES, ROOT, CACHED = "SUITE_NOTES", "SUITE_ROOT", "SUITE_CACHED"
PROGRAM = "programs.py:Programs._compile"


class Tracer:
    """Writes down each function that runs, once for each test."""

    def __init__(self) -> None:
        self.root = os.environ[ROOT] + os.sep
        self.file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.cached: frozenset[str] | None = None
        self.seen: dict[int, CodeType] = {}
        self.names: dict[int, tuple[CodeType, str]] = {}

    def start(self) -> None:
        """Trace this thread, and those that start from now on."""
        sys.addaudithook(self.audit)
        threading.settrace(self.call)
        sys.settrace(self.call)

    def begin(self, test: str) -> None:
        """What runs from now on belongs to this test."""
        self.write(f"T {time.monotonic()} {test}")
        self.seen.clear()

    def write(self, line: str) -> None:
        """One line, whatever other processes write."""
        os.write(self.file, f"{line}\n".encode())

    def call(self, frame: FrameType, event: str, arg: Any) -> None:
        """Called for every call; as it returns nothing, it is not called for lines."""
        code = frame.f_code
        if id(code) not in self.seen:
            self.seen[id(code)] = code
            name = self.name(code)
            if name and not name.endswith("<module>"):
                self.write(f"{self.kind(frame)} {name}")

    def name(self, code: CodeType) -> str:
        """The file and the qualified name of a function of the project."""
        known = self.names.get(id(code))
        if known is None:
            known = self.names[id(code)] = code, self._name(code)
        return known[1]

    def _name(self, code: CodeType) -> str:
        file = code.co_filename
        if not file.startswith(self.root) or ".venv" in file or "sitecustomize" in file:
            return ""
        inside = file[len(self.root) :]
        for room in ("dsl", "ad", "opt", "gen"):
            inside = inside.removeprefix("dlvm/") if inside.startswith(f"dlvm/{room}/") else inside
        qualified = code.co_qualname.partition(".<locals>")[0]
        return f"{inside}:{qualified}"

    def kind(self, frame: FrameType) -> str:
        """The letter of a function that runs now: what stands above it decides."""
        if self.cached is None:
            with open(os.environ[CACHED], encoding="utf8") as lines:
                self.cached = frozenset(lines.read().split("\n"))
        kind, above = "R", frame.f_back
        if self.name(frame.f_code) in self.cached:
            return "F"
        while above is not None:
            name = self.name(above.f_code)
            if name:
                if name.endswith(":<module>"):
                    return "F" if name.startswith("tests/") else "I"
                if name in self.cached or (name.endswith(PROGRAM) and outlives(above)):
                    kind = "F"
            elif above.f_code.co_name == "pytest_fixture_setup":
                kind = "R" if above.f_locals["fixturedef"].scope == "function" else "F"
            above = above.f_back
        return kind

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """A process that is started without the environment takes no notes."""
        if event == "subprocess.Popen" and arguments[3] is not None and NOTES not in arguments[3]:
            self.write("P")


def outlives(frame: FrameType) -> bool:
    """Whether a program is of a function that was not made by the test that compiles it."""
    return "<locals>" not in getattr(frame.f_locals["self"].source.fn, "__qualname__", "")


if NOTES in os.environ:
    TRACER = Tracer()
    TRACER.start()
