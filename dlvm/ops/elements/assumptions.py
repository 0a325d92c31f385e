"""What the user knows of a matrix and the compiler may rely on."""

from __future__ import annotations

from typing import Any

from dlvm.ir import Array, Value
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ops.families import Elementwise


class Assume(Elementwise):
    """``x`` itself, which has a property that the user states: see ``dlvm.assume``.

    It is the identity for derivatives, too: a gradient has what it has, and not the property.
    Programs in which the statement is false may give any numbers.
    """

    name = "assume"
    accepts = "biuf"
    shape_free = False
    x: Value
    known: str = "symmetric"

    def properties(self, of: Of) -> Properties:
        """What is stated, beside all that is known anyway."""
        return of(self.x) | {self.known}

    def reference(self, *operands: Array) -> Any:
        return operands[0]

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0],)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return x[0]
