"""A kernel in a language that a driver compiles, from the same loops and words as PTX.

``block`` loops become groups and ``lane`` loops their items, as for PTX. Lanes have neither vectors
nor registers of one another: neighbouring elements follow one another, and what a warp would
exchange lies in shared arrays, with the barriers that the loops state.
"""

from __future__ import annotations

from dataclasses import replace

from dlvm.base.errors import CompilerError, Origin, UserError
from dlvm.gen.loops.statements import (
    Barrier,
    Local,
    Loop,
    LoopKernel,
    Multiply,
    Product,
    Sort,
    statements,
)
from dlvm.gen.printed.dialect import Dialect, spelt
from dlvm.gen.printed.module import PrintedText
from dlvm.gen.printed.opencl import DIALECTS
from dlvm.gen.printed.writer import PrintedWriter
from dlvm.gen.program.promises import Promises
from dlvm.gen.program.steps import Program
from dlvm.gen.text.lanes import stored_type
from dlvm.ir import Module
from dlvm.target import Target

from .mapping import block_size
from .nvptx import GpuEmitter


def module_of(target: Target) -> PrintedText:
    """An empty module in the language of a target."""
    return PrintedText(DIALECTS[target.dialect])


def print_kernel(kernel: LoopKernel, target: Target, known: Promises | None = None) -> PrintedText:
    """The kernel ``NAME``, whose buffers, sizes and status are given in this order."""
    if any(isinstance(s, Product | Multiply) for s in statements(kernel.body)):
        raise CompilerError(f"@{kernel.name}: a product that no lanes compute")
    text = module_of(target)
    w, d = PrintedWriter(text), text.dialect
    _PrintedEmitter(w, kernel, target, known).whole()
    typed = [(stored_type(b.dtype), b.name) for b in kernel.buffers] + [("i64", "status")]
    given = [d.buffer.format(name=spelt(name)) for _, name in typed]
    sizes = [d.size.format(name=spelt(f"s.{s}")) for s in kernel.symbols]
    parameters = ", ".join([*given[:-1], *sizes, given[-1]])
    name, lanes = spelt(kernel.name), block_size(kernel)
    head = d.kernel.format(name=name, lanes=lanes, parameters=parameters)
    places = [d.place.format(T=w.say.type(t), name=spelt(x)) for t, x in typed]
    first = "\n".join(f"  {line}" for line in (*places, *text.arrays))
    text.functions[kernel.name] = f"{head}\n{first}\n{w.body()}\n}}"
    return text


class _PrintedEmitter(GpuEmitter):
    """Blocks that use their shared arrays again wait for one another's lanes; no vectors."""

    def claim(self, code: int) -> str:
        return self.w.call("i1", "dlvm.claim", ("i64", str(code)))

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


def refuse_absent(module: Module, program: Program, target: Target) -> None:
    """An error for what the language of a target has not, with the operation and its line."""
    dialect = DIALECTS[target.dialect]
    for op in (op for fn in module.functions for op in fn.walk()):
        for type_ in op.result_types:
            reason = dialect.absent.get(type_.dtype.name)
            if reason is not None:
                raise _refused(f"{op.name} of {type_}: {reason}", op.origin, _other(dialect))
    for kernel in program.kernels():
        if any(isinstance(s, Sort) for s in statements(kernel.body)):
            remedy = "leave the target out, and the function runs on the CPU"
            message = f"rows that one lane sorts are not printed in {dialect.language} yet"
            raise _refused(message, kernel.origin, remedy)


def _refused(message: str, origin: Origin | None, remedy: str) -> UserError:
    """An error that no stage takes for a fault of its own."""
    error = UserError(message, origin=origin, remedy=remedy)
    error.refused = True
    return error


def _other(dialect: Dialect) -> str:
    return f"compute in {dialect.instead}, or leave the target out"
