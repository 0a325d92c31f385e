"""Kernels from IR text, run by the interpreter of the IR, that of loops, and as machine code."""

import ctypes
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import dlvm.ops  # noqa: F401  registers the operations
from dlvm.cost import THREAD
from dlvm.gen.cpu.kernels import emit_kernel
from dlvm.gen.gpu.nvptx import emit_gpu_kernel
from dlvm.gen.llvm.binding import Library, assembly, object_code
from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.status import WORDS
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.runtime import call_words, pool
from dlvm.gen.schedule.blocks import blocks, is_proven
from dlvm.gen.schedule.planner import ALL, planned
from dlvm.gen.text.module import Text
from dlvm.ir import parse
from dlvm.ir.interpret import bind
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import kernel_of
from dlvm.target import Target


def ptx_of(kernels, processor="sm_80"):
    """One PTX module that holds the kernels, which are verified where that is possible."""
    target, text = Target.cuda(processor), Text("nounwind")
    for each in kernels:
        if is_proven(each):
            verified(each)
        text.include(emit_gpu_kernel(each, target))
    return assembly(str(text), target)


def kernel(text, family="loops", tree=(4096, 32)):
    """The kernel whose body is the one function of this text, and its module."""
    module = parse("dlvm 1\n" + text)
    fn = module.functions[0]
    return kernel_of(fn.params, fn, family, tree), module


verified = cache(verify)
"""Raises for loops that break a rule; looks at the same loops once."""


USUAL = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 256, 16, 2)
"""What grains are computed for, so that loops have one text wherever tests run."""


HOST = Target.host()
WITHOUT_FMA = (
    Target(HOST.triple, "x86-64-v2", "", 128, 16, 2, fma=False)
    if HOST.triple.startswith("x86_64")
    else replace(HOST, fma=False)
)
"""A processor whose code the host runs, and that rounds twice where it multiplies and adds."""
TARGETS = {"fma": HOST, "no fma": WITHOUT_FMA}


@dataclass(frozen=True)
class How:
    """How loops are laid out: for a CPU with vectors of a width, or in the blocks of a GPU."""

    width: int = 0
    work: int = THREAD
    block: int = 0


def cpu(width=0, work=THREAD):
    """Vectors of a width (0: the target's), and threads where there is so much work."""
    return How(width, work)


def gpu(block):
    """Blocks of so many lanes."""
    return How(block=block)


@cache
def loops(op, schedule=None, name="k"):
    """The loops of a kernel, which the verifier has passed."""
    schedule = schedule or How()
    plain = lower(op, name, () if schedule.block else ALL)
    verified(plain)
    if schedule.block:
        scheduled = blocks(plain, schedule.block)
    else:
        scheduled = planned(plain, USUAL, schedule.work, schedule.width)
    if is_proven(scheduled):
        verified(scheduled)
    return scheduled


def arguments(lowered, op, arrays):
    """Copies of the operands, then blank results; and the symbols."""
    types = [p.type for p in op.body.params]
    found = bind(types, arrays, [p.name for p in op.body.params])
    buffers = [np.array(a, order="C") for a in arrays]
    for b in lowered.buffers[len(buffers) :]:
        shape = tuple(evaluate(d, found) for d in b.type.shape)
        blank = np.full(int(np.prod(shape, dtype=int)) * b.dtype.bytes, 0xA5, np.uint8)
        buffers.append(blank.view(b.dtype.numpy).reshape(shape))
    return buffers, found


def written(lowered, buffers):
    """Results: what was updated in place and what was made, as the buffers stand."""
    return [a for b, a in zip(lowered.buffers, buffers, strict=True) if b.role in ("out", "inout")]


def interpret(op, arrays, schedule=None):
    """Results by the loop interpreter, the status, and what was counted."""
    lowered = loops(op, schedule)
    buffers, found = arguments(lowered, op, arrays)
    status, counts = np.zeros(WORDS, np.int64), Counts()
    run_kernel(lowered, buffers, found, status, counts)
    return written(lowered, buffers), status, counts


class Compiled:
    """A kernel as machine code, with an entry that takes all arguments in one array."""

    def __init__(self, op, schedule=None, target=None):
        self.op, self.target = op, target or Target.host()
        self.lowered = loops(op, schedule)
        text = Text.of(self.target)
        text.include(emit_kernel(self.lowered, self.target))
        text.functions["entry"] = _entry(self.lowered)
        self.text = str(text)
        self.library = Library(object_code(self.text, self.target), self.target, *text.others())
        self.entry = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2)(self.library.address("entry"))

    def __call__(self, *arrays, threads=1):
        """Results and the status."""
        buffers, found = arguments(self.lowered, self.op, arrays)
        status = np.zeros(WORDS, np.int64)
        words = [b.ctypes.data for b in buffers]
        words += [found[s] for s in self.lowered.symbols] + [status.ctypes.data]
        packed = np.array(words, np.int64)
        context = np.array([pool.address(threads), threads] + [0] * (call_words.WORDS - 2))
        self.entry(packed.ctypes.data, context.ctypes.data)
        return written(self.lowered, buffers), status


def _entry(lowered):
    types = ["ptr"] * len(lowered.buffers) + ["i64"] * len(lowered.symbols) + ["ptr"]
    lines, values = [], []
    for i, t in enumerate(types):
        lines.append(f"  %p{i} = getelementptr i64, ptr %a, i64 {i}")
        lines.append(f"  %v{i} = load {t}, ptr %p{i}")
        values.append(f"{t} %v{i}")
    values.append("ptr %context")
    call = f"  call void @{lowered.name}({', '.join(values)})"
    return "\n".join(
        ["define void @entry(ptr %a, ptr %context) #0 {", *lines, call, "  ret void", "}"]
    )
