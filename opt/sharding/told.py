"""What the ranks of a program exchange, with the line that each exchange comes from, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlvm.base.errors import Origin
from dlvm.cost import exchange, size_in_bytes, sum_of, typical
from dlvm.ir import Dim, Function, Module, TensorType
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ops.flow.collectives import Collective

from .moves import seconds


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange: ``sent`` are the bytes that each rank sends."""

    kind: str
    axes: tuple[str, ...]
    types: tuple[TensorType, ...]
    sent: int
    seconds: float
    where: Origin | None
    asked: str
    repeated: bool

    def __str__(self) -> str:
        at = f" at {self.where}" if self.where else ""
        many = f" ({len(self.types)} arrays)" if len(self.types) > 1 else ""
        again = ", in a loop: each trip" if self.repeated else ""
        return (
            f"{self.kind} along {'+'.join(self.axes)}{at}{many}: {self.sent:,} bytes sent, "
            f"{self.seconds * 1e6:.3g} us{again}{f'; {self.asked}' if self.asked else ''}"
        )


def exchanges(module: Module) -> Iterator[Exchange]:
    """What ranks exchange in a partitioned program, in order."""
    for fn in module.functions:
        yield from _of(fn, repeated=fn is not module.main)


def told(module: Module, memory: Dim) -> Iterator[str]:
    """Lines for whoever asks: the memory of each rank, then what ranks exchange."""
    found = list(exchanges(module))
    total = sum(e.sent for e in found)
    yield f"each rank needs {memory} bytes and sends {total:,} in {len(found)} exchanges"
    yield from map(str, found)


def _of(fn: Function, repeated: bool) -> Iterator[Exchange]:
    for op in fn.ops:
        if isinstance(op, Collective):
            yield _told(op, repeated)
        again = op.dataflow is not None and op.dataflow.loops
        for region in op.regions.values():
            yield from _of(region, repeated or again)


def _told(op: Collective, repeated: bool) -> Exchange:
    mesh, types = op.among, tuple(x.type for x in op.xs)
    bytes_ = sum_of(map(size_in_bytes, types))
    time = seconds(mesh, op.kind, bytes_, op.axes)
    return Exchange(
        op.name,
        op.axes,
        types,
        sent(mesh, op.kind, bytes_, op.axes),
        time,
        op.origin,
        op.asked,
        repeated,
    )


def sent(mesh: Mesh, kind: str, size: Dim, axes: tuple[str, ...]) -> int:
    """The bytes that each rank sends of local arrays of so many; of open sizes, of typical ones."""
    return round(exchange(kind, typical(size), mesh.count(axes), 0.0, 1.0))
