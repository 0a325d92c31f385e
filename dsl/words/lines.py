"""Parses the user's line, finds the pattern of the table of remedies that it fits, and
rewrites it.
"""

from __future__ import annotations

import ast
import copy
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, cast

import numpy as np

from dlvm.base.errors import Origin
from dlvm.ir import NUMBERS

from .branches import chosen, counted, loop_left, loop_of, names_given, unmasked
from .names import lookup
from .operators import Joined, value_of, written
from .remedies import ARRAY, CHANGE, INDEX, MASK, OURS, PATTERNS, Pattern

BODIES = ("body", "orelse", "handlers", "finalbody")
UNSEEN = ("ctx", "type_comment", "kind", "op", "keywords")
TAKE_STAGED_INTEGERS = ("roll", "tril", "triu")
"""Functions in which an integer that NumPy needs is no size, and may be staged in ours."""
REDUCTIONS = ("sum", "mean", "prod", "var", "std", "any", "all", "max", "min")


def advised(origin: Origin, asked: str) -> Match | None:
    """The part of the user's line that can't be staged, given what Python asked a
    staged value for.
    """
    statement = _statement(origin)
    if statement is None:
        return None
    nodes = [*statement.nodes(origin.line)]
    for pattern in PATTERNS:
        if asked in pattern.asked and statement.within(pattern.within):
            for node in nodes:
                bound: dict[str, Any] = {}
                fits = _fits(_read(pattern.code), node, bound) and _known(bound, pattern, asked)
                if fits and not _drops_options(node, pattern):
                    match = Match(pattern, bound, node, statement)
                    if match.is_possible:
                        return match
    return None


@dataclass(frozen=True)
class Match:
    """A part of the user's line that fits a pattern."""

    pattern: Pattern
    bound: dict[str, Any]
    node: ast.AST
    statement: Statement

    @property
    def target(self) -> str:
        """The target of the assignment, as the user wrote it."""
        return ast.unparse(self.bound["a"])

    @property
    def is_possible(self) -> bool:
        """Whether the user's loop or branch has the form that the remedy rewrites."""
        return self.pattern.remedy not in REWRITES or self._rewritten() is not None

    def _rewritten(self) -> str | None:
        return REWRITES[self.pattern.remedy](self)

    def text(self, name: str) -> str:
        """The code bound to a letter of the pattern, as the user wrote it."""
        return ast.unparse(self.bound[name])

    @property
    def options(self) -> dict[str, str]:
        """The keyword arguments of the matched call."""
        given = self.node.keywords if isinstance(self.node, ast.Call) else []
        return {k.arg: ast.unparse(k.value) for k in given if k.arg is not None}

    @property
    def first(self) -> str:
        """The first of all arguments."""
        return ast.unparse(self.bound["args"][0])

    def remedy(self, **more: str) -> str:
        """The remedy with the user's own names; ``more`` binds further letters and names."""
        if self.pattern.remedy in REWRITES:
            return self._rewritten() or ""
        texts = {n: _Text(written(x), _is_loose(x), _is_list(n, x)) for n, x in self.bound.items()}
        if "args" in self.bound:
            texts["args"] = _Text(written(_stacked(self.bound["args"])))
        if "r" in self.bound:
            texts["r"] = _Text(_ranges(self.bound["r"], self.pattern.code == "np.r_[r]"))
        if "F" in texts:
            texts["F"] = _Text(OURS.get(texts["F"], texts["F"]))
        if isinstance(self.node, ast.AugAssign):
            sign = ast.unparse(ast.BinOp(ast.Name("a"), self.node.op, ast.Name("b")))
            texts["op"] = _Text(sign[2:-2])
        if isinstance(self.node, ast.Assert) and "parts" in texts:
            parts = self.bound["parts"]
            told = [p.value for p in parts if isinstance(p, ast.Constant)]
            texts["said"] = _Text(" ".join(str(t) for t in told).rstrip(" :=,"))
        if "m" in texts and "v" in self.bound:  # of what a mask takes, on whole arrays
            texts["v"] = _Text(unmasked(self.bound["v"], self.bound["m"]))
        return self.pattern.remedy.format_map({**texts, **more})


