"""The remedies in the sources that show code, as the test of remedies counts them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("dsl", "dlvm", "gen", "opt", "ad")
CODE = re.compile(r"\w+\(|\w+\[|\w=|@| \*\* | = |\bx\.\w|dlvm\.\w|np\.\w")
"""What looks like code: a call, an index, an option, an operator or a name of a module."""


def remedies() -> Iterator[str]:
    """Each remedy with code in it, as ``file: text``; what the message fills in is ``{}``."""
    files = {p.resolve() for folder in FOLDERS for p in (ROOT / folder).rglob("*.py")}
    for path in sorted(files):
        for node in ast.walk(ast.parse(path.read_text("utf8"))):
            if isinstance(node, ast.keyword) and node.arg == "remedy":
                text = _text(node.value)
                if CODE.search(text):
                    yield f"{path.relative_to(ROOT)}: {text}"


def _text(node: ast.AST) -> str:
    """The literal pieces of an expression of text, end to end."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(p) if isinstance(p, ast.Constant) else "{}" for p in parts)
        case ast.BinOp(left=left):
            return _text(left)
        case ast.IfExp(body=body, orelse=other):
            return f"{_text(body)} | {_text(other)}"
        case ast.BoolOp(values=values):
            return " | ".join(filter(None, map(_text, values)))
        case _:
            return ""
