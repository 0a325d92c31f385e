"""Rewrites a branch or loop of the user's for staged values, as the text of a remedy.

Each function takes parts of the user's code and returns text with the user's own names, or None if
the code does not have the form that it rewrites.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence

Written = Callable[[ast.AST], str]


class Renamed(ast.NodeTransformer):
    """Replaces names by other expressions."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """One name."""
        return ast.Name(self.names.get(node.id, node.id))


class Unmasked(ast.NodeTransformer):
    """Replaces ``x[m]`` by ``x``: whole arrays in the place of masked ones."""

    def __init__(self, mask: str) -> None:
        self.mask = mask

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """One index."""
        if ast.unparse(node.slice) == self.mask:
            return self.visit(node.value)
        return self.generic_visit(node)


def unmasked(node: ast.AST, mask: ast.AST) -> str:
    """An expression on masked arrays, rewritten on whole arrays."""
    return ast.unparse(Unmasked(ast.unparse(mask)).visit(copy.deepcopy(node)))


def chosen(node: ast.AST, after: Sequence[ast.AST], condition: str) -> str | None:
    """``dlvm.where`` for an ``if`` whose branches give one name a value, or return one."""
    if not isinstance(node, ast.If) or len(node.body) != 1 or len(node.orelse) > 1:
        return None
    then = node.body[0]
    otherwise = [*node.orelse, *after][:1] if isinstance(then, ast.Return) else node.orelse
    match then, otherwise:
        case ast.Return(value=ast.expr() as a), [ast.Return(value=ast.expr() as b)]:
            return f"return dlvm.where({condition}, {ast.unparse(a)}, {ast.unparse(b)})"
        case _, []:
            target, value = _given(then)
            return target and f"{target} = dlvm.where({condition}, {value}, {target})"
        case _, [other]:
            (target, a), (same, b) = _given(then), _given(other)
            both = target if target == same else None
            return both and f"{both} = dlvm.where({condition}, {a}, {b})"
        case _:
            return None


def _given(node: ast.AST) -> tuple[str | None, str]:
    """The name that a statement assigns, and the value."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, ast.unparse(value)
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return name, ast.unparse(ast.BinOp(ast.Name(name), op, value))
        case _:
            return None, ""


def names_given(nodes: Sequence[ast.AST]) -> list[str]:
    """The names that statements assign or assign into, in order."""
    found: dict[str, None] = {}
    for node in (inner for outer in nodes for inner in ast.walk(outer)):
        match node:
            case ast.Assign(targets=targets):
                found |= dict.fromkeys(name for t in targets for name in _bases(t))
            case ast.AugAssign(target=target):
                found |= dict.fromkeys(_bases(target))
            case _:
                pass
    return list(found)


def _bases(target: ast.AST) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from (name for part in parts for name in _bases(part))
        case ast.Subscript(value=inner):
            yield from _bases(inner)
        case _:
            pass


def loop_of(loop: ast.AST, condition: ast.AST, known: set[str], written: Written) -> str | None:
    """``while c``: the names that the loop changes become its state."""
    assert isinstance(loop, ast.While)
    names = [n for n in names_given(loop.body) if n in known]
    if not names:
        return None
    return f"{_while(names, condition, written)} returns {_next(names)} as the loop computes them"


def loop_left(loop: ast.AST, branch: ast.AST, known: set[str], written: Written) -> str | None:
    """A loop that ``if c: break`` ends."""
    if not isinstance(loop, ast.While | ast.For) or branch not in loop.body:
        return None
    assert isinstance(branch, ast.If)
    at = loop.body.index(branch)  # type: ignore[arg-type]
    before, after = loop.body[:at], loop.body[at + 1 :]
    if isinstance(loop, ast.For):
        return _counted(loop, branch, before, after, known)
    names = names_given(loop.body)
    if not before:
        names = [n for n in names if n in known]
    if not names:
        return None
    turned = _while(names, ast.UnaryOp(ast.Not(), branch.test), written)
    first = last = ""
    if before:
        first = "the lines of the loop before this one once, then "
        last = ", then those before it" if after else ""
    place = "after this one" if after else "of the loop before this one"
    return f"{first}{turned} does the lines {place}{last}, and returns {_next(names)}"


def _while(names: Sequence[str], condition: ast.AST, written: Written) -> str:
    param, parts = _state(names)
    text = written(Renamed(parts).visit(copy.deepcopy(condition)))
    state = _together(names)
    return f"{state} = dlvm.while_loop(lambda {param}: {text}, body, {state}), where body({param})"


def _counted(
    loop: ast.For,
    branch: ast.If,
    before: Sequence[ast.AST],
    after: Sequence[ast.AST],
    known: set[str],
) -> str | None:
    """``for i in range(n)`` with a ``break``."""
    names = [n for n in names_given(loop.body) if n in known]
    match loop:
        case ast.For(
            target=ast.Name(id=count),
            iter=ast.Call(func=ast.Name(id="range"), args=[limit]),
        ) if names:
            pass
        case _:
            return None
    state = _together(("_", "done", *names))
    frozen = names_given(after)
    kept = [f"dlvm.where(done, {n}, {n} of the next turn)" if n in frozen else n for n in names]
    return (
        f"{state} = dlvm.while_loop(lambda s: (s[0] < {ast.unparse(limit)}) & ~s[1], body, "
        f"{_together(('0', 'False', *names))}), where body(s) takes {count}, done, "
        f"{', '.join(names)} = s, does the lines before this one, done = "
        f"{ast.unparse(branch.test)}, the lines after it, and returns "
        f"{count} + 1, done, {', '.join(kept)}"
    )


def counted(loop: ast.AST, first: str, limit: str, known: set[str]) -> str | None:
    """``for i in range(a, n)`` as ``fori_loop``: the names that the loop changes are carried."""
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
        return None
    names = [n for n in names_given(loop.body) if n in known]
    if not names:
        return None
    state, (param, _) = _together(names), _state(names)
    return (
        f"{state} = dlvm.fori_loop({first}, {limit}, body, {state}), where "
        f"body({loop.target.id}, {param}) returns {_next(names)} as the loop computes them"
    )


def _state(names: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The parameter for a state, and the expression for each of its names."""
    if len(names) == 1:
        return names[0], {}
    return "s", {name: f"s[{i}]" for i, name in enumerate(names)}


def _together(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _next(names: Sequence[str]) -> str:
    return f"the next {names[0]}" if len(names) == 1 else f"the next {_together(names)}"
