"""Loops over blocks and lanes: what a thread of a GPU runs of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import WARP, Barrier, Loop, LoopKernel, Where, statements
from dlvm.gen.text.indices import index_of_word
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim

if TYPE_CHECKING:
    from dlvm.gen.cpu.kernels import Emitter

SPECIAL = "llvm.nvvm.read.ptx.sreg"


def block_size(kernel: LoopKernel) -> int:
    """Threads of a block: what the lane loops of the schedule ask for."""
    loops = [s for s in statements(kernel.body) if isinstance(s, Loop) and s.kind == "lane"]
    for s in loops:
        if is_warps(s) and isinstance(s.extent, int):
            return s.extent * WARP
    most = (s.extent if isinstance(s.extent, int) else s.limit for s in loops)
    return max((n for n in most if n is not None), default=1)


def is_warps(s: Loop) -> bool:
    """Whether a loop is over the warps of a block, with a loop over their lanes inside."""
    inside = [t for t in s.body if isinstance(t, Loop)]
    return s.kind == "lane" and len(inside) == 1 and inside[0].kind == "lane"


def register(e: Emitter, name: str) -> str:
    """A special register, as an index."""
    return index_of_word(e.w, e.w.call("i32", f"{SPECIAL}.{name}"))


def blocks(e: Emitter, s: Loop, extent: str) -> None:
    """From the index of the block, in steps of the grid."""
    first, step = register(e, "ctaid.x"), register(e, "nctaid.x")
    type_ = e.w.text.index
    turns = e.w.value(f"sub {type_} {extent}, {first}")
    rounded = e.w.value(f"add {type_} {turns}, {e.w.value(f'sub {type_} {step}, 1')}")
    count = e.w.value(f"sdiv {type_} {rounded}, {step}")
    with e.w.loop("0", count) as turn, e.offsets.scope(turn.head) as scope:
        scaled = e.w.value(f"mul {type_} {turn.index}, {step}", turn.head)
        scope.names[s.var] = e.w.value(f"add {type_} {first}, {scaled}", turn.head)
        e.body(s.body)


def lanes(e: Emitter, s: Loop, extent: str) -> None:
    """One thread for each lane; threads beyond the loop sit it out.

    Of a block of several warps the loop outside is over warps, and the one inside over lanes.
    """
    lane, count = register(e, "tid.x"), block_size(e.kernel)
    type_ = e.w.text.index
    warps = is_warps(s)
    inside = not warps and count != WARP and s.extent == WARP and _is_of_warps(e.kernel)
    if warps:
        lane = e.w.value(f"lshr {type_} {lane}, 5")
    elif inside:
        lane = e.w.value(f"and {type_} {lane}, {WARP - 1}")
    with e.offsets.scope() as scope:
        scope.names[s.var] = lane
        if warps or inside or s.extent == count:
            e.body(s.body)
            return
        if any(isinstance(inner, Barrier) for inner in statements(s.body)):
            raise CompilerError(f"@{e.kernel.name}: a barrier that not all threads reach")
        with e.w.when(e.w.value(f"icmp slt {type_} {lane}, {extent}")):
            e.body(s.body)


def _is_of_warps(kernel: LoopKernel) -> bool:
    return any(isinstance(s, Loop) and is_warps(s) for s in statements(kernel.body))


def holds(offsets: Offsets, where: Where) -> str | None:
    """Whether all of these are >= 0, which is the same for elements side by side."""
    before, offsets.vector = offsets.vector, None
    found = offsets.holds(where)
    offsets.vector = before
    return found


def elements_at_once(offsets: Offsets, offset: Dim) -> int:
    """How many neighbouring elements an access touches."""
    v = offsets.vector
    return v.lanes if v is not None and offsets.varies(offset) else 1
