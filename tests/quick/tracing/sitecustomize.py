"""Notes which functions of the project a process runs: Python imports this file at its start.

``python -m tests.quick.mapping`` puts this folder on ``PYTHONPATH``, so that the processes that a
test starts take notes as well, and forked ones go on with them. Every function of the package gets
a first statement that asks whether it was noted since the test began; a trace function of Python's
would make calls eight times slower. The notes are lines of one file: ``T``, the time and a test,
then the functions that it ran, each with a letter.

- ``R``: the test ran it;
- ``F``: it ran below something whose result outlives a test (``@cache`` and its kin, a fixture of
  a whole file, a program of a function that is no test's own, the import of a test file), so any
  test of the file may depend on it;
- ``I``: it ran while a module of the package was imported, so every test depends on it;
- ``P``, without a function: the test started a process that can't take notes, or it failed.
"""

from __future__ import annotations

import ast
import builtins
import ctypes
import os
import sys
import time
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType
from typing import Any

NOTES, ROOT, CACHED, BYTECODE = "SUITE_NOTES", "SUITE_ROOT", "SUITE_CACHED", "SUITE_BYTECODE"
HERE = os.path.dirname(__file__)
PROGRAM = "programs.py:Programs._compile"
ROOMS = ("dsl", "ad", "opt", "gen")
Def = ast.FunctionDef | ast.AsyncFunctionDef


class Notes:
    """Writes down each function that runs, once for each test."""

    def __init__(self) -> None:
        self.root = os.environ[ROOT] + os.sep
        self.file = os.open(os.environ[NOTES], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.cached: frozenset[str] | None = None
        self.seen: set[str] = set()
        self.names: dict[int, tuple[CodeType, str]] = {}

    def begin(self, test: str) -> None:
        """What runs from now on belongs to this test."""
        self.write(f"T {time.monotonic()} {test}")
        self.seen.clear()

    def write(self, line: str) -> None:
        """One line, whatever other processes write."""
        os.write(self.file, f"{line}\n".encode())

    def first(self, name: str) -> None:
        """The first call of a function by a test."""
        self.seen.add(name)
        self.write(f"{self.kind(name, sys._getframe(2))} {name}")

    def file_of(self, path: str) -> str:
        """The name of a file of the project that takes part, else nothing."""
        if not path.startswith(self.root) or ".venv" in path:
            return ""
        name = path[len(self.root) :]
        for room in ROOMS:
            name = name.removeprefix("dlvm/") if name.startswith(f"dlvm/{room}/") else name
        return name

    def name(self, code: CodeType) -> str:
        """The file and the qualified name of a function of the project."""
        known = self.names.get(id(code))
        if known is None:
            file = self.file_of(code.co_filename)
            found = f"{file}:{code.co_qualname.partition('.<locals>')[0]}" if file else ""
            known = self.names[id(code)] = code, found
        return known[1]

    def kind(self, name: str, above: FrameType | None) -> str:
        """The letter of a function that runs now: what stands above it decides."""
        if self.cached is None:
            with open(os.environ[CACHED], encoding="utf8") as lines:
                self.cached = frozenset(lines.read().split("\n"))
        kind = "F" if name in self.cached else "R"
        while above is not None:
            name = self.name(above.f_code)
            if name:
                if name.endswith(":<module>"):
                    if above.f_globals.get("__name__") == "__main__":  # a script, and no import
                        return kind
                    return "F" if name.startswith("tests/") else "I"
                if name in self.cached or (name.endswith(PROGRAM) and outlives(above)):
                    kind = "F"
            elif above.f_code.co_name == "pytest_fixture_setup":
                scope = above.f_locals["fixturedef"].scope
                kind = kind if scope == "function" else "F"
            above = above.f_back
        return kind

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """A process that is started without the environment takes no notes."""
        if event == "subprocess.Popen" and arguments[3] is not None:
            there = {os.fsdecode(k): os.fsdecode(v) for k, v in arguments[3].items()}
            if NOTES not in there or HERE not in there.get("PYTHONPATH", ""):
                self.write("P")


def outlives(frame: FrameType) -> bool:
    """Whether a program is of a function that was not made by the test that compiles it."""
    of = frame.f_locals.get("self")  # a function inside has none
    return of is not None and "<locals>" not in getattr(of.source.fn, "__qualname__", "")


class Noting(ast.NodeTransformer):
    """Puts ``__ran__(name) or __first__(name)`` first into each function that is in no other."""

    def __init__(self, file: str) -> None:
        self.file, self.prefix = file, ""

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        before, self.prefix = self.prefix, f"{self.prefix}{node.name}."
        self.generic_visit(node)
        self.prefix = before
        return node

    def visit_FunctionDef(self, node: Def) -> Def:
        text = f"{self.file}:{self.prefix}{node.name}"
        (ask,) = ast.parse(f"__ran__({text!r}) or __first__({text!r})").body
        for part in ast.walk(ask):
            if isinstance(part, ast.stmt | ast.expr):
                part.lineno = part.end_lineno = node.lineno
                part.col_offset = part.end_col_offset = node.col_offset
        head = 1 if ast.get_docstring(node, clean=False) is not None else 0
        node.body.insert(head, ask)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef


def noted(file: str) -> bool:
    """Whether the functions of a file are noted: all others stand for the user's code."""
    return file.partition("/")[0] in ("dlvm", *ROOMS)


def install() -> Notes:
    """Note what runs from now on."""
    notes = Notes()
    sys.pycache_prefix = os.environ[BYTECODE]  # who takes no notes must not read what is noted
    plain = SourceFileLoader.source_to_code

    def source_to_code(self: Any, data: Any, path: Any, **how: Any) -> CodeType:
        file = notes.file_of(os.fspath(path)) if isinstance(path, str) else ""
        if not noted(file):
            return plain(self, data, path, **how)
        tree = Noting(file).visit(ast.parse(data, path))
        return compile(tree, path, "exec", dont_inherit=True)

    SourceFileLoader.source_to_code = source_to_code  # type: ignore[method-assign]
    builtins.__ran__ = notes.seen.__contains__  # type: ignore[attr-defined]
    # dlvm follows what functions load, into functions of Python, but not into those of C
    first = ctypes.PYFUNCTYPE(None, ctypes.py_object)(notes.first)
    builtins.__first__ = first  # type: ignore[attr-defined]
    sys.addaudithook(notes.audit)
    return notes


if NOTES in os.environ:
    NOTES_OF = install()
