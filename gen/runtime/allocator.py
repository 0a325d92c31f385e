"""Memory for results and arenas: blocks that are used again, in machine code.

Fresh memory of tens of megabytes costs more in page faults than what is computed in it, so a
block goes back to a pool when its array dies, or the call that borrowed it ends. A class holds
blocks of nearly one size, four classes for each power of two; ``KEEP`` bounds what waits in all
of them. Elements start at a multiple of 64 bytes, after a head that says where the block came
from. The lock of the Python interpreter guards the pool. The same functions, under the names
that NumPy gives them, are the memory handler of the arrays.
"""

from __future__ import annotations

KEEP = 512 << 20
"""Bytes that may wait; one more block than that, and all others are given back."""
CLASSES = 256
WORDS = CLASSES + 1
"""The pool: how many bytes wait, then the first block of each class."""

FUNCTIONS = f"""
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; the head, in front of the elements: next block, class, bytes, and what malloc gave
define internal ptr @head_of(ptr %data) #0 {{
  %head = getelementptr i8, ptr %data, i64 -64
  ret ptr %head
}}

define ptr @block_take(ptr %pool, i64 %asked) #0 {{
entry:
  %some = call i64 @llvm.umax.i64(i64 %asked, i64 64)
  %last = sub i64 %some, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %log = sub i64 63, %zeros
  %step = sub i64 %log, 2
  %quarter = lshr i64 %last, %step
  %next = add i64 %quarter, 1
  %bytes = shl i64 %next, %step
  %four = shl i64 %log, 2
  %base = add i64 %four, %quarter
  %class = sub i64 %base, 3
  %at = getelementptr i64, ptr %pool, i64 %class
  %first = load ptr, ptr %at
  %none = icmp eq ptr %first, null
  br i1 %none, label %make, label %reuse
reuse:
  %following = load ptr, ptr %first
  store ptr %following, ptr %at
  %waiting = load i64, ptr %pool
  %left = sub i64 %waiting, %bytes
  store i64 %left, ptr %pool
  %again = getelementptr i8, ptr %first, i64 64
  ret ptr %again
make:
  %room = add i64 %bytes, 128
  %fits = icmp ugt i64 %room, %asked
  br i1 %fits, label %ask, label %failed
ask:
  %raw = call ptr @malloc(i64 %room)
  %refused = icmp eq ptr %raw, null
  br i1 %refused, label %failed, label %fill
fill:
  %address = ptrtoint ptr %raw to i64
  %above = add i64 %address, 127
  %aligned = and i64 %above, -64
  %data = inttoptr i64 %aligned to ptr
  %head = call ptr @head_of(ptr %data)
  %class.at = getelementptr i64, ptr %head, i64 1
  store i64 %class, ptr %class.at
  %bytes.at = getelementptr i64, ptr %head, i64 2
  store i64 %bytes, ptr %bytes.at
  %raw.at = getelementptr i64, ptr %head, i64 3
  store ptr %raw, ptr %raw.at
  ret ptr %data
failed:
  ret ptr null
}}

define internal void @release(ptr %head) #0 {{
  %raw.at = getelementptr i64, ptr %head, i64 3
  %raw = load ptr, ptr %raw.at
  call void @free(ptr %raw)
  ret void
}}

define internal void @release_all(ptr %pool) #0 {{
entry:
  store i64 0, ptr %pool
  br label %each
each:
  %class = phi i64 [ 1, %entry ], [ %next, %done ]
  %at = getelementptr i64, ptr %pool, i64 %class
  br label %look
look:
  %head = load ptr, ptr %at
  %none = icmp eq ptr %head, null
  br i1 %none, label %done, label %drop
drop:
  %following = load ptr, ptr %head
  store ptr %following, ptr %at
  call void @release(ptr %head)
  br label %look
done:
  %next = add i64 %class, 1
  %more = icmp ult i64 %next, {WORDS}
  br i1 %more, label %each, label %end
end:
  ret void
}}

define void @block_give(ptr %pool, ptr %data) #0 {{
entry:
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %end, label %measure
measure:
  %head = call ptr @head_of(ptr %data)
  %class.at = getelementptr i64, ptr %head, i64 1
  %class = load i64, ptr %class.at
  %bytes.at = getelementptr i64, ptr %head, i64 2
  %bytes = load i64, ptr %bytes.at
  %huge = icmp ugt i64 %bytes, {KEEP}
  br i1 %huge, label %drop, label %count
drop:
  call void @release(ptr %head)
  ret void
count:
  %waiting = load i64, ptr %pool
  %more = add i64 %waiting, %bytes
  %full = icmp ugt i64 %more, {KEEP}
  br i1 %full, label %empty, label %keep
empty:
  call void @release_all(ptr %pool)
  br label %keep
keep:
  %now = load i64, ptr %pool
  %sum = add i64 %now, %bytes
  store i64 %sum, ptr %pool
  %at = getelementptr i64, ptr %pool, i64 %class
  %first = load ptr, ptr %at
  store ptr %first, ptr %head
  store ptr %head, ptr %at
  br label %end
end:
  ret void
}}

define ptr @numpy_malloc(ptr %pool, i64 %bytes) #0 {{
  %data = call ptr @block_take(ptr %pool, i64 %bytes)
  ret ptr %data
}}

define ptr @numpy_calloc(ptr %pool, i64 %count, i64 %each) #0 {{
entry:
  %bytes = mul i64 %count, %each
  %data = call ptr @block_take(ptr %pool, i64 %bytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %end, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %bytes, i1 false)
  br label %end
end:
  ret ptr %data
}}

define ptr @numpy_realloc(ptr %pool, ptr %old, i64 %bytes) #0 {{
entry:
  %data = call ptr @block_take(ptr %pool, i64 %bytes)
  %refused = icmp eq ptr %data, null
  %first = icmp eq ptr %old, null
  %done = or i1 %refused, %first
  br i1 %done, label %end, label %copy
copy:
  %head = call ptr @head_of(ptr %old)
  %bytes.at = getelementptr i64, ptr %head, i64 2
  %held = load i64, ptr %bytes.at
  %common = call i64 @llvm.umin.i64(i64 %held, i64 %bytes)
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %old, i64 %common, i1 false)
  call void @block_give(ptr %pool, ptr %old)
  br label %end
end:
  ret ptr %data
}}

define void @numpy_free(ptr %pool, ptr %data, i64 %bytes) #0 {{
  call void @block_give(ptr %pool, ptr %data)
  ret void
}}
"""
