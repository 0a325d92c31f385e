"""A copy that transposes, recognised among loops and done by squares of vectors in registers."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import Buffer, Let, Load, Local, Loop, Store
from dlvm.gen.products.micro_kernel import Vectors
from dlvm.gen.products.packing import PANEL, copy_columns, transposed
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.ir import F32, F64, Dim
from dlvm.ir.dims import substitute
from dlvm.target import Target

STRAIGHT_ELEMENTS = 256
"""Elements that are turned without loops."""


@dataclass(frozen=True, slots=True)
class TileTranspose:
    """``target[r * width + c] = source[offset + c * step + r]`` for r < rows and c < columns."""

    source: Buffer | Local
    offset: Dim
    step: Dim
    target: Local
    width: int
    rows: Dim
    columns: Dim


def turn_of(loop: Loop, target: Target) -> TileTranspose | None:
    """The copy that a loop is, where squares of vectors can do it."""
    match loop:
        case Loop(
            c,
            columns,
            "serial" | "parallel",
            (
                Loop(
                    r,
                    rows,
                    "vector",
                    (
                        Let(Load(dtype, Buffer() | Local() as source, offset, ()) as x),
                        Store(Local() as room, to, stored, ()),
                    ),
                ),
            ),
        ) if stored is x and dtype in (F32, F64):
            step, width, lanes = step_of(offset, c), step_of(to, r), target.lanes(dtype.bytes)
            straight = step_of(offset, r) == 1 and step_of(to, c) == 1
            if not straight or step is None or not isinstance(width, int) or lanes < 2:
                return None
            if width % lanes or room.size % (width * lanes) or _start(to, r, c) != 0:
                return None  # a square may be written as a whole
            return TileTranspose(source, _start(offset, r, c), step, room, width, rows, columns)
        case _:
            return None


def turn_function(text: Text, turn: TileTranspose, target: Target) -> str:
    """The name of the function that does it, which is added to the module if it is new."""
    dtype, lanes = turn.source.dtype, target.lanes(turn.source.dtype.bytes)
    name = f"turn.{dtype}.{turn.width}"
    if (size := _small(turn, lanes)) is not None:
        name = f"{name}.{size[0]}x{size[1]}"
        if name not in text.functions:
            _squares(text, name, Vectors(FunctionWriter(text), dtype, lanes), turn.width, size)
    elif name not in text.functions:
        copy_columns(text, name, dtype, lanes, turn.width)
    return name


def _small(turn: TileTranspose, lanes: int) -> tuple[int, int] | None:
    """The rows and columns of a few whole squares, which need no loop."""
    rows, columns = turn.rows, turn.columns
    if (
        not isinstance(rows, int)
        or not isinstance(columns, int)
        or rows * columns > STRAIGHT_ELEMENTS
    ):
        return None
    return (rows, columns) if rows % lanes == columns % lanes == 0 else None


def _squares(text: Text, name: str, v: Vectors, width: int, size: tuple[int, int]) -> None:
    """``void @NAME(PANEL)`` for these numbers of rows and columns."""
    rows, columns = size
    for c in range(0, columns, v.lanes):
        lines = [v.w.value(f"mul i64 %step, {c + i}") for i in range(v.lanes)]
        starts = [v.at("%from", line) for line in lines]
        for r in range(0, rows, v.lanes):
            turned = transposed(v, [v.load(v.at(start, r)) for start in starts])
            for q, row in enumerate(turned):
                v.store(row, v.at("%to", (r + q) * width + c))
    text.functions[name] = v.w.function(f"internal void @{name}({PANEL})")


def _start(offset: Dim, *names: str) -> Dim:
    return substitute(offset, dict.fromkeys(names, 0))
