"""Single mistakes in the source of a function: each is a copy of its syntax tree with one change.

The changes are those that somebody writing a law would make: operands, sides or axes exchanged, a
transpose or a sign forgotten, a condition negated or left out, a number off by one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

ORDERED = {"Matmul", "Sub", "Div", "multiplied", "matrix_product", "_times"}
"""Calls whose first two operands may not be exchanged."""
DROPPED = {"transposed", "Neg"}
"""Calls that may be forgotten, leaving their operand."""
EXCHANGED = {
    a: b
    for pair in (
        ("Add", "Sub"),
        ("rows", "columns"),
        ("row", "column"),
        ("left", "right"),
        ("low", "high"),
        ("starts", "sizes"),
        ("x", "y"),
        ("lower", "upper"),
        ("symmetric", "diagonal"),
        ("orthogonal", "symmetric"),
        ("along_rows", "along_columns"),
    )
    for a, b in (pair, pair[::-1])
}
RELATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SHORT = 24
"""Characters of a line below which it does not say by itself where it is."""
LEFT_ALONE = (ast.Assert, ast.Raise, ast.arguments, ast.cmpop, ast.expr_context, ast.operator)


@dataclass(frozen=True)
class Mutation:
    """A function with one mistake: the line that changes, before and after."""

    before: str
    after: str
    shared: ast.FunctionDef

    @property
    def tree(self) -> ast.FunctionDef:
        """The whole function; a copy, as mutations of one function share what did not change."""
        return ast.fix_missing_locations(deepcopy(self.shared))


def mutations(fn: ast.FunctionDef, is_law: bool) -> Iterator[Mutation]:
    """Every single mistake in a function, which gives a value if it is a law."""
    bare = deepcopy(fn)
    bare.decorator_list, bare.body = [], [s for s in bare.body if not _is_text(s)]
    lines = ast.unparse(bare).splitlines()
    seen = {tuple(lines)}
    above = {c: node for node in ast.walk(bare) for c in ast.iter_child_nodes(node)}
    for node in _places(bare):
        for new in _changes(node, is_law):
            tree = _Replace(node, new, above).visit(bare)
            text = ast.unparse(tree).splitlines()
            if tuple(text) not in seen:
                seen.add(tuple(text))
                yield Mutation(*_difference(lines, text), tree)


def _difference(before: list[str], after: list[str]) -> tuple[str, str]:
    """The lines that differ between two texts."""
    low = next(i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b)
    high = 0
    while high < min(len(before), len(after)) - low and before[-1 - high] == after[-1 - high]:
        high += 1
    first = low - 1 if len(after[low].strip()) < SHORT else low  # with the line before it
    old, new = (" ".join(map(str.strip, t[first : len(t) - high])) for t in (before, after))
    return old, new


def _places(fn: ast.FunctionDef) -> Iterator[ast.AST]:
    pending: list[ast.AST] = fn.body[::-1]
    while pending:
        node = pending.pop()
        if isinstance(node, LEFT_ALONE):
            continue
        yield node
        hidden = {"annotation", "returns"}
        if isinstance(node, ast.keyword) and node.arg == "strict":
            continue
        children = [v for name, v in ast.iter_fields(node) if name not in hidden]
        flat = (c for v in children for c in (v if isinstance(v, list) else [v]))
        pending += [c for c in flat if isinstance(c, ast.AST)][::-1]


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


class _Replace(ast.NodeTransformer):
    """Copies what lies above the change; all else is that of the original."""

    def __init__(self, old: ast.AST, new: ast.AST, above: dict[ast.AST, ast.AST]) -> None:
        self.old, self.new = old, new
        self.changed = {old}
        while old in above:
            old = above[old]
            self.changed.add(old)

    def visit(self, node: ast.AST) -> Any:
        if node is self.old:
            return self.new
        return self.generic_visit(_shallow(node)) if node in self.changed else node


def _shallow(node: Any) -> Any:
    """A copy whose lists may be written without changing the original."""
    fields = {n: list(v) if isinstance(v, list) else v for n, v in ast.iter_fields(node)}
    return ast.copy_location(type(node)(**fields), node)


def _with(node: Any, **fields: Any) -> Any:
    new = _shallow(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _changes(node: Any, is_law: bool) -> Iterator[ast.AST]:
    """What may stand in place of a piece of a function."""
    for kind, change in CHANGES.items():
        if isinstance(node, kind):
            yield from change(node)
    if is_law and isinstance(node, ast.Return) and node.value is not None:
        yield from (_with(node, value=v) for v in _with_a_sign(node.value))


def _with_a_sign(value: ast.expr) -> Iterator[ast.expr]:
    match value:
        case ast.IfExp(_, body, otherwise):
            for name, part in (("body", body), ("orelse", otherwise)):
                yield from (_with(value, **{name: v}) for v in _with_a_sign(part))
        case ast.Constant(None):
            return
        case _:
            yield ast.BinOp(value, ast.Mult(), ast.Constant(-1))


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    ordered = name in ORDERED or ast.unparse(node.func) == "type(op)"
    if ordered and len(node.args) > 1:
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
    if name == "Select":
        yield _with(node, args=[node.args[0], node.args[2], node.args[1]])
    if name in DROPPED and not isinstance(node.args[0], ast.Starred):
        yield node.args[0]
    for i, arg in enumerate(node.args):
        if isinstance(arg, ast.Tuple) and len(arg.elts) > 1:
            *first, a, b = arg.elts
            yield _with(
                node, args=[*node.args[:i], _with(arg, elts=[*first, b, a]), *node.args[i + 1 :]]
            )


def _of_constant(node: ast.Constant) -> Iterator[ast.AST]:
    match node.value:
        case bool(value):
            yield ast.Constant(not value)
        case int(value):
            yield ast.Constant(value + 1)
        case str(value) if value in EXCHANGED:
            yield ast.Constant(EXCHANGED[value])
        case _:
            return


def _of_choice(node: ast.IfExp) -> Iterator[ast.AST]:
    yield _with(node, test=_not(node.test))
    if _is_none(node.orelse):
        yield node.body
    if _is_none(node.body):
        yield node.orelse


def _of_if(node: ast.If) -> Iterator[ast.AST]:
    yield _with(node, test=_not(node.test))
    only = node.body[0]
    leaves = isinstance(only, ast.Return) and _is_none(only.value)
    if len(node.body) == 1 and (leaves or isinstance(only, ast.Continue)) and not node.orelse:
        yield ast.Pass()


def _of_case(node: ast.match_case) -> Iterator[ast.AST]:
    if node.guard is not None:
        yield _with(node, guard=None)
        yield _with(node, guard=_not(node.guard))


def _of_pattern(node: ast.MatchClass) -> Iterator[ast.AST]:
    first = node.patterns[:2]
    if len(first) == 2 and all(isinstance(p, ast.MatchAs) and not p.pattern for p in first):
        yield _with(node, patterns=[first[1], first[0], *node.patterns[2:]])


def _of_both(node: ast.BoolOp) -> Iterator[ast.AST]:
    yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    for i in range(len(node.values)):
        rest = [v for j, v in enumerate(node.values) if j != i]
        yield rest[0] if len(rest) == 1 else _with(node, values=rest)


def _of_comparison(node: ast.Compare) -> Iterator[ast.AST]:
    if (other := RELATIONS.get(type(node.ops[0]))) is not None:
        yield _with(node, ops=[other(), *node.ops[1:]])


def _of_arithmetic(node: ast.BinOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Add | ast.Sub):
        yield _with(node, op=ast.Sub() if isinstance(node.op, ast.Add) else ast.Add())


def _of_unary(node: ast.UnaryOp) -> Iterator[ast.AST]:
    if isinstance(node.op, ast.Not | ast.USub):
        yield node.operand


def _of_name(node: ast.Name) -> Iterator[ast.AST]:
    if isinstance(node.ctx, ast.Load) and node.id in EXCHANGED and len(node.id) > 1:
        yield _with(node, id=EXCHANGED[node.id])


def _of_attribute(node: ast.Attribute) -> Iterator[ast.AST]:
    if node.attr in EXCHANGED:
        yield _with(node, attr=EXCHANGED[node.attr])


CHANGES: dict[type[ast.AST], Callable[[Any], Iterator[ast.AST]]] = {
    ast.Call: _of_call,
    ast.Constant: _of_constant,
    ast.IfExp: _of_choice,
    ast.If: _of_if,
    ast.match_case: _of_case,
    ast.MatchClass: _of_pattern,
    ast.BoolOp: _of_both,
    ast.Compare: _of_comparison,
    ast.BinOp: _of_arithmetic,
    ast.UnaryOp: _of_unary,
    ast.Name: _of_name,
    ast.Attribute: _of_attribute,
}
