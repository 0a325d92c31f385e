"""The floating-point mode of machine code: how it rounds, and what it does with denormal numbers.

Generated code rounds to nearest, keeps denormal numbers and masks exceptions, whatever mode the
caller's thread is in: a library that was built with fast arithmetic may have left it flushing
denormal numbers to zero, and another thread may not. The entry of a program sets our mode and puts
the caller's back, worker threads set ours when they start, and around each call into Python the
caller's mode stands again. A word of 0 stands for a mode that is ours already.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.gen.text.module import Text

from .call_words import MODE


@dataclass(frozen=True, slots=True)
class Register:
    """The control register of a processor: what reads and writes it, and what it holds in our mode.

    ``read`` gives ``%word``, and may use the word at ``%at``; ``write`` sets what ``%at`` holds,
    and ``set_ours`` our own mode. ``mask`` selects the bits that are a mode; the others are flags
    that operations raise. None of it needs the stack: local arrays make compiling take longer.
    """

    read: str
    write: str
    set_ours: str
    declarations: str
    mask: int
    ours: int


REGISTERS = {
    "x86_64": Register(
        """\
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %held = load i32, ptr %at
  %word = zext i32 %held to i64""",
        "  call void @llvm.x86.sse.ldmxcsr(ptr %at)",
        "  call void @llvm.x86.sse.ldmxcsr(ptr @mode_ours)",
        """\
@mode_ours = private constant i32 8064, align 4
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)""",
        mask=0xFFC0,
        ours=8064,
    ),
    "aarch64": Register(
        "  %word = call i64 @llvm.aarch64.get.fpcr()",
        """\
  %caller = load i64, ptr %at
  call void @llvm.aarch64.set.fpcr(i64 %caller)""",
        "  call void @llvm.aarch64.set.fpcr(i64 0)",
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
        mask=0x07F79F07,
        ours=0,
    ),
}
"""Processors whose mode a program can change. WebAssembly has none; see decision 0016."""

NOTHING = Register("  %word = add i64 0, 0", "", "", "", mask=0, ours=0)


def functions(triple: str) -> str:
    """``@mode_set(at)`` and ``@mode_restore(at)``, and the two around each call into Python.

    ``@mode_set`` sets our mode and writes the mode that it replaced to ``at``, or 0 if that was
    ours. ``@mode_restore`` puts back what ``at`` holds. Before Python runs, ``@mode_leave`` puts
    back the mode that a context notes as the caller's; after it, ``@mode_return`` sets ours again.
    """
    r = REGISTERS.get(triple.split("-")[0], NOTHING)
    return f"""
{r.declarations}
define internal void @mode_set(ptr %at) #0 {{
entry:
{r.read}
  %bits = and i64 %word, {r.mask}
  %same = icmp eq i64 %bits, {r.ours}
  br i1 %same, label %done, label %other
other:
  store i64 %word, ptr %at
{r.set_ours}
  ret void
done:
  store i64 0, ptr %at
  ret void
}}
define internal void @mode_restore(ptr %at) #0 {{
entry:
  %caller.mode = load i64, ptr %at
  %ours = icmp eq i64 %caller.mode, 0
  br i1 %ours, label %done, label %other
other:
{r.write}
  ret void
done:
  ret void
}}
define internal void @mode_leave(ptr %context) #0 {{
entry:
  %at = getelementptr i64, ptr %context, i64 {MODE}
  call void @mode_restore(ptr %at)
  ret void
}}
define internal void @mode_return(ptr %context) #0 {{
entry:
  %at = getelementptr i64, ptr %context, i64 {MODE}
  call void @mode_set(ptr %at)
  ret void
}}"""


def include_modes(text: Text) -> None:
    """Put the functions into a module."""
    text.functions["mode"] = functions(text.triple)
