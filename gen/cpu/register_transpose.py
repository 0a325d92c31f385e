"""The instruction ``turn``: a copy that transposes, by squares of vectors in registers."""

from __future__ import annotations

from dlvm.gen.loops.instructions import TileTranspose
from dlvm.gen.products.micro_kernel import Vectors
from dlvm.gen.products.packing import PANEL, copy_columns, transposed
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.target import Target

STRAIGHT_ELEMENTS = 256
"""Elements that are turned without loops."""


def can_turn(turn: TileTranspose, target: Target) -> bool:
    """Whether squares of the vectors of a target are written as a whole."""
    lanes = target.lanes(turn.source.dtype.bytes)
    whole = lanes > 1 and turn.width % lanes == 0
    return whole and turn.target.size % (turn.width * lanes) == 0


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
