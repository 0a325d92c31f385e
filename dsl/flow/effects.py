"""Effects that users ask for: assertions, printing and taps, in the order they are written."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.elements.eager import public
from dlvm.dsl.elements.reductions import all
from dlvm.dsl.trace.operands import staged
from dlvm.ops import Assert, Print, Tap


@public("assert_")
def assert_(condition: Any, message: str = "the assertion does not hold") -> None:
    """End the call with an error at this line unless every element of the condition holds."""
    holds = all(condition)
    Assert(holds.read(), str(message))


@public("print")
def print(*values: Any, ranks: bool = False) -> None:
    """Writes values when the call reaches this line; a string is written before the
    value after it.

    On a mesh of ranks it writes whole values, once, or with ``ranks=True`` the piece of each rank.
    """
    label = ""
    for value in values:
        if isinstance(value, str):
            label += f"{value} "
            continue
        Print(staged(value).read(), label, ranks)
        label = ""


@public("tap")
def tap(x: Any, name: str, *, ranks: bool = False) -> Any:
    """``x`` itself, which ``with dlvm.taps() as found:`` collects in ``found[name]``.

    On a mesh of ranks that is the whole value, or with ``ranks=True`` the piece of each rank, along
    a new first axis.
    """
    x = staged(x)
    Tap(x.read(), name, ranks)
    return x
