"""What the user knows of a value and the compiler may rely on, and where it is to lie."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.ir import Array, Dim, TensorType, Value
from dlvm.ir.properties import Of, Properties
from dlvm.ir.scalar import S, Scalars
from dlvm.ir.sharding.mesh import Axes
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


class Shard(Elementwise):
    """``x`` itself, of which each rank of a mesh has a piece: see ``dlvm.shard``.

    For each axis ``spec`` has the names of what shares it, joined by ``+``; ``""`` where it is
    whole, and ``"..."`` where the compiler chooses. A gradient lies as its value does.
    """

    name = "shard"
    ends = "partitioned"
    accepts = "biuf"
    shape_free = False
    x: Value
    spec: tuple[str, ...]

    def infer(self) -> TensorType | tuple[TensorType, ...]:
        """The type of ``x``, for each axis of which there are names."""
        if len(self.spec) != self.x.type.rank:
            raise ShapeError(f"shard: expected names for each axis of {self.x.type}")
        return super().infer()

    def batched(self, size: Dim) -> dict[str, Any]:
        return {"spec": ("...", *self.spec)}

    def properties(self, of: Of) -> Properties:
        return of(self.x)

    def reference(self, *operands: Array) -> Any:
        return operands[0]

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (Shard(dy[0], self.spec),)

    def scalar(self, s: Scalars[S], *x: S) -> S:
        return x[0]

    @property
    def known(self) -> tuple[Axes | None, ...]:
        """What shares each axis; None where the compiler chooses."""
        return tuple(
            None if names == "..." else tuple(filter(None, names.split("+"))) for names in self.spec
        )
