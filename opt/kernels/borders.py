"""What goes through memory from one kernel to another, and why the two are not one.

Read from the kernels that fusion has made, so it can't differ from what runs: each value that a
kernel writes and another one reads is a fusion that was refused. The families of ``groups`` say
which kernels start anew; between loops nothing more is claimed than that no one nest fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlvm.base.errors import Origin
from dlvm.base.units import size
from dlvm.cost import size_in_bytes, typical
from dlvm.ir import Dim, Function, Module, Op, Part, TensorType, Value
from dlvm.ops import Kernel, Structured
from dlvm.ops.families import Movement
from dlvm.opt.kernels.groups import along_rows
from dlvm.opt.regions.inlining import keep_reachable

WHY = {
    "product": "a product starts a kernel; what it does not compute itself is read from memory",
    "scatter": "an update starts a kernel, which writes into its first operand",
    "ordering": "a sort or a search is a kernel of its own",
    "factorisation": "a factorisation is a kernel of its own",
    "running": "a scan along an axis takes element-wise operations of its shape only",
}
ROWS = "a scan along the last axis is a kernel of its own: each element needs the one beside it"
APART = "no one nest of loops computes both: other sizes or axes, or needed whole before"


@dataclass(frozen=True, slots=True)
class Border:
    """A value that a kernel writes and another one reads, and why the two are not one."""

    type: TensorType
    source: Origin | None
    reader: Origin | None
    why: str
    bytes: Dim
    """What is written and read of the value in one call of its function, in all trips of a loop."""

    @property
    def moved(self) -> str:
        """The bytes as text, a formula where they depend on open sizes."""
        return size(self.bytes) if isinstance(self.bytes, int) else f"{self.bytes} bytes"

    def __str__(self) -> str:
        return f"{self.type} from {self.source} to {self.reader}: {self.why} ({self.moved})"


def borders(module: Module) -> list[Border]:
    """The values that go through memory from one kernel to another, in functions that run.

    Those that move most bytes come first; for open sizes usual numbers are taken.
    """
    found = (border for fn in keep_reachable.run(module).functions for border in _in_body(fn, 1))
    return sorted(found, key=lambda border: -typical(border.bytes))


def _in_body(fn: Function, trips: Dim) -> Iterator[Border]:
    for op in fn.ops:
        if not isinstance(op, Kernel):
            inner = op.trips if isinstance(op, Structured) else 1
            for region in op.regions.values():
                yield from _in_body(region, trips * inner)
            continue
        for x, param in zip(op.xs, op.body.params, strict=True):
            written = _written(x)
            source = written.op if isinstance(written, Part) else written
            if isinstance(source, Kernel):
                index = written.index if isinstance(written, Part) else 0
                places = _source(source, index), _reader(op, param)
                yield Border(x.type, *places, _why(source, op), _bytes(x, trips))


def _bytes(x: Value, trips: Dim) -> Dim:
    """The bytes that are written and read of a value in all trips."""
    return size_in_bytes(x.type) * trips * 2


def _written(x: Value) -> Value:
    """The value that is in memory; a reshape only looks at it."""
    while isinstance(x, Op) and x.alias:
        (x,) = x.operands
    return x


def _source(kernel: Kernel, index: int) -> Origin | None:
    """Where the operation is written that makes a result: a kernel may hold independent ones."""
    return kernel.body.results[index].origin or kernel.origin


def _reader(kernel: Kernel, param: Value) -> Origin | None:
    """Where the first operation is written that reads an operand, as it is or moved.

    A reshape, a transpose or a broadcast may come from a pass and have the line of another one.
    """
    same: set[Value] = {param}
    moved: Origin | None = None
    for op in kernel.body.walk():
        if same.isdisjoint(op.operands):
            continue
        if not isinstance(op, Movement):
            return op.origin or kernel.origin
        same.update(op.results)
        moved = moved or op.origin
    return moved or kernel.origin


def _why(source: Kernel, reader: Kernel) -> str:
    if any(
        kernel.family == "running" and along_rows(kernel.body.ops) for kernel in (reader, source)
    ):
        return ROWS
    if reader.family in WHY:
        return WHY[reader.family]
    if source.family == "product":
        return "a product takes element-wise operations of its shape only"
    return WHY.get(source.family, APART)
