"""A kernel as PTX for an NVIDIA GPU, from the same loops and words as for a CPU.

``block`` loops become the grid (each block strides over them, so any grid will do), ``lane``
loops the threads of a block, ``shared`` arrays shared memory and barriers barriers. Everything
else is emitted as for a CPU without vectors; the thread mapping stands in the schedule alone.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from dlvm.base.errors import CompilerError
from dlvm.gen.cpu.access import Access, Address
from dlvm.gen.cpu.kernels import Emitter
from dlvm.gen.loops.statements import (
    WARP,
    Barrier,
    Buffer,
    Load,
    Local,
    Loop,
    LoopKernel,
    Multiply,
    Product,
    Statement,
    Store,
    accesses,
    statements,
)
from dlvm.gen.program.promises import ALIGNED, Promises
from dlvm.gen.text.access import vector
from dlvm.gen.text.lanes import Val, splat
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import maximum, mod
from dlvm.target import Target

from .fragments import multiply
from .mapping import block_size, blocks, elements_at_once, holds, lanes
from .warps import Warp, exchanged, shared

SHARED_BY_TWO, HALF_OF_THEM = 256, 128
"""Lanes of a block, and words of its lanes' sums, for which two blocks are better than one."""
BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all", ("i32", "0")
BARRIER_OF_WARP = "llvm.nvvm.bar.warp.sync", ("i32", "-1")
"""For a block that is one warp: its lanes wait for one another, and see what each has written."""


def emit_gpu_kernel(kernel: LoopKernel, target: Target, known: Promises | None = None) -> Text:
    """The entry ``NAME(b0, ..., sizes..., status)``, as pieces of an LLVM module."""
    if any(isinstance(s, Product) for s in statements(kernel.body)):
        raise CompilerError(f"@{kernel.name}: a product that is in no tiles")
    text = Text("nounwind")
    w = FunctionWriter(text)
    work = GpuEmitter(w, kernel, target, known)
    work.whole()
    pointers = [f"ptr {_alone(b, known)}align {_even(b, known)} %{b.name}" for b in kernel.buffers]
    parameters = [*pointers, *(f"i64 %s.{s}" for s in kernel.symbols), "ptr %status"]
    header = f"ptx_kernel void @{kernel.name}({', '.join(parameters)})"
    threads = f'nounwind "nvvm.reqntid"="{block_size(kernel)}"{_beside(kernel)}'
    text.functions[kernel.name] = w.function(header, threads)
    return text


