"""Rewrites the user's expression so that it leaves f32 and halves as they are.

The expression is found by the instruction that runs; where there is no source, nothing is said.
"""

from __future__ import annotations

import ast
import linecache
from types import CodeType

from .lines import parsed

Step = tuple[CodeType, int] | None
"""The code that runs and the offset of its instruction."""


def as_number(step: Step, operand: int) -> str | None:
    """How to write an operand that is a number of NumPy's as one of Python's."""
    found = _operand(step, operand)
    return None if found is None else f"write float({ast.unparse(found)})"


def as_floats(step: Step, operand: int, dtype: str) -> str | None:
    """How to write an operand of integers or bools as floats."""
    found = _operand(step, operand)
    if found is None:
        return None
    text = ast.unparse(ast.Attribute(found, "astype"))
    return f'write {text}("{dtype}")'


def with_dtype(step: Step, name: str, dtype: str) -> str | None:
    """How to write a call that makes an array of an element type, by ``name`` or by another
    function, whose result is converted.
    """
    found = _expression(step)
    if not isinstance(found, ast.Call):
        return None
    text = ast.unparse(found)
    if function_called(step) != name:
        return f'write {text}.astype("{dtype}")'
    comma = ", " if found.args or found.keywords else ""
    return f'write {text[:-1]}{comma}dtype="{dtype}")'


def function_called(step: Step) -> str | None:
    """The last name of the function that the user's expression calls."""
    found = _expression(step)
    return ast.unparse(found.func).rpartition(".")[2] if isinstance(found, ast.Call) else None


def _operand(step: Step, at: int) -> ast.expr | None:
    """An operand of the operator that runs."""
    found = _expression(step)
    if isinstance(found, ast.BinOp):
        return (found.left, found.right)[at]
    return found.value if isinstance(found, ast.AugAssign) and at == 1 else None


def _expression(step: Step) -> ast.AST | None:
    """The expression or statement that an instruction computes."""
    if step is None:
        return None
    code, offset = step
    where = [*code.co_positions()][offset // 2]
    tree = parsed("".join(linecache.getlines(code.co_filename)))
    nodes = () if tree is None else ast.walk(tree)
    return next((n for n in nodes if _place(n) == where), None)


def _place(node: ast.AST) -> tuple[int | None, ...]:
    names = ("lineno", "end_lineno", "col_offset", "end_col_offset")
    return tuple(getattr(node, name, None) for name in names)
