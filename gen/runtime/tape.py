"""The tape in machine code: a stack of chunks that grows while a call runs.

A tape is a handle: the address of its top cell, 0 when empty; a cell holds the handle below it,
then the values. Cells are taken from the end of the last chunk, so a push moves a pointer; a new
chunk is twice as large as the one before. Popping what was pushed last gives its room back, and
a chunk that became empty is kept for the next push. The call frees all chunks when it ends. What
is popped off an empty tape is a cell of zeros, made for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlvm.gen.loops.status import OUT_OF_MEMORY
from dlvm.gen.program.steps import View
from dlvm.gen.text.module import Text
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv

from .call_words import CURRENT, FIRST, HELD
from .memory import given_back, include_memory, taken

FIRST_CHUNK = 1 << 16
FIRST_CHUNKS = {"linux": FIRST_CHUNK, "none": 1 << 10}
"""How large the first chunk is; a region may be small."""
HEAD = 16


def cell(xs: Sequence[View]) -> tuple[list[Dim], Dim]:
    """Where the values lie in a cell, and how large it is, in bytes."""
    offsets: list[Dim] = []
    end: Dim = HEAD
    for x in xs:
        offsets.append(end)
        end = end + floordiv(x.type.size * x.type.dtype.bytes + (HEAD - 1), HEAD) * HEAD
    return offsets, end


def _functions(text: Text) -> str:
    return f"""
define internal ptr @tape_push(ptr %context, i64 %bytes, ptr %status) #0 {{
entry:
  %current = getelementptr i64, ptr %context, i64 {CURRENT}
  %chunk = load ptr, ptr %current
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %grow, label %look
look:
  %end.at = getelementptr i64, ptr %chunk, i64 2
  %end = load i64, ptr %end.at
  %top.at = getelementptr i64, ptr %chunk, i64 3
  %top = load i64, ptr %top.at
  %after = add i64 %top, %bytes
  %fits = icmp ule i64 %after, %end
  br i1 %fits, label %take, label %next
take:
  store i64 %after, ptr %top.at
  %cell = inttoptr i64 %top to ptr
  ret ptr %cell
next:
  %spare.at = getelementptr i64, ptr %chunk, i64 1
  %spare = load ptr, ptr %spare.at
  %start = ptrtoint ptr %chunk to i64
  %size = sub i64 %end, %start
  %double = shl i64 %size, 1
  %alone = icmp eq ptr %spare, null
  br i1 %alone, label %grow, label %reuse
reuse:
  %spare.int = ptrtoint ptr %spare to i64
  %spare.start = add i64 %spare.int, 64
  %spare.after = add i64 %spare.start, %bytes
  %spare.end.at = getelementptr i64, ptr %spare, i64 2
  %spare.end = load i64, ptr %spare.end.at
  %spare.fits = icmp ule i64 %spare.after, %spare.end
  br i1 %spare.fits, label %again, label %grow
again:
  %spare.top.at = getelementptr i64, ptr %spare, i64 3
  store i64 %spare.after, ptr %spare.top.at
  store ptr %spare, ptr %current
  %spare.cell = inttoptr i64 %spare.start to ptr
  ret ptr %spare.cell
grow:
  %before = phi ptr [ null, %entry ], [ %chunk, %next ], [ %chunk, %reuse ]
  %behind = phi ptr [ null, %entry ], [ null, %next ], [ %spare, %reuse ]
  %wanted = phi i64 [ {FIRST_CHUNKS[text.os]}, %entry ], [ %double, %next ], [ %double, %reuse ]
  %least = add i64 %bytes, 64
  %small = icmp ult i64 %wanted, %least
  %whole = select i1 %small, i64 %least, i64 %wanted
  {taken(text, "%new", "%whole")}
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %fail, label %link
fail:
  store i64 {OUT_OF_MEMORY}, ptr %status
  ret ptr null
