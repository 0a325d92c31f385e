"""Arrays that the lanes of one warp share: each lane keeps its element in a register.

An array of 32 elements or fewer, of which lane l touches element l, and which a fold halves by
adding element l + 16, l + 8 and so on, needs neither shared memory nor barriers: a lane reads the
register of another one by a shuffle, which waits for the warp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dlvm.base.errors import CompilerError
from dlvm.gen.cpu.access import Address
from dlvm.gen.loops.statements import (
    WARP,
    Barrier,
    Load,
    Local,
    Loop,
    LoopKernel,
    Store,
    accesses,
    statements,
)
from dlvm.gen.text.lanes import stored_type
from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import symbol, symbols

from .mapping import block_size, is_warps

ALL = "-1"
"""The mask of a shuffle in which every lane takes part."""
PARTS = {"i8": 1, "i16": 1, "half": 1, "i32": 1, "float": 1, "i64": 2, "double": 2}
"""Registers of 32 bits that an element takes."""


@dataclass(frozen=True, slots=True)
class Warp:
    """What the lanes of a kernel share: arrays that are ``registers`` need no barrier.

    ``lane`` is the name of the loop over them.
    """

    kernel: str
    lane: str
    registers: frozenset[str]

    @staticmethod
    def of(kernel: LoopKernel, exchanges: bool = True) -> Warp:
        """Of a kernel under its schedule; nothing is where lanes do not exchange registers."""
        if not exchanges:
            return Warp(kernel.name, "", frozenset())
        inside = list(statements(kernel.body))
        lanes = [s for s in inside if isinstance(s, Loop) and s.kind == "lane"]
        if not lanes:
            return Warp(kernel.name, "", frozenset())
        lane, several = lanes[-1], is_warps(lanes[0])
        within = statements(lanes[0].body) if several else inside
        arrays = {s.name for s in within if isinstance(s, Local) and s.shared}
        one = several or (block_size(kernel) == WARP and len(lanes) == 1)
        kept = arrays - _in_memory(kernel, lane.var) if one else set[str]()
        if several and len(kept) < len(arrays):
            raise CompilerError(f"@{kernel.name}: a warp shares an array that is not in registers")
        found = Warp(kernel.name, lane.var, frozenset(kept))
        if several and any(map(found.waits, _of_some_warps(lane, lanes[0].var))):
            raise CompilerError(f"@{kernel.name}: a barrier that not all warps reach")
        return found

    def waits(self, barrier: Barrier) -> bool:
        """Whether a barrier is needed for an array that is in shared memory."""
        return not barrier.arrays or not self.registers.issuperset(barrier.arrays)


def _of_some_warps(lane: Loop, warp: str) -> Iterator[Barrier]:
    """The barriers in loops whose number of turns depends on the warp."""
    for loop in statements(lane.body):
        if isinstance(loop, Loop) and warp in symbols(loop.extent):
            yield from (s for s in statements(loop.body) if isinstance(s, Barrier))


def _in_memory(kernel: LoopKernel, lane: str) -> set[str]:
    """Arrays with accesses that no shuffle makes."""
    found = accesses(kernel.body)
    return {x.memory.name for x in found if not _in_registers(x, symbol(lane))}


def _in_registers(access: Load | Store, lane: Dim) -> bool:
    """Whether a lane stores its own element, or reads its own, a later lane's or a known one."""
    far, at = access.offset - lane, access.offset
    if isinstance(access, Store):
        return far == 0 or (at == 0 and -1 * lane in access.where)
    return any(isinstance(d, int) and 0 <= d < WARP for d in (far, at))


def shared(w: FunctionWriter, warp: Warp, local: Local) -> str:
    """The address of a shared array."""
    return w.text.shared(f"{warp.kernel}.{local.name}", stored_type(local.dtype), local.size)


def exchanged(
    w: FunctionWriter, place: Address, offset: Dim, lane: str, condition: str | None
) -> str:
    """The element at an offset, from the register of the lane that keeps it.

    Every lane takes part; those where the condition does not hold get zero.
    """
    found = _exchanged(w, place, offset, lane)
    if condition is None:
        return found
    choice = f"{place.element} {found}, {place.element} zeroinitializer"
    return w.value(f"select i1 {condition}, {choice}")


def _exchanged(w: FunctionWriter, place: Address, offset: Dim, lane: str) -> str:
    value = w.load(place.element, place.pointer, place.dtype.bytes)
    if isinstance(offset, int):
        return _shuffled(w, place.element, value, "idx", str(offset))
    far = offset - symbol(lane)
    return value if far == 0 else _shuffled(w, place.element, value, "down", str(far))


def _shuffled(w: FunctionWriter, type_: str, value: str, how: str, lane: str) -> str:
    """The value of another lane, in parts of 32 bits."""
    bits = {"half": "i16", "float": "i32", "double": "i64"}.get(type_, type_)
    if bits != type_:
        value = w.value(f"bitcast {type_} {value} to {bits}")
    if PARTS[type_] == 1:
        found = _narrow(w, bits, _of_word(w, _wide(w, bits, value), how, lane))
    else:
        low = w.value(f"trunc i64 {value} to i32")
        high = w.value(f"trunc i64 {w.value(f'lshr i64 {value}, 32')} to i32")
        words = [w.value(f"zext i32 {_of_word(w, x, how, lane)} to i64") for x in (low, high)]
        found = w.value(f"or i64 {words[0]}, {w.value(f'shl i64 {words[1]}, 32')}")
    return found if bits == type_ else w.value(f"bitcast {bits} {found} to {type_}")


def _of_word(w: FunctionWriter, value: str, how: str, lane: str) -> str:
    arguments = ("i32", ALL), ("i32", value), ("i32", lane), ("i32", str(WARP - 1))
    return w.call("i32", f"llvm.nvvm.shfl.sync.{how}.i32", *arguments)


def _wide(w: FunctionWriter, bits: str, value: str) -> str:
    return value if bits == "i32" else w.value(f"zext {bits} {value} to i32")


def _narrow(w: FunctionWriter, bits: str, value: str) -> str:
    return value if bits == "i32" else w.value(f"trunc i32 {value} to {bits}")
