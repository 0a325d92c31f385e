"""Fails where a folder knows more operations than are listed for it here.

python -m tools.knowing

What an operation is stands in its class and its family, in ``dlvm/ops``. Other files ask those
(``op.kernel_rule``, ``op.everywhere``) and need not know which operation they have. A file knows an
operation if it has its class in an import, a pattern, a test of ``isinstance``, a table or an
annotation, or compares its IR name with a ``.name`` or looks it up in ``OPS``.

- A class is the same by any name that ``import``, ``as`` or an assignment gives it. A name for
  several (``Moving = Pad | Slice``) stands for each of them, unless ``dlvm/ops`` defines it.
- A file that only makes an operation (``Add(x, y)``) does not know it in this sense: laws,
  derivatives and the language write programs. These pairs are printed, and have no limit.
- Other strings do not count: ``"add"`` is also a function of scalars, of NumPy and of StableHLO.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.source import Module, Modules, modules

HOME = "dlvm.ops"
NONE: frozenset[str] = frozenset()

KNOWN = {
    "dlvm": 2,
    "dlvm.ad": 59,
    "dlvm.dsl.arrays": 5,
    "dlvm.dsl.call": 1,
    "dlvm.dsl.elements": 46,
    "dlvm.dsl.trace": 4,
    "dlvm.exporting": 68,
    "dlvm.gen.aot": 1,
    "dlvm.gen.loops": 4,
    "dlvm.gen.lower": 23,
    "dlvm.gen.lower.matrices": 11,
    "dlvm.gen.program": 16,
    "dlvm.gen.tune": 1,
    "dlvm.onnx.exporting": 38,
    "dlvm.opt.algebra": 17,
    "dlvm.opt.algebra.factors": 38,
    "dlvm.opt.algebra.pieces": 27,
    "dlvm.opt.algebra.solves": 13,
    "dlvm.opt.algebra.sums": 38,
    "dlvm.opt.kernels": 18,
    "dlvm.opt.parallel": 3,
    "dlvm.opt.laws": 15,
    "dlvm.opt.recompute": 4,
    "dlvm.opt.sharding": 2,
    "dlvm.opt.regions": 16,
    "dlvm.stablehlo": 36,
    "dlvm.stablehlo.reading": 20,
    "dlvm.testing.drawing": 62,
    "dlvm.trust": 17,
    "dlvm.trust.forms": 28,
    "dlvm.trust.reducing": 2,
}
"""The pairs of a file and an operation that it knows, by package. A package may only lose pairs."""


@dataclass
class Pairs:
    """For each package, how many operations its files know, and how many they only make."""

    known: Counter[str]
    made: Counter[str]


def pairs(package: Modules, home: str = HOME) -> Pairs:
    """The pairs of all files outside of ``home``, which defines the operations."""
    names = Names(package, home)
    found = Pairs(Counter(), Counter())
    for module in package.values():
        if not within(module.name, home):
            known, called = _named(module, names)
            found.known[module.package] += len(known)
            found.made[module.package] += len(called - known)
    return Pairs(+found.known, +found.made)


def within(name: str, package: str) -> bool:
    """Whether this is the name of the package, or of something in it."""
    return f"{name}.".startswith(f"{package}.")


class Names:
    """What names stand for in each module, and the classes of operations by their IR names."""

    def __init__(self, package: Modules, home: str) -> None:
        self.by_ir_name: dict[str, str] = {}
        self._meaning: defaultdict[str, dict[str, frozenset[str]]] = defaultdict(dict)
        for module in package.values():
            meaning = self._meaning[module.name]
            for name, source, original in module.imported_names():
                meaning[name] = frozenset({f"{source}.{original}"})
            for name, others in _assigned(module):
                if len(others) == 1 or not within(module.name, home):
                    meaning[name] = frozenset(f"{module.name}.{other}" for other in others)
            if within(module.name, home):
                for name, cls in _operations(module):
                    self.by_ir_name[name] = f"{module.name}.{cls}"
        self._classes = frozenset(self.by_ir_name.values())

    def operations(self, name: str, seen: frozenset[str] = NONE) -> frozenset[str]:
        """The classes of operations that a full name, or a name in a module, stands for."""
        head, rest = name, ""
        while head not in self._classes:
            module, _, last = head.rpartition(".")
            meant = self._meaning.get(module, {}).get(last)
            if meant is not None and head not in seen:
                found = (self.operations(f"{m}{rest}", seen | {head}) for m in meant)
                return NONE.union(*found)
            if not module:
                return NONE
            head, rest = module, f".{last}{rest}"
        return frozenset(() if rest else (head,))


def _operations(module: Module) -> Iterator[tuple[str, str]]:
    """The IR name and the class of each operation that a module defines."""
    for node in module.nodes:
        if isinstance(node, ast.ClassDef):
            yield from ((name, node.name) for name in map(_ir_name, node.body) if name)


def _ir_name(line: ast.stmt) -> str | None:
    match line:
        case ast.Assign(targets=[ast.Name(id="name"), *_], value=ast.Constant(value=str(name))):
            return name
        case _:
            return None


def _assigned(module: Module) -> Iterator[tuple[str, list[str]]]:
    """Each name at the top of a module that stands for another one, or for several."""
    for node in module.tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ) if others := list(_alternatives(value)):
                yield name, others
            case _:
                pass


def _alternatives(value: ast.expr) -> Iterator[str]:
    """The names in ``A``, ``A | B`` or ``(A, B)``."""
    match value:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            parts: list[ast.expr] = [left, right]
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
            pass
        case _:
            yield from filter(None, [_dotted(value)])
            return
    for part in parts:
        yield from _alternatives(part)


def _dotted(value: ast.expr) -> str:
    """An expression of names alone, such as ``a.b.c``, as it is written; else nothing."""
    match value:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            return f"{above}.{name}" if (above := _dotted(inner)) else ""
        case _:
            return ""


def _named(module: Module, names: Names) -> tuple[set[str], set[str]]:
    """The operations that a file knows, and those that it makes."""
    imported = {name for name, *_ in module.imported_names()}
    functions = {id(n.func) for n in module.nodes if isinstance(n, ast.Call)}
    known: set[str] = set()
    made: set[str] = set()
    for node in module.nodes:
        if found := _meant(node, module, names):
            (made if id(node) in functions else known).update(found)
    for name in imported:
        known |= names.operations(f"{module.name}.{name}") - made
    return known, made


def _meant(node: ast.AST, module: Module, names: Names) -> frozenset[str]:
    """The operations that an expression of a file stands for."""
    match node:
        case ast.Name() | ast.Attribute():
            return names.operations(f"{module.name}.{name}") if (name := _dotted(node)) else NONE
        case ast.Subscript(value=ast.Name(id="OPS"), slice=other):
            strings = [other]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="OPS"), attr="get"), args=[other, *_]):
            strings = [other]
        case ast.Compare(left=ast.Attribute(attr="name"), comparators=others):
            strings = others
        case ast.Match(subject=ast.Attribute(attr="name")):
            strings = [p.value for p in ast.walk(node) if isinstance(p, ast.MatchValue)]
        case _:
            return NONE
    inside = {n.value for s in strings for n in ast.walk(s) if isinstance(n, ast.Constant)}
    return frozenset(names.by_ir_name[s] for s in inside if s in names.by_ir_name)


def findings(counts: Mapping[str, int], known: Mapping[str, int]) -> list[str]:
    """Packages whose files know more operations than are listed for them, or fewer."""
    said: list[str] = []
    for package in sorted({*counts, *known}):
        count, listed = counts.get(package, 0), known.get(package, 0)
        if count > listed:
            remedy = "ask their classes or families in dlvm/ops instead, for a new fact if need be"
        else:
            remedy = f"lower its entry in KNOWN to {count}" if count else "remove its entry"
        if count != listed:
            said.append(
                f"{package}: {count} pairs of a file and an operation that it knows, "
                f"{listed} listed; {remedy}"
            )
    return said


def main() -> int:
    """Prints what is found; the exit status says whether that is anything."""
    counts = pairs(modules(Path(__file__).parents[1]))
    known, made = counts.known.total(), counts.made.total()
    print(f"outside of dlvm/ops, files know {known} operations and only make {made} more")
    found = findings(counts.known, KNOWN)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
