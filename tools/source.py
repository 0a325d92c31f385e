"""Reads the package without importing it: its modules, and what the names in them stand for."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDERS = ("dlvm", "dsl", "ad", "opt", "gen")
"""Top-level folders of the package; ``dlvm`` holds a link to each of the others."""


@dataclass(frozen=True)
class Module:
    """One file of the package, by the name that import statements give it."""

    name: str
    file: Path

    @cached_property
    def tree(self) -> ast.Module:
        """The file as Python reads it."""
        return ast.parse(self.file.read_text("utf8"))

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All that the tree holds."""
        return tuple(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """What ``from .`` means in this file."""
        return self.name if self.file.name == "__init__.py" else self.name.rpartition(".")[0]

    def source_of(self, node: ast.ImportFrom) -> str:
        """The full name of the module after ``from``."""
        parts = self.package.split(".")
        above = parts[: len(parts) + 1 - node.level] if node.level else []
        return ".".join([*above, *([node.module] if node.module else [])])

    def imported_names(self) -> Iterator[tuple[str, str, str]]:
        """Each name of ``from ... import``: as this file calls it, its module, its name there."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield alias.asname or alias.name, self.source_of(node), alias.name


Modules = Mapping[str, Module]


def modules(root: Path) -> Modules:
    """Every module of the package by name; a file that links lead to as well is read once."""
    found: dict[str, Module] = {}
    for top in FOLDERS:
        links = {f for f in (root / top).iterdir() if f.is_symlink()}
        for file in sorted((root / top).rglob("*.py")):
            if links.isdisjoint(file.parents):
                parts = file.relative_to(root).with_suffix("").parts
                inside = ("dlvm", *parts[top == "dlvm" :])
                name = ".".join(part for part in inside if part != "__init__")
                found[name] = Module(name, file)
    return found
