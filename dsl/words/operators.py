"""Writes ``and``, ``or``, ``not`` and ``in`` as operators and functions of staged values."""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Sequence
from typing import Any, cast


def written(x: Any) -> str:
    """An expression as text, with ``and``, ``or`` and ``not`` as operators on arrays."""
    if isinstance(x, str):
        return x
    if isinstance(x, list | tuple):
        return ", ".join(map(written, cast("Sequence[Any]", x)))
    return ast.unparse(Joined().visit(copy.deepcopy(x)))


def _is_truth(node: ast.expr) -> bool:
    """Whether an expression is a truth by its form; ``~`` of a float is an error."""
    match node:
        case ast.BoolOp(values=values):
            return all(map(_is_truth, values))
        case ast.UnaryOp(op=ast.Not()) | ast.Compare():
            return True
        case _:
            return False


SIGNS: dict[type[ast.boolop], str] = {ast.And: " & ", ast.Or: " | "}


class Joined(ast.NodeTransformer):
    """``a and not b`` as ``(a) & ~(b)``, which staged values understand."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``and`` and ``or``."""
        parts = [ast.unparse(self.visit(v)) for v in node.values]
        if all(map(_is_truth, node.values)):
            return ast.Name(SIGNS[type(node.op)].join(f"({part})" for part in parts))
        name = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        return ast.Name(functools.reduce(lambda a, b: f"dlvm.{name}({a}, {b})", parts))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """``not``."""
        if not isinstance(node.op, ast.Not):
            return node
        truth, text = _is_truth(node.operand), ast.unparse(self.visit(node.operand))
        return ast.Name(f"~({text})" if truth else f"dlvm.logical_not({text})")

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``a < b < c``, and ``a in b``."""
        match node:
            case ast.Compare(left=a, ops=[ast.In()], comparators=[b]):
                return ast.Name(f"dlvm.any({_array(b)} == {ast.unparse(a)})")
            case ast.Compare(left=ast.Attribute(attr="shape"), ops=[ast.Eq()]):
                return ast.Name(f"{ast.unparse(node.left)}[0] == ...")
            case ast.Compare(ops=[_]):
                return node
            case _:
                pass
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        each = (ast.unparse(ast.Compare(a, [op], [b])) for a, op, b in pairs)
        return ast.Name(" & ".join(f"({text})" for text in each))


def value_of(node: ast.AST) -> ast.AST | None:
    """``a or b`` as what Python gives, one of the two, where they need not be truths."""
    if not isinstance(node, ast.BoolOp) or _is_truth(node) or len(node.values) != 2:
        return None
    a, b = (written(v) for v in node.values)
    return ast.Name(
        f"dlvm.where({a}, {b}, {a})"
        if isinstance(node.op, ast.And)
        else f"dlvm.where({a}, {a}, {b})"
    )


def _array(node: ast.AST) -> str:
    """An expression as an array; a list is wrapped in ``dlvm.asarray``."""
    text = ast.unparse(node)
    return f"dlvm.asarray({text})" if isinstance(node, ast.List | ast.Tuple) else text
