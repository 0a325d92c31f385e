"""Fails where a class has more than 250 lines and is not listed here.

python -m tools.large_classes

A class that is cut into files by inheritance counts whole: to its own lines are added those of
each base that only this class has, where all that derives from the base is this class, its bases,
or what derives from this class. A base counts by itself if other classes share it, or if objects
are made of it: what derives from such a base is not to blame for its size. Lines are those from the
first decorator to the last statement, docstrings and blank lines included.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.source import Module, Modules, modules

LIMIT = 250
STEP = 10
STALE = 20

KNOWN = {
    "dlvm.dsl.call.function.StagedFunction": 290,
    "dlvm.dsl.trace.tensor.Tensor": 360,
    "dlvm.gen.call.entry_code.EntryCode": 360,
    "dlvm.gen.cpu.driver.Driver": 310,
    "dlvm.gen.cpu.kernels.Emitter": 330,
    "dlvm.gen.math.instructions.LlvmScalars": 270,
    "dlvm.gen.products.objects._Product": 350,
    "dlvm.ir.text.parser.Parser": 360,
    "dlvm.opt.kernels.partition.Partition": 270,
}
"""Classes over the limit and the lines that each may have: its size, rounded up to the next ten.

A class may only shrink. Rounding leaves a few lines for a correction. An entry is out of date once
the class has more than 20 lines less than the entry allows, or fits into the limit.
"""


@dataclass
class Class:
    """A class at the top of a module: its lines, and its bases that the package defines.

    ``made`` says that somewhere in the package an object is made of it.
    """

    lines: int
    bases: frozenset[str]
    made: bool = False


Classes = Mapping[str, Class]


def classes(known: Modules) -> Classes:
    """Every class at the top of a module, by its full name."""
    meaning = {m.name: _names(m) for m in known.values()}
    made = {_resolved(name, meaning) for m in known.values() for name in _called(m)}
    found: dict[str, Class] = {}
    for module in known.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                bases = frozenset(_resolved(f"{module.name}.{b}", meaning) for b in _bases(node))
                lines = (node.end_lineno or 0) - start + 1
                found[f"{module.name}.{node.name}"] = Class(lines, bases)
    return {name: Class(c.lines, c.bases & found.keys(), name in made) for name, c in found.items()}


def _called(module: Module) -> Iterator[str]:
    """What a module calls by a name of its own or an imported one."""
    for node in module.nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            yield f"{module.name}.{ast.unparse(node.func)}"


def _names(module: Module) -> dict[str, str]:
    return {name: f"{source}.{original}" for name, source, original in module.imported_names()}


def _bases(node: ast.ClassDef) -> list[str]:
    written = [b.value if isinstance(b, ast.Subscript) else b for b in node.bases]
    return [ast.unparse(b) for b in written]


def _resolved(name: str, meaning: Mapping[str, Mapping[str, str]]) -> str:
    """The name of a class where it is defined, through the files that pass it on."""
    while True:
        source, _, inside = name.rpartition(".")
        if (further := meaning.get(source, {}).get(inside)) is None:
            return name
        name = further


def closure(start: str, edges: Mapping[str, frozenset[str]]) -> set[str]:
    """The names that one or more edges lead to."""
    found: set[str] = set()
    pending = [start]
    while pending:
        new = edges[pending.pop()] - found
        found |= new
        pending.extend(new)
    return found


def whole_sizes(found: Classes) -> dict[str, int]:
    """The lines of each class with the bases that only it has; those bases are left out."""
    parts = {n: frozenset(b for b in c.bases if not found[b].made) for n, c in found.items()}
    bases = {name: closure(name, parts) for name in found}
    below = {name: {n for n in found if name in bases[n]} for name in found}
    own = {
        name: {b for b in bases[name] if below[b] <= {name} | bases[name] | below[name]}
        for name in found
    }
    inside = set[str]().union(*own.values())
    return {
        name: cls.lines + sum(found[b].lines for b in own[name])
        for name, cls in found.items()
        if name not in inside
    }


def findings(sizes: Mapping[str, int], known: Mapping[str, int]) -> list[str]:
    """Classes that are too large or have grown, and entries that are out of date."""
    said: list[str] = []
    for name, lines in sizes.items():
        allowed = known.get(name, LIMIT)
        if lines > allowed:
            said.append(
                f"{name}: {lines} lines with the bases that only it has, at most {allowed} "
                "allowed; split it by meaning into classes that hold one another"
            )
    for name, allowed in known.items():
        lines = sizes.get(name, 0)
        if lines <= LIMIT:
            said.append(f"{name}: {lines} lines fit into the limit; remove its entry from KNOWN")
        elif lines < allowed - STALE:
            said.append(
                f"{name}: {lines} lines, {allowed} allowed; lower its entry in KNOWN to "
                f"{-(-lines // STEP) * STEP}"
            )
    return said


def main() -> int:
    """Prints what is found; the exit status says whether that is anything."""
    found = findings(whole_sizes(classes(modules(Path(__file__).parents[1]))), KNOWN)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
