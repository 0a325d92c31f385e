"""A kernel in a language that a driver compiles, from the same loops and words as PTX.

``block`` loops become groups and ``lane`` loops their items, as for PTX. Lanes have neither vectors
nor registers of one another: neighbouring elements follow one another, and what a warp would
exchange lies in shared arrays, with the barriers that the loops state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dlvm.base.errors import CompilerError, Origin, UserError
from dlvm.gen.loops.statements import (
    Barrier,
    Local,
    Loop,
    LoopKernel,
    Multiply,
    Product,
    Sort,
    Statement,
    Store,
    accesses,
    statements,
)
from dlvm.gen.printed.dialect import Dialect, spelt
from dlvm.gen.printed.expressions import Missing
from dlvm.gen.printed.languages import DIALECTS
from dlvm.gen.printed.module import PrintedText
from dlvm.gen.printed.wgsl_joined import LEAST, joined
from dlvm.gen.printed.writer import Pointer, PrintedWriter
from dlvm.gen.program.promises import Promises
from dlvm.gen.text.lanes import stored_type
from dlvm.ir import Module
from dlvm.target import Target

from .lane_sorts import sort
from .mapping import block_size
from .nvptx import GpuEmitter

FIRST = 2
"""The number of the first buffer of a kernel, after those of the status and of sizes."""


def module_of(target: Target) -> PrintedText:
    """An empty module in the language of a target."""
    return PrintedText(DIALECTS[target.dialect])


def print_kernel(
    kernel: LoopKernel, target: Target, known: Promises | None = None, join: bool = False
) -> PrintedText:
    """The kernel ``NAME``, whose buffers, sizes and status are given in this order.

    With ``join``, more buffers than every device of WebGPU gives a kernel are parts of one.
    """
    if any(isinstance(s, Product | Multiply) for s in statements(kernel.body)):
        raise CompilerError(f"@{kernel.name}: a product that no lanes compute")
    text = module_of(target)
    if join and is_joined(kernel):
        written = stored(kernel)
        types = {stored_type(b.dtype) for b in kernel.buffers if b.name in written}
        text = PrintedText(joined(types))
    w = PrintedWriter(text)
    try:
        text.functions[kernel.name] = _whole(w, kernel, target, known)
    except Missing as error:
        remedy = "leave the target out, and the function runs on the CPU"
        raise _refused(str(error), kernel.origin, remedy) from None
    return text


def is_joined(kernel: LoopKernel) -> bool:
    """Whether all buffers of a kernel of a page are parts of one."""
    return len(kernel.buffers) >= LEAST


def _whole(w: PrintedWriter, kernel: LoopKernel, target: Target, known: Promises | None) -> str:
    """The kernel with its head, and what is declared before it."""
    d, name, given = w.dialect, spelt(kernel.name), _given(w, kernel)
    for buffer in given:
        w.pointers[f"%{buffer.name}"] = buffer.pointer
    _PrintedEmitter(w, kernel, target, known).whole()
    symbols, arrays = [spelt(f"s.{s}") for s in kernel.symbols], w.text.arrays
    parameters = [d.buffer.format(name=spelt(b.name)) for b in given]
    parameters[-1:-1] = [d.size.format(name=s) for s in symbols]
    told = {"name": name, "lanes": block_size(kernel), "parameters": ", ".join(parameters)}
    outside = [*dict.fromkeys(line for b in given if (line := b.declared))]
    outside += arrays if d.outside else []
    inside = [b.place for b in given] + [d.extent.format(kernel=name, name=s) for s in symbols]
    inside = [line for line in inside if line] + ([] if d.outside else arrays)
    first = "\n".join(f"  {line}" for line in inside)
    text = "\n".join([*outside, d.kernel.format(**told), first, w.body(), "}"])
    return d.whole.format(name=name, text=text)


@dataclass(frozen=True)
class _Given:
    """A buffer of a kernel, as its text declares it."""

    name: str
    pointer: Pointer
    declared: str
    place: str


def _given(w: PrintedWriter, kernel: LoopKernel) -> list[_Given]:
    """The buffers of a kernel, and the status last."""
    written = stored(kernel)
    typed = [
        (b.name, stored_type(b.dtype), "written" if b.name in written else "read")
        for b in kernel.buffers
    ]
    return [
        _buffer(w, spelt(kernel.name), i, *each)
        for i, each in enumerate([*typed, ("status", "i64", "status")])
    ]


def stored(kernel: LoopKernel) -> set[str]:
    """The names of the memories to which a kernel writes."""
    sorts = (s for s in statements(kernel.body) if isinstance(s, Sort))
    found = {x.memory.name for x in accesses(kernel.body) if isinstance(x, Store)}
    return found | {b.name for s in sorts for b in s.touched}


def _buffer(w: PrintedWriter, kernel: str, i: int, name: str, type_: str, where: str) -> _Given:
    d, told = w.dialect, {"kernel": kernel, "name": spelt(name), "n": i + FIRST, "i": i + 1}
    told["T"] = d.held.get(f"{type_}.{where}") or w.say.type(type_)
    array = "status" if where == "status" else d.called.format(**told)
    pointer = Pointer(array, d.first.format(**told), where)
    declared = "" if where == "status" else d.outside.format(**told)
    return _Given(name, pointer, declared, d.place.format(**told))


class _PrintedEmitter(GpuEmitter):
    """Blocks that use their shared arrays again wait for one another's lanes; no vectors."""

    def claim(self, code: int) -> str:
        return self.w.call("i1", "dlvm.claim", ("i64", str(code)))

    def statement(self, s: Statement) -> None:
        if isinstance(s, Sort):
            sort(self, s)
        else:
            super().statement(s)

    def loop(self, s: Loop) -> None:
        if s.kind == "vector":
            extent = self.offsets.first(self.offsets.known(s.extent))
            self.counted(s, "0", extent, 1, None)
        elif s.kind == "block" and _shares(s):
            super().loop(replace(s, body=(*s.body, Barrier())))
        else:
            super().loop(s)


def _shares(s: Loop) -> bool:
    return any(isinstance(t, Local) and t.shared for t in statements(s.body))


def refuse_absent(module: Module, target: Target) -> None:
    """An error for what the language of a target has not, with the operation and its line."""
    dialect = DIALECTS[target.dialect]
    for op in (op for fn in module.functions for op in fn.walk()):
        for type_ in op.result_types:
            reason = dialect.absent.get(type_.dtype.name)
            if reason is not None and type_.shape:
                raise _refused(f"{op.name} of {type_}: {reason}", op.origin, _other(dialect))


def _refused(message: str, origin: Origin | None, remedy: str) -> UserError:
    """An error that no stage takes for a fault of its own."""
    error = UserError(message, origin=origin, remedy=remedy)
    error.refused = True
    return error


def _other(dialect: Dialect) -> str:
    return f"compute in {dialect.instead}, or leave the target out"
