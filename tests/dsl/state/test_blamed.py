"""A change of captured state is blamed on the line that makes it, by whatever function it is made.

Each program changes something on the one line that says so.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import TraceError

X = np.array([3.0, 0.0, 2.0])


@dataclass(frozen=True)
class Frozen:
    n: int = 1


BUF = np.arange(3.0)
MADE = types.SimpleNamespace(a=np.ones(3), n=2)
FROZEN = Frozen()
LINES = (
    "setattr(MADE, 'a', x)",
    "setattr(MADE, 'other', 3)",
    "setattr(MADE, 'n', MADE.n + 1)",
    "setattr(MADE, max('a', 'n'), MADE.n + 1)",
    "delattr(MADE, 'n')",
    "MADE.__setattr__('n', 7)",
    "object.__setattr__(FROZEN, 'n', 7)",
    "MADE.__dict__.update(n=7)",
    "np.add(BUF, 1, BUF)",
    "np.add(BUF, 1, out=BUF)",
    "np.add(1, 1, out=BUF)",
    "np.cumsum(np.ones(3), out=BUF)",
    "np.copyto(BUF, 9.0)",
    "np.copyto(BUF[1:], 9.0)",
    "np.put(BUF, [0], 7)",
    "np.add.at(BUF, [0, 0], 1)",
    "operator.iadd(BUF, 1)",
    "operator.setitem(BUF, 0, 7)",
)


@pytest.fixture(autouse=True)
def afresh():
    """Puts back what the programs change."""
    BUF[:] = np.arange(3.0)
    vars(MADE).clear()
    MADE.a, MADE.n = np.ones(3), 2
    object.__setattr__(FROZEN, "n", 1)


def program(line: str, used: str) -> Callable[..., Any]:
    """A function with a read of the state, the line, and a use of the state after it."""
    text = f"def f(x):\n    np.sum(BUF)\n    {line}\n    return x * 2 + {used}\n"
    space = {"np": np, "operator": operator, "BUF": BUF, "MADE": MADE, "FROZEN": FROZEN}
    exec(compile(text, "<blamed>", "exec"), space)
    return space["f"]  # type: ignore[return-value]


@pytest.mark.parametrize("used", ["BUF", "1"])
@pytest.mark.parametrize("line", LINES)
def test_the_line_that_changes_captured_state_is_told(line: str, used: str):
    with pytest.raises(TraceError, match=r"while it is traced|outlives the trace") as caught:
        dlvm.function(program(line, used))(X)
    origin = caught.value.origin
    assert origin is not None
    assert (origin.file, origin.line) == ("<blamed>", 3)