def _made(found: Match) -> str:
    """The expression that makes a staged array to assign into."""
    name = found.target
    for node in found.statement.before():
        for target, value in _bindings(node):
            if ast.unparse(target) == name:
                text = ast.unparse(value)
                ours = _ours(text)
                makes = ours.startswith("dlvm.") and not ours.startswith("dlvm.asarray(")
                made = ours if makes else f"dlvm.copy({text})"
                return f"{name} = {made} at line {value.lineno}, in place of {text}"
    return f"w = dlvm.copy({name}), and assign into w"


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target of an assignment with its value."""
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        match target, node.value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                yield from zip(targets, values, strict=True)
            case _:
                yield target, node.value


def _left(found: Match) -> str | None:
    """An ``if`` that leaves a loop, by ``break`` or by ``return``."""
    loop = found.statement.loop()
    if loop is None:
        return None
    text = loop_left(loop, found.node, found.statement.known(loop), written)
    if text is not None and "v" in found.bound:
        text += f"; return {found.text('v')} after it"
    return text


def _loop(found: Match) -> str | None:
    known = found.statement.known(found.node)
    return loop_of(found.node, found.bound["c"], known, written)


def _counted(found: Match) -> str | None:
    first = found.text("a") if "a" in found.bound else "0"
    loop = found.statement.node
    return counted(loop, first, found.text("n"), found.statement.known(loop))


def _chosen(found: Match) -> str | None:
    after = found.statement.after(found.node)
    return chosen(found.node, after, written(found.bound["c"]))


REWRITES: dict[str, Callable[[Match], str | None]] = {
    "{made}": _made,
    "{left}": _left,
    "{loop}": _loop,
    "{counted}": _counted,
    "{chosen}": _chosen,
}
"""Remedies that rewrite several lines."""


class _Text(str):
    """A part of the user's code. The format ``d`` writes functions of NumPy and ``math`` as
    dlvm's, ``p`` puts an operator in parentheses, and ``s`` makes an array of a list.
    """

    def __new__(cls, text: str, loose: bool = False, listed: bool = False) -> _Text:
        made = super().__new__(cls, text)
        made.loose, made.listed = loose, listed
        return made

    loose: bool
    listed: bool

    def __format__(self, spec: str) -> str:
        text = _ours(self) if "d" in spec else str(self)
        if "s" in spec and self.listed:
            return f"dlvm.asarray({text})"
        return f"({text})" if "p" in spec and self.loose else text


def _is_list(name: str, x: Any) -> bool:
    """Whether it is a list in the place of an array; a tuple in an index is none."""
    return isinstance(x, ast.List) or (name != "i" and isinstance(x, ast.Tuple))


def _is_loose(x: Any) -> bool:
    """Whether what is written behind an expression would belong to its last operand only."""
    return isinstance(
        x, ast.BinOp | ast.UnaryOp | ast.BoolOp | ast.Compare | ast.IfExp | ast.Lambda
    )


def _ours(text: str) -> str:
    def replaced(found: re.Match[str]) -> str:
        name = OURS.get(found[2], found[2])
        return f"dlvm.{name}" if lookup(name) is not None else found[0]

    return re.sub(r"\b(np|numpy|math)\.(\w+)", replaced, text)


def _stacked(args: list[Any]) -> list[Any]:
    """Arguments in which a list in the first place becomes an array."""
    first, *rest = args
    if isinstance(first, ast.List | ast.Tuple):
        first = ast.Name(f"dlvm.stack({ast.unparse(first)})")
    return [first, *rest]


def _ranges(index: ast.AST, vectors: bool) -> str:
    """The items of ``np.r_[...]`` or ``np.c_[...]`` as arguments; a slice becomes a range."""
    items: Sequence[ast.AST] = index.elts if isinstance(index, ast.Tuple) else [index]
    text = written([_range(i) if isinstance(i, ast.Slice) else i for i in items])
    if not vectors:
        return text
    return f"dlvm.atleast_1d({text})" if len(items) > 1 else f"[dlvm.atleast_1d({text})]"


def _range(s: ast.Slice) -> ast.AST:
    given = [s.lower or ast.Constant(0), s.upper or ast.Constant(0), s.step or ast.Constant(1)]
    return ast.Name(f"dlvm.arange({written(given)})")


# -- the statement of the user -------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """A statement, and the statements around it from the outermost to the innermost."""

    node: ast.stmt
    around: tuple[ast.AST, ...]

    def nodes(self, line: int) -> Iterator[ast.AST]:
        """The nodes that begin on a line: the statement, and those around it that begin there."""
        yield from _nodes(self.node)
        for outer in self.around:
            if getattr(outer, "lineno", 0) == line and isinstance(outer, ast.stmt):
                yield from _nodes(outer)

    def within(self, what: str) -> bool:
        """Whether it is inside ``while True``, or in a function that calls itself."""
        if what == "loop":
            return any(
                isinstance(n, ast.While) and isinstance(n.test, ast.Constant) for n in self.around
            )
        return what == "" or any(
            isinstance(call, ast.Call) and ast.unparse(call.func) == n.name
            for n in self.around
            if isinstance(n, ast.FunctionDef)
            for call in ast.walk(n)
        )

    def loop(self) -> ast.AST | None:
        """The innermost loop around."""
        loops = (n for n in reversed(self.around) if isinstance(n, ast.While | ast.For))
        return next(loops, None)

    def after(self, node: ast.AST) -> list[ast.stmt]:
        """The statements that follow one of those around, in the same body."""
        for outer in (*self.around, self.node):
            body: list[ast.stmt] = getattr(outer, "body", None) or []
            if isinstance(body, list) and node in body:  # pyright: ignore[reportUnnecessaryIsInstance]
                return body[body.index(node) + 1 :]  # type: ignore[arg-type]
        return []

    def known(self, node: ast.AST) -> set[str]:
        """The names that have values before a statement, in the enclosing function."""
        function = self._function()
        if function is None:
            return set()
        given = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        before = [n for n in ast.walk(function) if _is_statement(n) and n.lineno < node.lineno]  # type: ignore[attr-defined]
        return {*given, *names_given([n for n in before if not _holds(n, node)])}

    def _function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return next((n for n in reversed(self.around) if isinstance(n, kinds)), None)

    def before(self) -> Iterator[ast.AST]:
        """The statements before it in the enclosing function, the nearest first."""
        function = self._function()
        inside = [] if function is None else [n for n in ast.walk(function) if _is_statement(n)]
        yield from reversed([n for n in inside if n.lineno < self.node.lineno])  # type: ignore[attr-defined]


def _holds(outer: ast.AST, node: ast.AST) -> bool:
    """Whether a statement is inside of another one."""
    return any(inner is node for inner in ast.walk(outer))


def _is_statement(node: ast.AST) -> bool:
    return isinstance(node, ast.stmt)


def _statement(origin: Origin) -> Statement | None:
    """The innermost statement at a line; of a file that can't be read, the line alone."""
    tree = parsed("".join(linecache.getlines(origin.file)))
    found: ast.stmt | None = None
    around: list[ast.AST] = []
    level: ast.AST | None = tree
    while level is not None:
        inner = [n for n in ast.iter_child_nodes(level) if _covers(n, origin.line)]
        level = inner[0] if inner else None
        if isinstance(level, ast.stmt):
            around += [found] if found is not None else []
            found = level
    return None if found is None else Statement(found, tuple(around))


