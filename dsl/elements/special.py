"""Special functions that have an order beside their operand."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import DTypeError
from dlvm.dsl.trace.operands import element, fresh, kind_of, plain, promoted
from dlvm.ops import Digamma, Polygamma

from .eager import public
from .elementwise import apply


@public("polygamma")
def polygamma(n: Any, x: Any) -> Any:
    """``d^n digamma(x)/dx^n`` for a known whole number n."""
    if not isinstance(n, int) or isinstance(n, bool):
        raise DTypeError(
            f"polygamma: expected a known whole order, found {n!r:.40}",
            remedy="write dlvm.polygamma(1, x), with the order first",
        )
    if n == 0:
        return apply(Digamma, x)
    x = plain(x)
    (dtype,) = promoted("exp", (kind_of(x),))
    return fresh(Polygamma(element(x, dtype), n))
