"""Programs that are refused, each with the program that the message asks for, and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

X = np.array([3.0, 1.0, 2.0])


@dataclass(frozen=True)
class Remedy:
    """A program that is refused, what the message says, and the program with the remedy."""

    wrong: Callable[..., Any]
    said: str
    args: tuple[Any, ...]
    right: Callable[..., Any]
    answer: Any
    dynamic: Any


CASES: dict[str, list[Remedy]] = {}


def case(said: str, answer: Any, *args: Any, dynamic: Any = False) -> Any:
    """Register a class that holds the wrong program and the one with the remedy."""

    def register(cls: Any) -> Any:
        given = args or (X,)
        found = Remedy(cls.wrong, said, given, cls.right, answer, dynamic)
        CASES.setdefault(cls.__module__, []).append(found)
        return cls

    return register


def follow(found: Remedy) -> None:
    """Hold the message, and the program with the remedy, against what is expected."""
    with pytest.raises(UserError) as caught:
        dlvm.function(dynamic=found.dynamic)(found.wrong)(*found.args)
    text = str(caught.value)
    assert found.said in text, text
    assert (
        f"--> {Path(found.wrong.__code__.co_filename).name}:" in text and text.count("help: ") == 1
    ), text
    assert len(text.splitlines()) <= 12 and "dlvm.dsl" not in text, text
    answer = dlvm.function(dynamic=found.dynamic)(found.right)(*found.args)
    assert np.array_equal(answer, found.answer)
    assert np.asarray(answer).dtype.kind == np.asarray(found.answer).dtype.kind
