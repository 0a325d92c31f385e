"""A kernel as PTX for an NVIDIA GPU, from the same loops and words as for a CPU.

``block`` loops become the grid (each block strides over them, so any grid will do), ``lane``
loops the threads of a block, ``shared`` arrays shared memory and barriers barriers. Everything
else is emitted as for a CPU without vectors; the thread mapping stands in the schedule alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dlvm.base.errors import CompilerError
from dlvm.gen.cpu.access import Access, Address
from dlvm.gen.cpu.kernels import Emitter
from dlvm.gen.llvm import binding as llvm
from dlvm.gen.loops.statements import (
    Barrier,
    Buffer,
    Load,
    Local,
    Loop,
    LoopKernel,
    Product,
    Statement,
    Store,
    statements,
)
from dlvm.gen.loops.verifier import verify
from dlvm.gen.program.promises import ALIGNED, Promises
from dlvm.gen.text.lanes import Val, number, stored_type
from dlvm.gen.text.module import FunctionWriter, Text
from dlvm.gen.text.sizes import Offsets
from dlvm.ir import Dim
from dlvm.ir.dims import maximum
from dlvm.target import Target

SPECIAL = "llvm.nvvm.read.ptx.sreg"
NOTHING: Mapping[LoopKernel, Promises] = {}
BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"


def ptx(
    kernels: Sequence[LoopKernel], target: Target, known: Mapping[LoopKernel, Promises] = NOTHING
) -> str:
    """One PTX module that holds the kernels; ``known`` is what their program shows of memory."""
    text = Text("nounwind")
    for kernel in kernels:
        verify(kernel)
        text.include(emit_gpu_kernel(kernel, target, known.get(kernel)))
    found = llvm.assembly(str(text), target)
    if ".extern .func" in found:
        raise CompilerError(f"PTX calls a function that is not there:\n{found}")
    return found


def emit_gpu_kernel(kernel: LoopKernel, target: Target, known: Promises | None = None) -> Text:
    """The entry ``NAME(b0, ..., sizes..., status)``, as pieces of an LLVM module."""
    if any(isinstance(s, Product) for s in statements(kernel.body)):
        raise CompilerError(f"@{kernel.name}: products have no GPU schedule")
    text = Text("nounwind")
    w = FunctionWriter(text)
    work = _GpuEmitter(w, kernel, target)
    work.whole()
    pointers = [f"ptr {_promised(b, known)} %{b.name}" for b in kernel.buffers]
    parameters = [*pointers, *(f"i64 %s.{s}" for s in kernel.symbols), "ptr %status"]
    header = f"ptx_kernel void @{kernel.name}({', '.join(parameters)})"
    threads = f'nounwind "nvvm.reqntid"="{block_size(kernel)}"'
    text.functions[kernel.name] = w.function(header, threads)
    return text


def _promised(buffer: Buffer, known: Promises | None) -> str:
    """What LLVM may take for granted of the memory of a buffer."""
    if known is None:
        return f"align {buffer.dtype.bytes}"
    alone = "noalias " if buffer.name not in known.shared else ""
    return f"{alone}align {buffer.dtype.bytes if buffer.name in known.unaligned else ALIGNED}"


def block_size(kernel: LoopKernel) -> int:
    """Threads of a block: what the lane loops of the schedule ask for."""
    extents = [
        s.extent for s in statements(kernel.body) if isinstance(s, Loop) and s.kind == "lane"
    ]
    return max((e for e in extents if isinstance(e, int)), default=1)


def grid_size(kernel: LoopKernel) -> Dim:
    """Blocks to launch so that each runs one turn; fewer will do, as they stride."""
    blocks: Dim = 1
    for s in kernel.body:
        if isinstance(s, Loop) and s.kind == "block":
            blocks = maximum(blocks, s.extent)
    return blocks


class _GpuEmitter(Emitter):
    """The statements that a GPU reads in its own way."""

    def __init__(self, w: FunctionWriter, kernel: LoopKernel, target: Target) -> None:
        super().__init__(w, kernel, target)
        self.access: Access = _GpuAccess(w, self.offsets, kernel.name)

    def statement(self, s: Statement) -> None:
        if isinstance(s, Barrier):
            self.w.call("void", BARRIER, ("i32", "0"))
        else:
            super().statement(s)

    def loop(self, s: Loop) -> None:
        extent = self.offsets.first(self.offsets.known(s.extent))
        if s.kind == "block":
            self.blocks(s, extent)
        elif s.kind == "lane":
            self.threads(s, extent)
        else:
            self.counted(s, "0", extent, 1, None)

    def special(self, register: str) -> str:
        """A special register, as an i64."""
        found = self.w.call("i32", f"{SPECIAL}.{register}")
        return self.w.value(f"zext i32 {found} to i64")

    def blocks(self, s: Loop, extent: str) -> None:
        """From the index of the block, in steps of the grid."""
        first, step = self.special("ctaid.x"), self.special("nctaid.x")
        turns = self.w.value(f"sub i64 {extent}, {first}")
        rounded = self.w.value(f"add i64 {turns}, {self.w.value(f'sub i64 {step}, 1')}")
        count = self.w.value(f"sdiv i64 {rounded}, {step}")
        with self.w.loop("0", count) as turn, self.offsets.scope(turn.head) as scope:
            scaled = self.w.value(f"mul i64 {turn.index}, {step}", turn.head)
            scope.names[s.var] = self.w.value(f"add i64 {first}, {scaled}", turn.head)
            self.body(s.body)

    def threads(self, s: Loop, extent: str) -> None:
        """One thread for each lane; threads beyond the loop sit it out."""
        lane = self.special("tid.x")
        with self.offsets.scope() as scope:
            scope.names[s.var] = lane
            if s.extent == block_size(self.kernel):
                self.body(s.body)
                return
            if any(isinstance(inner, Barrier) for inner in statements(s.body)):
                raise CompilerError(f"@{self.kernel.name}: a barrier that not all threads reach")
            with self.w.when(self.w.value(f"icmp slt i64 {lane}, {extent}")):
                self.body(s.body)


class _GpuAccess(Access):
    """Memory of one thread at a time; guarded access branches instead of reading a zero."""

    def __init__(self, w: FunctionWriter, offsets: Offsets, kernel: str) -> None:
        super().__init__(w, offsets, 0)  # a thread has no vectors
        self.kernel = kernel

    def declare(self, local: Local) -> None:
        """Shared arrays are globals of their address space."""
        if not local.shared:
            super().declare(local)
            return
        name, element = f"{self.kernel}.{local.name}", stored_type(local.dtype)
        self.w.text.globals[name] = (
            f"@{name} = internal addrspace(3) global [{local.size} x {element}] undef, align 16"
        )
        pointer = f"addrspacecast (ptr addrspace(3) @{name} to ptr)"
        self.places[local.name] = Address(pointer, local.dtype)

    def load(self, s: Load) -> Val:
        """The element, or zero outside ``where``."""
        place, offset = self.places[s.memory.name], self.offsets.known(s.offset)

        def plain() -> str:
            address = self._address(place, offset)
            return self.w.value(f"load {place.element}, ptr {address}, align {place.dtype.bytes}")

        condition = self.offsets.holds(s.where)
        if condition is None:
            return self._loaded(plain(), place, 1)
        zero = "0" if place.dtype.kind == "b" else number(0, place.dtype)
        return self._loaded(self.w.maybe(condition, place.element, zero, plain), place, 1)

    def store(self, s: Store, x: Val) -> None:
        """The element, where ``where`` holds."""
        place, offset = self.places[s.memory.name], self.offsets.known(s.offset)
        self._store_one(place, offset, s, x)
