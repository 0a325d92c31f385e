"""Wrong programs, each with what must be said about it, and how that is judged.

The user's file and line, one remedy, no more than twelve lines, and none of our own files.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

X = np.ones((3, 5), np.float32)


@dataclass(frozen=True)
class Wrong:
    """A program with a mistake on the line marked ``# here``; without one it is in its call."""

    fn: Callable[..., Any]
    kind: type[Exception]
    patterns: Sequence[str]
    args: tuple[Any, ...]
    options: dict[str, Any]


_ALL: list[Wrong] = []


def wrong(kind: type[Exception], *patterns: str, args: Any = (X,), **options: Any) -> Any:
    """Register a program, the kind of error that it is, and what the message must say."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        _ALL.append(Wrong(fn, kind, patterns, args, options))
        return fn

    return register


def programs(module: str) -> list[Any]:
    """The programs of a module of tests."""
    mine = [w for w in _ALL if w.fn.__module__ == module]
    return [pytest.param(w, id=w.fn.__name__) for w in mine]


def judge(program: Wrong) -> None:
    """Compile a program and look at the message."""
    fn, options = program.fn, program.options
    staged = dlvm.function(**options)(fn) if options else dlvm.function(fn)
    with pytest.raises(program.kind) as caught, warnings.catch_warnings():
        warnings.simplefilter("error")
        staged.compile(*program.args)
    text = str(caught.value)
    assert isinstance(caught.value, UserError), text
    for pattern in program.patterns:
        assert re.search(pattern, text), text
    assert _place(fn) in text, text
    assert len(text.splitlines()) <= 12, text
    assert text.count("  help: ") == 1, text
    assert "dlvm/" not in text, text


def _place(fn: Callable[..., Any]) -> str:
    lines, start = inspect.getsourcelines(fn)
    marked = [start + i for i, line in enumerate(lines) if line.endswith("# here\n")]
    file = (inspect.getsourcefile(fn) or "").rpartition("/")[2]
    return f"--> {file}:{marked[0]}\n" if marked else "--> mistaken.py:"  # where it is called
