"""Instructions that state their meaning as loops, and take the place of loops that mean the same.

A loop that is marked ``by`` an instruction stays in the kernel: it says what is computed, to the
interpreter, the verifier and the cost. Code for a target that has the instruction runs that, and
code for others the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dlvm.ir import F32, F64, Dim
from dlvm.ir.sizes.dims import substitute

from .index import step_of
from .statements import Buffer, Let, Load, Local, Loop, Store

Unify = TypeVar("Unify", bound=Callable[[Loop], object | None])


@dataclass(frozen=True, slots=True)
class Instruction:
    """What an instruction means, in words, and the operands with which it is what a loop does."""

    meaning: str
    unify: Callable[[Loop], object | None]


INSTRUCTIONS: dict[str, Instruction] = {}
"""By the name that stands in a schedule."""


def instruction(name: str, meaning: str) -> Callable[[Unify], Unify]:
    """Register an instruction by what finds its operands in a loop."""

    def register(unify: Unify) -> Unify:
        INSTRUCTIONS[name] = Instruction(meaning, unify)
        return unify

    return register


TURN = "turn"
"""Squares of vectors in registers are transposed."""


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


@instruction(TURN, "target[r * width + c] = source[c * step + r] for all c, and r right inside")
def turn_of(loop: Loop) -> TileTranspose | None:
    """The copy of a tile to its transpose that a loop is."""
    match loop:
        case Loop(
            c,
            columns,
            "serial" | "parallel",
            (
                Loop(
                    r,
                    rows,
                    "vector" | "parallel",
                    (
                        Let(Load(dtype, Buffer() | Local() as source, offset, ()) as x),
                        Store(Local() as room, to, stored, ()),
                    ),
                ),
            ),
        ) if stored is x and dtype in (F32, F64):
            step, width = step_of(offset, c), step_of(to, r)
            straight = step_of(offset, r) == 1 and step_of(to, c) == 1
            if not straight or step is None or not isinstance(width, int):
                return None
            if _start(to, r, c) != 0:
                return None
            start = _start(offset, r, c)
            return TileTranspose(source, start, step, room, width, rows, columns)
        case _:
            return None


def _start(offset: Dim, *names: str) -> Dim:
    return substitute(offset, dict.fromkeys(names, 0))
