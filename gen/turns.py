"""A copy that transposes, recognised among loops and done by squares of vectors in registers."""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.ir import F32, F64, Dim
from dlvm.ir.dims import substitute, symbol, symbols
from dlvm.target import Target

from .emit import Text
from .loops import Buffer, Let, Load, Local, Loop, Store
from .packing import copy_columns


@dataclass(frozen=True, slots=True)
class Turn:
    """``target[r * width + c] = source[offset + c * step + r]`` for r < rows and c < columns."""

    source: Buffer
    offset: Dim
    step: Dim
    target: Local
    width: int
    rows: Dim
    columns: Dim


def turn_of(loop: Loop, target: Target) -> Turn | None:
    """The copy that a loop is, where squares of vectors can do it."""
    match loop:
        case Loop(
            c,
            columns,
            "serial",
            (
                Loop(
                    r,
                    rows,
                    "vector",
                    (
                        Let(Load(dtype, Buffer() as source, offset, ()) as x),
                        Store(Local() as room, to, stored, ()),
                    ),
                ),
            ),
        ) if stored is x and dtype in (F32, F64):
            step, width, lanes = _slope(offset, c), _slope(to, r), target.lanes(dtype.bytes)
            straight = _slope(offset, r) == 1 and _slope(to, c) == 1
            if not straight or step is None or not isinstance(width, int) or lanes < 2:
                return None
            if width % lanes or room.size % (width * lanes) or _start(to, r, c) != 0:
                return None  # a square may be written as a whole
            return Turn(source, _start(offset, r, c), step, room, width, rows, columns)
        case _:
            return None


def turn_function(text: Text, turn: Turn, target: Target) -> str:
    """The name of the function that does it, which is added to the module if it is new."""
    dtype = turn.source.dtype
    name = f"turn.{dtype}.{turn.width}"
    if name not in text.functions:
        copy_columns(text, name, dtype, target.lanes(dtype.bytes), turn.width)
    return name


def _start(offset: Dim, *names: str) -> Dim:
    return substitute(offset, dict.fromkeys(names, 0))


def _slope(offset: Dim, name: str) -> Dim | None:
    """What an offset grows by with a variable, where that is always the same."""
    step = substitute(offset, {name: symbol(name) + 1}) - offset
    return None if name in symbols(step) else step
