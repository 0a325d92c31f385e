"""How a remedy is typed in: a wrong script is refused, and the code of its message mends it.

The code is taken from the message, never from the table: ``takes`` says where in it, and ``right``
where the code goes. What the mended script gives is compared with what NumPy gives.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import linecache
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dlvm
from dlvm.base.errors import DlvmError

X = np.array([3.0, 0.0, 2.0])
SEEN: dict[str, Any] = {
    "np": np,
    "dlvm": dlvm,
    "functools": functools,
    "sys": sys,
    "dataclasses": dataclasses,
    "X": X,
    "I": np.array([2, 0]),
    "M": np.arange(6.0).reshape(2, 3),
    "B": np.arange(18.0).reshape(2, 3, 3),
    "key": dlvm.random.key(0),
}
"""What the scripts name without defining it; ``key`` is that of the messages."""


@dataclass(frozen=True)
class Script:
    """Lines that are refused, and lines that are right with the code of the message in them.

    The last line of both is an expression. ``takes`` is a pattern of the remedy, whose groups
    stand for ``{0}``, ``{1}`` in ``right``; ``answer`` is an expression too. Where ``right`` is
    empty, the remedy is to leave its code out of the wrong lines.
    """

    wrong: str
    takes: str
    right: str
    answer: str

    def mended(self, remedy: str) -> str:
        """The right lines, with the code of a remedy."""
        found = re.search(self.takes, remedy)
        assert found is not None, f"{self.takes} is not in: {remedy}"
        if not self.right:
            return re.sub(rf",? *{re.escape(found[1])}", "", self.wrong)
        text = self.right
        for i, code in enumerate(found.groups()):
            text = text.replace(f"{{{i}}}", code)
        return text


def ran(text: str) -> Any:
    """The value of the last line of a script, whose lines the messages can read."""
    name = f"<script {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    *lines, last = ast.parse(text).body
    assert isinstance(last, ast.Expr)
    names = dict(SEEN)
    exec(compile(ast.Module(lines, []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names)


def remedy_of(text: str) -> str:
    """The remedy that a wrong script is told."""
    try:
        ran(text)
    except DlvmError as error:
        (remedy,) = re.findall(r"help: (.*)", str(error))
        return remedy
    raise AssertionError(f"nothing is refused: {text}")


def same(found: Any, answer: Any) -> bool:
    """Whether two trees of arrays have equal elements, up to the last bits."""
    if isinstance(answer, Sequence) and not isinstance(answer, str):
        return all(same(a, b) for a, b in zip(found, answer, strict=True))
    if isinstance(answer, str):
        return bool(found == answer)
    return bool(np.allclose(np.asarray(found), np.asarray(answer), rtol=1e-12, equal_nan=True))
