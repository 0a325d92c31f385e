"""Copies from global to shared memory that land when the thread waits for them, and not before.

``cp.async`` only notes a copy in the record of its thread. ``commit`` closes a group, and a wait
for all groups but the latest n performs their copies. A kernel that reads too early finds what
was there before, which the stamps tell.
"""

from __future__ import annotations

from .memory import CONTEXT, TOO_MANY, WRITE, word

COUNT, GROUPS, QUEUE = 40, 41, 44
"""Words of a thread's record: copies asked for, groups closed, and the copies from ``QUEUE`` on."""
ENTRY = 5
"""Words of a copy: its group (-1 once it has landed), target, source, bytes and instruction."""
MOST = (CONTEXT - QUEUE) // ENTRY
"""Copies of a thread that may be under way at once."""


def _entry(at: int, name: str, type_: str = "i64") -> str:
    return word("%e", at, name, type_)


ASYNCHRONOUS = f"""
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal void @emu.ask(ptr %c, i64 %target, ptr %source, i64 %size, i64 %line) {{
{word("%c", COUNT, "count")}
{word("%c", GROUPS, "groups")}
  %room = icmp ult i64 %count, {MOST}
  br i1 %room, label %note, label %full
full:
  call void @emu.fault(ptr %c, i64 {TOO_MANY}, i64 0, i64 0, i64 0, i64 %line)
  ret void
note:
  %words = mul i64 %count, {ENTRY}
  %first = add i64 %words, {QUEUE}
  %e = getelementptr i64, ptr %c, i64 %first
  store i64 %groups, ptr %e
  %e1 = getelementptr i64, ptr %e, i64 1
  store i64 %target, ptr %e1
  %e2 = getelementptr i64, ptr %e, i64 2
  store ptr %source, ptr %e2
  %e3 = getelementptr i64, ptr %e, i64 3
  store i64 %size, ptr %e3
  %e4 = getelementptr i64, ptr %e, i64 4
  store i64 %line, ptr %e4
  %more = add i64 %count, 1
  store i64 %more, ptr %count.p
  ret void
}}
define internal void @emu.commit(ptr %c) {{
{word("%c", GROUPS, "groups")}
  %more = add i64 %groups, 1
  store i64 %more, ptr %groups.p
  ret void
}}
define internal void @emu.wait(ptr %c, i64 %pending) {{
entry:
{word("%c", COUNT, "count")}
{word("%c", GROUPS, "groups")}
  %before = sub i64 %groups, %pending
  br label %test
test:
  %i = phi i64 [ 0, %entry ], [ %next, %following ]
  %left = phi i64 [ 0, %entry ], [ %still, %following ]
  %some = icmp ult i64 %i, %count
  br i1 %some, label %look, label %end
look:
  %words = mul i64 %i, {ENTRY}
  %first = add i64 %words, {QUEUE}
  %e = getelementptr i64, ptr %c, i64 %first
{_entry(0, "group")}
  %open = icmp sge i64 %group, 0
  %due = icmp slt i64 %group, %before
  %now = and i1 %open, %due
  br i1 %now, label %land, label %following
land:
{_entry(1, "target")}
{_entry(2, "source", "ptr")}
{_entry(3, "size")}
{_entry(4, "line")}
  %p = call ptr @emu.shared(ptr %c, i64 %target, i64 %size, i64 {WRITE}, i64 %line)
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %source, i64 %size, i1 false)
  store i64 -1, ptr %group.p
  br label %following
following:
  %open2 = phi i1 [ %open, %look ], [ false, %land ]
  %one = zext i1 %open2 to i64
  %still = add i64 %left, %one
  %next = add i64 %i, 1
  br label %test
end:
  %none = icmp eq i64 %left, 0
  br i1 %none, label %clear, label %done
clear:
  store i64 0, ptr %count.p
  br label %done
done:
  ret void
}}
"""
