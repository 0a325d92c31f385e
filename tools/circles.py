"""Fails where modules import one another in a circle that is not listed here.

python -m tools.circles

An import is an edge from the file that holds it to the module that it names, wherever it stands:
at the top, inside a function, or where only a type checker looks.

- ``from .core import Op`` and ``from . import core`` both name ``core``, and not the package.
- ``from dlvm.ir import Op`` names the package ``dlvm.ir``: its ``__init__`` has to give ``Op``.
- ``import_module("dlvm.ir")`` with a constant string names ``dlvm.ir``. A name that is put
  together while the program runs is no edge.
- Python also runs the packages above a module that it imports. That is no edge: every
  ``__init__`` that collects the names of its folder would form a circle with the folder.

A circle is a strongly connected component of at least two modules: each of them leads to each.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.source import Module, Modules, modules

Graph = Mapping[str, frozenset[str]]

KNOWN = (
    "dlvm.dsl.call: compiled short_cuts source",  # 3 modules
    "dlvm.dsl.call: explain programs",  # 2
    "dlvm.dsl.trace: comparing trees",  # 2
    "dlvm.dsl.trace: mistakes sizes tensor",  # 3
    "dlvm.gen.cpu: driver parallel_loops",  # 2
    "dlvm.gen.cpu: forks kernels product_calls sort_calls",  # 4
    "dlvm.gen.loops: statements text",  # 2
    "dlvm.gen.lower: elements folds running staging",  # 4
)
"""Circles that still exist: a package, and modules in it. A circle may lose modules, never gain."""


def imports(known: Modules) -> Graph:
    """The modules that each module names in its imports, itself left out."""
    return {m.name: frozenset(_named(m, known)) - {m.name} for m in known.values()}


def _named(module: Module, known: Modules) -> Iterator[str]:
    for _, source, name in module.imported_names():
        inner = f"{source}.{name}"
        yield from [inner] if inner in known else [source] if source in known else []
    for node in module.nodes:
        match node:
            case ast.Import(names=names):
                yield from (n.name for n in names if n.name in known)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ) if name in known:
                yield name
            case _:
                pass


def reached(graph: Graph, start: str) -> set[str]:
    """The modules that one or more edges lead to."""
    found: set[str] = set()
    pending = [start]
    while pending:
        new = graph[pending.pop()] - found
        found |= new
        pending.extend(new)
    return found


def circles(graph: Graph) -> list[frozenset[str]]:
    """The strongly connected components of at least two modules."""
    ahead = {name: reached(graph, name) for name in graph}
    groups = {frozenset({a, *(b for b in ahead[a] if a in ahead[b])}) for a in graph}
    return sorted((g for g in groups if len(g) > 1), key=sorted)


def members(line: str) -> frozenset[str]:
    """The modules of a line of ``KNOWN``."""
    package, _, names = line.partition(":")
    return frozenset(f"{package}.{name}" for name in names.split())


def findings(graph: Graph, known: Sequence[str]) -> list[str]:
    """Circles that are not part of a listed one, and listed ones that have become smaller."""
    found = circles(graph)
    listed = {line: members(line) for line in known}
    grown = [c for c in found if not any(c <= circle for circle in listed.values())]
    said = [
        f"{len(circle)} modules import one another in a circle: {_edges(graph, circle)}; move "
        "what both sides need into a module below them, or give the lower one a table to fill"
        for circle in grown
    ]
    for line, circle in listed.items():
        left = [c for c in found if c <= circle]
        if circle not in left and not any(circle & c for c in grown):
            rest = " and ".join(", ".join(sorted(c)) for c in left)
            remedy = f"list only {rest}" if left else "remove its line from KNOWN"
            said.append(f"the circle of {len(circle)} modules, {line}, is smaller now: {remedy}")
    return said


def _edges(graph: Graph, circle: frozenset[str]) -> str:
    return ", ".join(f"{a} -> {b}" for a in sorted(circle) for b in sorted(graph[a] & circle))


def main() -> int:
    """Prints what is found; the exit status says whether that is anything."""
    found = findings(imports(modules(Path(__file__).parents[1])), KNOWN)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
