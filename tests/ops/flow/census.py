"""Where a source asks which control operation it has: the switches over their classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from dlvm.ir import OPS, Op
from dlvm.ops import Control, Custom

ROOT = Path(__file__).parents[3]
ASKING = ("isinstance", "issubclass", "has")


def sources() -> Iterator[tuple[str, ModuleType, ast.Module]]:
    """The modules of every folder but that of the operations themselves."""
    rooms = [ROOT / room for room in ("dsl", "ad", "opt", "gen")]
    own = ROOT / "dlvm"
    rooms += [
        f for f in own.iterdir() if not f.is_symlink() and f.name not in ("ops", "__main__.py")
    ]
    for room in rooms:
        for path in sorted([room] if room.suffix == ".py" else room.rglob("*.py")):
            name = path.relative_to(ROOT).with_suffix("").as_posix()
            dotted = ("" if name.startswith("dlvm") else "dlvm.") + name.replace("/", ".")
            module = import_module(dotted.removesuffix(".__init__"))
            yield name, module, ast.parse(path.read_text("utf8"))


def switches(tree: ast.AST, module: ModuleType) -> Iterator[str]:
    """The names of the control operations that a source asks for, once for each question.

    A rule that is registered for a class may assert that it was given that class.
    """
    asserted = {id(n.test) for n in ast.walk(tree) if isinstance(n, ast.Assert)}
    for node in ast.walk(tree):
        if id(node) not in asserted:
            for expression in _asked(node):
                yield from sorted({c.__name__ for c in _classes(expression, module)})


def _asked(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Call(ast.Name(called), [_, *kinds]) if called in ASKING:
            yield from kinds
        case ast.MatchClass(kind):
            yield kind
        case ast.Compare(_, _, others):
            yield from others
        case ast.keyword("on", kinds):
            yield kinds
        case _:
            return


def _classes(expression: ast.AST, module: ModuleType) -> Iterator[type[Op]]:
    for node in ast.walk(expression):
        if isinstance(node, ast.Name):
            yield from _flat(getattr(module, node.id, None))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield from _flat(getattr(getattr(module, node.value.id, None), node.attr, None))


def _flat(found: Any) -> Iterator[type[Op]]:
    if isinstance(found, type):
        if (issubclass(found, Control) and found in OPS.values()) or found is Custom:
            yield found
        return
    inner = found if isinstance(found, tuple) else getattr(found, "__args__", ())
    for kind in inner:  # pyright: ignore[reportUnknownVariableType]
        yield from _flat(kind)