def _beside(kernel: LoopKernel) -> str:
    """That two blocks share a processor, where ptxas would give all registers to one.

    Of the sums of a product of f32 those of earlier chunks then lie in memory, where each is
    touched once in a chunk: 128 registers a lane in the place of 201, and 28 TFLOP/s in that of 21.
    """
    inside = (s for s in statements(kernel.body) if isinstance(s, Local) and not s.shared)
    sums = [s.size * s.dtype.bytes // 4 for s in inside if s.size > 1]
    fits = block_size(kernel) == SHARED_BY_TWO and len(sums) > 1 and sum(sums) == HALF_OF_THEM
    return ' "nvvm.minctasm"="2"' if fits else ""


def _alone(buffer: Buffer, known: Promises | None) -> str:
    """Whether LLVM may take for granted that a buffer shares no memory with others."""
    return "" if known is None or buffer.name in known.shared else "noalias "


def _even(buffer: Buffer, known: Promises | None) -> int:
    """Bytes of which the start of a buffer is known to be a multiple."""
    return buffer.dtype.bytes if known is None or buffer.name in known.unaligned else ALIGNED


def grid_size(kernel: LoopKernel) -> Dim:
    """Blocks to launch so that each runs one turn; fewer will do, as they stride."""
    blocks: Dim = 1
    for s in kernel.body:
        if isinstance(s, Loop) and s.kind == "block":
            blocks = maximum(blocks, s.extent)
    return blocks


class GpuEmitter(Emitter):
    """The statements that a GPU reads in its own way, by any writer."""

    def __init__(
        self, w: FunctionWriter, kernel: LoopKernel, target: Target, known: Promises | None
    ) -> None:
        super().__init__(w, kernel, target)
        self.warp = Warp.of(kernel, target.exchanges)
        written = {x.memory.name for x in accesses(kernel.body) if isinstance(x, Store)}
        written |= set() if known is None else known.shared
        even = {b.name: _even(b, known) for b in kernel.buffers}
        self.access: Access = _GpuAccess(w, self.offsets, self.warp, even, written)

    @contextmanager
    def failure(self, bad: str, lanes: int, code: int) -> Generator[None]:
        """In the first thread of all that fail, so that the words of the status are of one."""
        with self.w.when(bad), self.w.when(self.claim(code)):
            yield

    def claim(self, code: int) -> str:
        """Whether this thread is the first of all that records a failure in the status."""
        claim = f"cmpxchg ptr %status, i64 0, i64 {code} monotonic monotonic"
        return self.w.value(f"extractvalue {{ i64, i1 }} {self.w.value(claim)}, 1")

    def statement(self, s: Statement) -> None:
        """One statement; a barrier only where lanes share memory."""
        if isinstance(s, Barrier):
            if self.warp.waits(s):
                alone = block_size(self.kernel) == WARP
                self.w.call("void", *(BARRIER_OF_WARP if alone else BARRIER))
        elif isinstance(s, Multiply):
            multiply(self, s)
        else:
            super().statement(s)

    def loop(self, s: Loop) -> None:
        """A loop over blocks, over lanes, or of one lane."""
        extent = self.offsets.first(self.offsets.known(s.extent))
        if s.kind == "block":
            blocks(self, s, extent)
        elif s.kind == "lane":
            lanes(self, s, extent)
        elif s.kind == "vector":
            self.between(s, 0, self.offsets.known(s.extent))
        else:
            self.counted(s, "0", extent, 1, None)


class _GpuAccess(Access):
    """Memory of one thread at a time; guarded access branches instead of reading a zero."""

    def __init__(
        self,
        w: FunctionWriter,
        offsets: Offsets,
        warp: Warp,
        even: Mapping[str, int],
        written: Collection[str],
    ) -> None:
        super().__init__(w, offsets, 0)  # a thread has no vectors
        self.warp, self.even, self.written = warp, even, written

    def _align(self, access: Load | Store, offset: Dim, lanes: int) -> int:
        """Bytes of which an address is a multiple: LLVM joins neighbours where it can tell.

        It reads three of four such elements as four. So a load says more than it must where the
        fourth is an element as well, which nobody writes meanwhile.
        """
        memory = access.memory
        size, least = memory.dtype.bytes, lanes * memory.dtype.bytes
        found = self.even.get(memory.name, size)
        if isinstance(access, Load) and memory.name in self.written:
            return least
        dims = (offset, memory.size) if isinstance(access, Load) else (offset,)
        while found > least and any(mod(d, found // size) != 0 for d in dims):
            found //= 2
        return max(least, found)

    def declare(self, local: Local) -> None:
        """Shared arrays are globals of their address space, or a register of each lane."""
        if local.name in self.warp.registers or not local.shared:
            super().declare(replace(local, size=1) if local.shared else local)
        else:
            self.places[local.name] = Address(shared(self.w, self.warp, local), local.dtype)

    def load(self, s: Load) -> Val:
        """The element, or zero outside ``where``."""
        place, offset = self.places[s.memory.name], self.offsets.known(s.offset)
        condition = holds(self.offsets, s.where)
        if s.memory.name in self.warp.registers:
            element = exchanged(self.w, place, s.offset, self.warp.lane, condition)
            return self._loaded(element, place, 1)
        lanes = elements_at_once(self.offsets, offset)
        type_ = vector(place.element, lanes)

        def plain() -> str:
            address = self._address(place, offset)
            return self.w.load(type_, address, self._align(s, offset, lanes))

        if condition is None:
            return self._loaded(plain(), place, lanes)
        element = self.w.maybe(condition, type_, "zeroinitializer", plain)
        return self._loaded(element, place, lanes)

    def store(self, s: Store, x: Val) -> None:
        """The element, where ``where`` holds."""
        place, offset = self.places[s.memory.name], self.offsets.known(s.offset)
        offset = 0 if s.memory.name in self.warp.registers else offset
        lanes = elements_at_once(self.offsets, offset)
        text, pointer = self._storable(splat(self.w, x, lanes)), self._address(place, offset)
        type_, align = vector(place.element, lanes), self._align(s, offset, lanes)
        condition = holds(self.offsets, s.where)
        with nullcontext() if condition is None else self.w.when(condition):
            self.w.store(type_, text, pointer, align)