def is_tried(origin: Origin) -> bool:
    """Whether a line is in the body of a ``try`` that has an ``except``, in the same function."""
    found = _statement(origin)
    for outer in reversed(found.around if found is not None else ()):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef):
            return False
        if isinstance(outer, ast.Try) and outer.handlers:
            return any(_covers(inner, origin.line) for inner in outer.body)
    return False


def _covers(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
    inside = first <= line <= (last or 0)
    return inside and (isinstance(node, ast.stmt) or any(_is_statement(n) for n in ast.walk(node)))


@lru_cache(maxsize=8)
def parsed(text: str) -> ast.Module | None:
    """The tree of a file; None if it is not Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """A statement and its expressions; of one that holds others, those of its first line."""
    yield statement
    for name, value in ast.iter_fields(statement):
        if name not in BODIES or not isinstance(statement, ast.If | ast.While | ast.For | ast.With):
            for part in cast("list[Any]", value if isinstance(value, list) else [value]):
                yield from ast.walk(part) if isinstance(part, ast.AST) else ()


# -- patterns --------------------------------------------------------------------------------------


@cache
def _read(code: str) -> ast.AST:
    """A pattern as a tree: a statement, or an expression."""
    (found,) = ast.parse(code).body
    return found.value if isinstance(found, ast.Expr) else found


def _fits(pattern: Any, node: Any, bound: dict[str, Any]) -> bool:
    """Whether code fits a pattern; binds the pattern's letters."""
    if isinstance(pattern, ast.Name) and len(pattern.id) == 1:
        bound[pattern.id] = node
        return isinstance(node, ast.expr)
    if isinstance(pattern, ast.JoinedStr):
        return isinstance(node, ast.JoinedStr) and _has_text(node, bound)
    if type(pattern) is not type(node):
        return False
    if isinstance(pattern, ast.Constant) and pattern.value == "":
        return isinstance(node.value, str)
    if isinstance(pattern, str) and len(pattern) == 1:
        bound[pattern] = node
        return True
    if not isinstance(pattern, ast.AST):
        return pattern == node
    if isinstance(node, ast.Call) and isinstance(pattern, ast.Call) and _takes_all(pattern):
        bound["args"] = [*node.args, *node.keywords]
        return bool(bound["args"]) and _fits(pattern.func, node.func, bound)
    return all(
        _each_fits(getattr(pattern, field), getattr(node, field), bound)
        for field in pattern._fields
        if field not in UNSEEN
    )


def _each_fits(pattern: Any, node: Any, bound: dict[str, Any]) -> bool:
    if not isinstance(pattern, list):
        return _fits(pattern, node, bound)
    parts = cast("list[Any]", pattern)
    match parts:
        case [ast.Expr(value=ast.Constant())] | []:
            return True
        case _:
            same = len(parts) == len(node)
            return same and all(_fits(p, n, bound) for p, n in zip(parts, node, strict=True))


def _takes_all(pattern: ast.Call) -> bool:
    """Whether a pattern is of calls with any arguments."""
    return [ast.unparse(x) for x in pattern.args] == ["args"]


def _has_text(node: ast.JoinedStr, bound: dict[str, Any]) -> bool:
    """An f-string with its parts as arguments of a call."""
    values = [v.value for v in node.values if isinstance(v, ast.FormattedValue)]
    bound["values"] = values
    bound["parts"] = [
        v.value if isinstance(v, ast.FormattedValue) else ast.Constant(f"{v.value}".strip())  # type: ignore[attr-defined]
        for v in node.values
    ]
    return bool(values)


def _known(bound: dict[str, Any], pattern: Pattern, asked: str) -> bool:
    """Whether dlvm has the function that a capital stands for, and NumPy's needs numbers."""
    if pattern.code == "a[i]":
        inside = [*ast.walk(bound["i"])]
        sliced = any(isinstance(n, ast.Slice) for n in inside)  # of a size that is not known
        a_text = isinstance(bound["a"], ast.Constant)
        return not sliced and not a_text and any(isinstance(n, ast.Name) for n in inside)
    if isinstance(bound.get("a"), ast.GeneratorExp):
        return False
    if isinstance(bound.get("m"), ast.Constant | ast.Slice | ast.Tuple) and MASK in pattern.asked:
        return False
    if "T" in bound:
        return bound["T"] in {t.numpy.name for t in NUMBERS}
    name: Any = bound.get("F")
    if name is None:
        return True
    if "where=" in pattern.remedy:
        return name in REDUCTIONS
    of_numpy = pattern.code == "np.F(args)"
    sized = asked == INDEX or (asked == ARRAY and name == "arange")
    if of_numpy and sized and name not in TAKE_STAGED_INTEGERS:
        return False
    takes_staged = of_numpy and isinstance(getattr(np, name, None), np.ufunc)
    makes_arrays = of_numpy and OURS.get(name, name) == "asarray"
    return not takes_staged and not makes_arrays and lookup(str(OURS.get(name, name))) is not None


def _drops_options(node: ast.AST, pattern: Pattern) -> bool:
    """Whether a call has options that the remedy would leave out, such as ``key=`` of ``max``."""
    if not isinstance(node, ast.Call) or not node.keywords:
        return False
    return "args" not in pattern.code and "{keys}" not in pattern.remedy


def assigned(origin: Origin) -> tuple[str, str | None] | None:
    """The target of the user's assignment, and the rewritten ``c += v``."""
    found = _statement(origin)
    match None if found is None else found.node:
        case ast.AugAssign(target=ast.Name(id=name)):
            change = advised(origin, CHANGE)
            return name, None if change is None else change.remedy()
        case ast.AugAssign(target=ast.Subscript(value=target)):
            return ast.unparse(target), None
        case ast.Assign(targets=[ast.Subscript(value=target)]):
            return ast.unparse(target), None
        case _:
            return None


def joined(origin: Origin) -> str | None:
    """The user's condition with operators on arrays, if it must be rewritten."""
    found = _statement(origin)
    for node in found.nodes(origin.line) if found is not None else ():
        if isinstance(node, ast.BoolOp | ast.UnaryOp | ast.Compare):
            changed = value_of(node) or Joined().visit(copy.deepcopy(node))
            if isinstance(changed, ast.Name):
                return changed.id
    return None
