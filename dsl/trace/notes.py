"""The operands of a call as lines under an error: what each is, and where it was made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from dlvm.ir import dtype_of

from .scopes import is_array
from .tensor import Tensor

MAX_NOTES = 4


def described(fn: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """The staged and plain arrays among the arguments of an operation, one line each."""
    names = _spoken(fn) + ["operand"] * len(args)
    notes: list[str] = []
    for name, arg in zip(names, args, strict=False):
        if isinstance(arg, Tensor):
            notes.append(f"{name}: {arg.history()}")
        elif is_array(arg):
            known = dtype_of(arg) or arg.dtype
            notes.append(f"{name}: {known}{list(arg.shape) or ''}, a NumPy array")
    return notes[:MAX_NOTES]


def _spoken(fn: Callable[..., Any]) -> list[str]:
    """The name of an operand in messages; single letters are left to the user's own names."""
    parameters = inspect.signature(fn).parameters
    operand = "left" if "y" in parameters else "operand"
    said = {"x": operand, "y": "right", "new": "value"}
    by_position = (p for p in parameters.values() if p.kind in _BY_POSITION)
    return [said.get(p.name, p.name) for p in by_position]


_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
