"""The LLVM code around the threads of a block: how each starts, waits and ends; their rounds."""

from __future__ import annotations

from .memory import CONTEXT, DONE, STATE

COROUTINE = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.end(ptr, i1, token)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
"""
BEGIN = """
emu.start:
"""
START = """
  %emu.id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)
  %emu.size = call i64 @llvm.coro.size.i64()
  %emu.memory = call ptr @malloc(i64 %emu.size)
  %emu.handle = call ptr @llvm.coro.begin(token %emu.id, ptr %emu.memory)
  %emu.s0 = call i8 @llvm.coro.suspend(token none, i1 false)
  switch i8 %emu.s0, label %emu.return [ i8 0, label %entry i8 1, label %emu.cleanup ]
"""
END = f"""
emu.final:
  %emu.done = getelementptr i64, ptr %emu.c, i64 {STATE}
  store i64 {DONE}, ptr %emu.done
  %emu.sf = call i8 @llvm.coro.suspend(token none, i1 true)
  switch i8 %emu.sf, label %emu.return [ i8 0, label %emu.trap i8 1, label %emu.cleanup ]
emu.trap:
  unreachable
emu.cleanup:
  %emu.frame = call ptr @llvm.coro.free(token %emu.id, ptr %emu.handle)
  call void @free(ptr %emu.frame)
  br label %emu.return
emu.return:
  call void @llvm.coro.end(ptr %emu.handle, i1 false, token none)
  ret ptr %emu.handle
}}
"""
DRIVER = f"""
define void @emu.round(ptr %contexts, ptr %handles, ptr %order, i64 %n) {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %op = getelementptr i64, ptr %order, i64 %i
  %l = load i64, ptr %op
  %words = mul i64 %l, {CONTEXT}
  %c = getelementptr i64, ptr %contexts, i64 %words
  %state = load i64, ptr %c
  %ready = icmp eq i64 %state, 0
  br i1 %ready, label %run, label %following
run:
  %hp = getelementptr ptr, ptr %handles, i64 %l
  %h = load ptr, ptr %hp
  call void @llvm.coro.resume(ptr %h)
  br label %following
following:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %end
end:
  ret void
}}
define void @emu.end(ptr %handles, i64 %n) {{
entry:
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %lane ]
  %hp = getelementptr ptr, ptr %handles, i64 %i
  %h = load ptr, ptr %hp
  call void @llvm.coro.destroy(ptr %h)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %end
end:
  ret void
}}
"""


def make(parameters: int) -> str:
    """The function that makes the threads of a block, from arguments that lie in an array."""
    loads = "\n".join(
        f"  %p{i} = getelementptr i64, ptr %arguments, i64 {i}\n  %v{i} = load i64, ptr %p{i}"
        for i in range(parameters)
    )
    taken = ", ".join((*(f"i64 %v{i}" for i in range(parameters)), "ptr %c"))
    return f"""
define void @emu.make(ptr %arguments, ptr %contexts, ptr %handles, i64 %n) {{
entry:
{loads}
  br label %lane
lane:
  %i = phi i64 [ 0, %entry ], [ %next, %lane ]
  %words = mul i64 %i, {CONTEXT}
  %c = getelementptr i64, ptr %contexts, i64 %words
  %h = call ptr @emu.thread({taken})
  %hp = getelementptr ptr, ptr %handles, i64 %i
  store ptr %h, ptr %hp
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %lane, label %end
end:
  ret void
}}
"""
