"""Products of small matrices by one instruction of a warp: which lane holds which elements.

PTX's ``mma.sync`` takes x by rows and y by columns. Lane l is l // 4 in its group and l % 4 in it:
``g`` and ``t`` below. Elements that share a register lie side by side in memory. The layouts are
those of the PTX ISA, section "Warp-level matrix instructions".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dlvm.gen.loops.statements import Local, Multiply
from dlvm.gen.schedule.transforms.gpu.fragment_tiles import INSTRUCTIONS, Instruction
from dlvm.ir import Dim

from .mapping import register

if TYPE_CHECKING:
    from dlvm.gen.cpu.kernels import Emitter


@dataclass(frozen=True, slots=True)
class Registers:
    """The intrinsic of an instruction, and the type of a register of x and y."""

    intrinsic: str
    type: str
    rounds: bool = False


REGISTERS = {
    "mma.bf16": Registers("llvm.nvvm.mma.m16n8k16.row.col.bf16", "i32"),
    "mma.f16": Registers("llvm.nvvm.mma.m16n8k16.row.col.f32.f32", "<2 x half>"),
    "mma.tf32": Registers("llvm.nvvm.mma.m16n8k8.row.col.tf32", "i32", rounds=True),
}


def multiply(e: Emitter, s: Multiply) -> None:
    """The elements of this lane, the instruction, and the sums that it gives."""
    how, kind = INSTRUCTIONS[s.instruction], REGISTERS[s.instruction]
    lane = e.w.value(f"and i64 {register(e, 'tid.x')}, 31")
    g, t = e.w.value(f"lshr i64 {lane}, 2"), e.w.value(f"and i64 {lane}, 3")
    xs = _registers(e, kind, s.x, s.x_offset, s.x_step, how, (g, t), (0, 8))
    ys = _registers(e, kind, s.y, s.y_offset, s.y_step, how, (g, t), (0,))
    places = [e.access.address(s.total, s.at + q) for q in range(4)]
    sums = [e.w.load("float", p, 4) for p in places]
    given = [(kind.type, x) for x in (*xs, *ys)] + [("float", c) for c in sums]
    found = e.w.call("{ float, float, float, float }", kind.intrinsic, *given)
    for q, place in enumerate(places):
        new = e.w.value(f"extractvalue {{ float, float, float, float }} {found}, {q}")
        e.w.store("float", new, place, 4)


def _registers(
    e: Emitter,
    kind: Registers,
    array: Local,
    offset: Dim,
    step: int,
    how: Instruction,
    lane: tuple[str, str],
    rows: Sequence[int],
) -> list[str]:
    """The registers of a matrix: those of the first half of what is summed over, then the others.

    In each half a lane has ``packed`` elements of row g, and where there are 16 rows of g + 8.
    """
    g, t = lane
    start = e.offsets.first(e.offsets.known(offset))
    row = e.w.value(f"mul i64 {g}, {step}")
    col = e.w.value(f"mul i64 {t}, {how.packed}")
    at = e.w.value(f"add i64 {start}, {e.w.value(f'add i64 {row}, {col}')}")
    found: list[str] = []
    for half in (0, how.depth // 2):
        for down in rows:
            place = e.w.value(f"add i64 {at}, {down * step + half}")
            found.append(_loaded(e, kind, _pointer(e, array, place)))
    return found


def _loaded(e: Emitter, kind: Registers, pointer: str) -> str:
    """A register, of which ``mma.tf32`` wants the digits of f32 that it keeps rounded."""
    if kind.rounds:
        x = e.w.load("float", pointer, 4)
        return e.w.call("i32", "llvm.nvvm.f2tf32.rna", ("float", x))
    return e.w.load(kind.type, pointer, 4)


def _pointer(e: Emitter, array: Local, at: str) -> str:
    place = e.access.places[array.name]
    return e.w.step(place.element, place.pointer, at)
