"""Array functions that are no formula of their own: casting and effects.

Names and signatures follow the Python array API standard.
"""

from __future__ import annotations

from typing import Any

from dlvm.ops import Assert, Print

from .eager import public
from .operands import element, fresh, here, known_dtype, plain, staged
from .reductions import all
from .tensor import COPY, Tensor

# -- casting -------------------------------------------------------------------------------------


@public("astype")
def astype(x: Any, dtype: Any, copy: bool = True) -> Any:
    """``x`` in another element type; out of range saturates, NaN becomes 0."""
    return fresh(element(plain(x), known_dtype(dtype)))


@public("asarray")
def asarray(x: Any, dtype: Any = None) -> Any:
    """Any operand as a staged array, also a symbolic size; a staged one stays as it is."""
    x = staged(x)
    if dtype is None and not x.weak:
        return x
    return fresh(element(x, x.element if dtype is None else known_dtype(dtype)))


@public("copy")
def copy(x: Any) -> Any:
    """An array of its own with the same elements, which may be assigned into."""
    x = staged(x)
    return Tensor(x.read(), here(), x.weak, label=f"{COPY}{x.label}" if x.label else "")


# -- effects -------------------------------------------------------------------------------------


@public("assert_")
def assert_(condition: Any, message: str = "the assertion does not hold") -> None:
    """End the call with an error at this line unless every element of the condition holds."""
    holds = all(condition)
    Assert(holds.read(), message)


@public("print")
def print(*values: Any) -> None:
    """Write values when the call gets here; strings stand before the value that follows."""
    label = ""
    for value in values:
        if isinstance(value, str):
            label += f"{value} "
            continue
        Print(staged(value).read(), label)
        label = ""