link:
  store ptr %before, ptr %new
  %new.next = getelementptr i64, ptr %new, i64 1
  store ptr %behind, ptr %new.next
  %new.int = ptrtoint ptr %new to i64
  %new.end = add i64 %new.int, %whole
  %new.end.at = getelementptr i64, ptr %new, i64 2
  store i64 %new.end, ptr %new.end.at
  %new.start = add i64 %new.int, 64
  %new.top = add i64 %new.start, %bytes
  %new.top.at = getelementptr i64, ptr %new, i64 3
  store i64 %new.top, ptr %new.top.at
  store ptr %new, ptr %current
  %first.at = getelementptr i64, ptr %context, i64 {FIRST}
  %before.next = getelementptr i64, ptr %before, i64 1
  %opening = icmp eq ptr %before, null
  %link.at = select i1 %opening, ptr %first.at, ptr %before.next
  store ptr %new, ptr %link.at
  %held.at = getelementptr i64, ptr %context, i64 {HELD}
  %held = load i64, ptr %held.at
  %held.now = add i64 %held, %whole
  store i64 %held.now, ptr %held.at
  %last = icmp eq ptr %behind, null
  br i1 %last, label %done, label %back
back:
  store ptr %new, ptr %behind
  br label %done
done:
  %new.cell = inttoptr i64 %new.start to ptr
  ret ptr %new.cell
}}

define internal ptr @tape_top(ptr %context, ptr %cell, i64 %bytes, ptr %status) #0 {{
entry:
  %empty = icmp eq ptr %cell, null
  br i1 %empty, label %make, label %give
give:
  ret ptr %cell
make:
  %zeros = call ptr @tape_push(ptr %context, i64 %bytes, ptr %status)
  %failed = icmp eq ptr %zeros, null
  br i1 %failed, label %fail, label %clear
fail:
  ret ptr null
clear:
  call void @llvm.memset.p0.i64(ptr %zeros, i8 0, i64 %bytes, i1 false)
  ret ptr %zeros
}}

define internal void @tape_pop(ptr %context, ptr %cell, i64 %bytes) #0 {{
entry:
  %current = getelementptr i64, ptr %context, i64 {CURRENT}
  %chunk = load ptr, ptr %current
  %top.at = getelementptr i64, ptr %chunk, i64 3
  %top = load i64, ptr %top.at
  %start = ptrtoint ptr %cell to i64
  %end = add i64 %start, %bytes
  %on.top = icmp eq i64 %end, %top
  br i1 %on.top, label %give, label %done
give:
  store i64 %start, ptr %top.at
  %chunk.int = ptrtoint ptr %chunk to i64
  %bottom = add i64 %chunk.int, 64
  %empty = icmp eq i64 %bottom, %start
  %before = load ptr, ptr %chunk
  %lowest = icmp eq ptr %before, null
  %not.lowest = xor i1 %lowest, true
  %step.back = and i1 %empty, %not.lowest
  br i1 %step.back, label %back, label %done
back:
  store ptr %before, ptr %current
  br label %done
done:
  ret void
}}

define internal void @tape_free(ptr %context) #0 {{
entry:
  %first.at = getelementptr i64, ptr %context, i64 {FIRST}
  %first = load ptr, ptr %first.at
  br label %test
test:
  %chunk = phi ptr [ %first, %entry ], [ %following, %body ]
  %over = icmp eq ptr %chunk, null
  br i1 %over, label %done, label %body
body:
  %next.at = getelementptr i64, ptr %chunk, i64 1
  %following = load ptr, ptr %next.at
  {given_back(text, "%chunk")}
  br label %test
done:
  ret void
}}"""


MEMSET = "llvm.memset.p0.i64"


def include_tape(text: Text) -> None:
    """Put the functions of tapes into a module."""
    include_memory(text)
    text.functions["tape"] = _functions(text)
    text.declarations[MEMSET] = f"declare void @{MEMSET}(ptr, i8, i64, i1)"
