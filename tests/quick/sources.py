"""The functions of a source file: which lines are whose, who is kept, who reads a constant."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("dlvm", "dsl", "ad", "opt", "gen")
KEEPERS = {"cache", "lru_cache", "cached_property", "lazy"}
"""Decorators whose result outlives the call that computed it."""
Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Source:
    """A file of Python, by its functions: ``f``, ``Class.method``, and what is inside of them."""

    name: str
    functions: dict[str, tuple[int, int]] = field(default_factory=dict)
    classes: dict[str, tuple[int, int]] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Functions with a decorator of ``KEEPERS``."""
    registered: set[str] = field(default_factory=set)
    """Functions with any decorator, and methods, which others reach without naming the file."""
    words: dict[str, set[str]] = field(default_factory=dict)
    """The names that each function reads."""
    assigned: dict[int, set[str]] = field(default_factory=dict)
    """The names that a line outside of functions assigns or imports."""

    def at(self, line: int) -> str | None:
        """The function that a line belongs to."""
        for name, (first, last) in self.functions.items():
            if first <= line <= last:
                return name
        return None

    def class_at(self, line: int) -> str | None:
        """The class that a line belongs to."""
        for name, (first, last) in self.classes.items():
            if first <= line <= last:
                return name
        return None


def span(node: Def | ast.ClassDef) -> tuple[int, int]:
    """The lines of a definition, its decorators included."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)]), node.end_lineno or 0


def read(name: str, text: str) -> Source:
    """The functions of a text."""
    source = Source(name)
    _read(source, ast.parse(text).body, "")
    return source


@cache
def source(name: str) -> Source:
    """The functions of a file as it is now."""
    return read(name, (ROOT / name).read_text("utf8"))


def _read(source: Source, body: list[ast.stmt], prefix: str) -> None:
    for node in body:
        if isinstance(node, Def):
            name = prefix + node.name
            first, last = span(node)
            if name in source.functions:  # overloads, and the two halves of a property
                first = min(first, source.functions[name][0])
            source.functions[name] = first, last
            source.words.setdefault(name, set()).update(words(node))
            if KEEPERS & {w for d in node.decorator_list for w in words(d)}:
                source.kept.add(name)
            if node.decorator_list or prefix:
                source.registered.add(name)
        elif isinstance(node, ast.ClassDef):
            source.classes[prefix + node.name] = span(node)
            _read(source, node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try | ast.With):
            _read(source, node.body, prefix)
        else:
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                source.assigned.setdefault(line, set()).update(stored(node))


def words(node: ast.AST) -> set[str]:
    """Names and attributes that a piece of code reads."""
    found = (getattr(n, "id", None) or getattr(n, "attr", None) for n in ast.walk(node))
    return {word for word in found if word}


def stored(node: ast.stmt) -> Iterator[str]:
    """Names that a statement gives a meaning."""
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            yield n.id
        elif isinstance(n, ast.alias):
            yield (n.asname or n.name).partition(".")[0]


@cache
def sources() -> tuple[str, ...]:
    """Every file of Python that tests may run, tests and their tables included."""
    folders = (*ROOMS, "tests", "tools", "benchmarks", "examples")
    found = (p for f in folders for p in (ROOT / f).rglob("*.py"))
    names = {str(p.relative_to(ROOT)) for p in found if "out" not in p.parts}
    return tuple(sorted(n for n in names if not (ROOT / n).is_symlink() and not linked(n)))


def linked(name: str) -> bool:
    """Whether a file is reached through one of the links of ``dlvm/``."""
    parts = name.split("/")
    return len(parts) > 2 and parts[0] == "dlvm" and parts[1] in ROOMS
