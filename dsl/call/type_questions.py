"""Finds ``isinstance(x, float)`` of an argument, which is False of its staged value.

A staged value is neither a NumPy array nor a number of Python, so another branch is traced than
NumPy would take. The text of a staged function is read for such questions about its own parameters,
and each is told once with its line.
"""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import numpy as np

from dlvm.base.errors import Origin
from dlvm.dsl.trace.specs import Arguments
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.warned import warned
from dlvm.dsl.words.branches import names_given
from dlvm.dsl.words.lines import parsed

QUESTIONS = frozenset({"isinstance", "type"})
MATCH_CLASS = dis.opmap["MATCH_CLASS"]
NAMED = ("numpy", "numbers", "builtins")
"""Modules of the types that are asked for; a user's own class means something else."""


def tell_types(fn: Callable[..., Any], arguments: Arguments, told: set[str]) -> None:
    """Warns of each question that the given argument and its staged value answer differently."""
    given: dict[str, Any] = {
        name: value
        for name, value in zip(arguments.names, arguments.values, strict=True)
        if isinstance(value, np.ndarray | np.generic | float | int)
    }
    function = fn.__func__ if isinstance(fn, MethodType) else fn
    if not given or not isinstance(function, FunctionType) or "types" in told:
        return
    told.add("types")
    node = _text_of(function)
    changed = names_given([node]) if node is not None else []
    names = _names(function)
    for asked in ast.walk(node) if node is not None else ():
        for name, kind in _question(asked):
            if name in given and name not in changed and _differs(given[name], _value(kind, names)):
                line: int = getattr(asked, "lineno", function.__code__.co_firstlineno)
                _tell(
                    name,
                    ast.unparse(kind),
                    given[name],
                    Origin(function.__code__.co_filename, line),
                )


def _tell(name: str, kind: str, value: Any, at: Origin) -> None:
    array = hasattr(value, "dtype")
    remedy = (
        f'hasattr({name}, "shape") is True of both'
        if array
        else f'static=("{name}",) makes it part of the code'
    )
    warned(
        f"{name} is a staged value here, which is no {kind}, though what is passed is one: the "
        f"other branch is traced; {remedy}",
        at,
    )


def _question(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The name that a question is about, with the type or types that it asks for."""
    match node:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), ast.expr() as kind]):
            yield name, kind
        case ast.Compare(
            left=ast.Call(func=ast.Name(id="type"), args=[ast.Name(id=name)]),
            ops=[ast.Is() | ast.Eq() | ast.IsNot() | ast.NotEq() | ast.In() | ast.NotIn()],
            comparators=[kind],
        ):
            yield name, kind
        case ast.Match(subject=ast.Name(id=name), cases=cases):
            for pattern in (p for c in cases for p in ast.walk(c.pattern)):
                if isinstance(pattern, ast.MatchClass):
                    yield name, pattern.cls
        case _:
            return


def _differs(value: Any, kind: Any) -> bool:
    """Whether what is passed is of a type that no staged value is."""
    kinds = cast("tuple[Any, ...]", kind if isinstance(kind, tuple) else (kind,))
    types: list[type[Any]] = [k for k in kinds if isinstance(k, type)]
    own = any(issubclass(Tensor, k) for k in types)
    asked = any(isinstance(value, k) and k.__module__.partition(".")[0] in NAMED for k in types)
    return asked and not own


def _value(kind: ast.expr, names: Mapping[str, Any]) -> Any:
    """The type that an expression names, or a tuple of types; None for any other expression."""
    match kind:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(value=inner, attr=attr):
            module = _value(inner, names)
            return getattr(module, attr, None) if isinstance(module, ModuleType) else None
        case ast.Tuple(elts=parts):
            return tuple(_value(p, names) for p in parts)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return (_value(left, names), _value(right, names))
        case _:
            return None


def _names(function: FunctionType) -> dict[str, Any]:
    """What the names in a function stand for, besides its own."""
    closed: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            closed[name] = cell.cell_contents
        except ValueError:  # not given yet
            continue
    return {**vars(builtins), **function.__globals__, **closed}


def _text_of(function: FunctionType) -> ast.AST | None:
    """The function as a tree, if its text can be read and one function begins at its line."""
    code = function.__code__
    tree = parsed("".join(linecache.getlines(code.co_filename))) if _asks(code) else None
    if tree is None:
        return None
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    found = [
        n for n in ast.walk(tree) if isinstance(n, kinds) and _first_line(n) == code.co_firstlineno
    ]
    return found[0] if len(found) == 1 else None


def _asks(code: CodeType) -> bool:
    """Whether a function may ask for a type at all, so that its file need not be parsed if not."""
    inner = any(_asks(c) for c in code.co_consts if isinstance(c, CodeType))
    return inner or not QUESTIONS.isdisjoint(code.co_names) or MATCH_CLASS in code.co_code[::2]


def _first_line(node: Any) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
