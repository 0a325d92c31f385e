"""The functions, in LLVM's text, by which code asks whether memory is its own; see ``bounds``.

``find`` gives the word of the table at which a buffer begins, ``other`` knows the stack and
constants, ``holds`` decides and tells the first access that went outside; the rest ask for one
access, for the lanes of a vector, or for an address in each lane. ``add`` makes memory known that a
call takes later, and ``drop`` forgets what it gives back: ``forget`` empties the rows that meet a
stretch of memory, and gives an empty one. Nothing is locked, as checked calls use one thread.
"""

from __future__ import annotations

FUNCTIONS = """
define internal i64 @{table}.forget(i64 %x, i64 %end) noinline {{
  %count.at = getelementptr i64, ptr @{table}, i64 5
  %count = load i64, ptr %count.at
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %more, %on ]
  %free = phi i64 [ -1, %0 ], [ %free.now, %on ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %done, label %look
look:
  %twice = mul i64 %i, 2
  %word = add i64 %twice, {head}
  %begin.at = getelementptr i64, ptr @{table}, i64 %word
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %begin = load i64, ptr %begin.at
  %end.here = load i64, ptr %end.at
  %starts = icmp ult i64 %begin, %end
  %ends = icmp ugt i64 %end.here, %x
  %meets = and i1 %starts, %ends
  br i1 %meets, label %drop, label %kept
drop:
  store i64 -1, ptr %begin.at
  br label %kept
kept:
  %gone = icmp eq i64 %begin, -1
  %empty = or i1 %gone, %meets
  %free.now = select i1 %empty, i64 %word, i64 %free
  br label %on
on:
  %more = add i64 %i, 1
  br label %next
done:
  ret i64 %free
}}
define internal void @{table}.add(ptr %p, i64 %size) noinline {{
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %some
some:
  %x = ptrtoint ptr %p to i64
  %end = add i64 %x, %size
  %free = call i64 @{table}.forget(i64 %x, i64 %end)
  %count.at = getelementptr i64, ptr @{table}, i64 5
  %count = load i64, ptr %count.at
  %reuses = icmp sge i64 %free, 0
  %room = icmp slt i64 %count, {room}
  %fits = or i1 %reuses, %room
  br i1 %fits, label %write, label %done
write:
  %twice = mul i64 %count, 2
  %last = add i64 %twice, {head}
  %word = select i1 %reuses, i64 %free, i64 %last
  %begin.at = getelementptr i64, ptr @{table}, i64 %word
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  store i64 %end, ptr %end.at
  store i64 %x, ptr %begin.at
  %grows = select i1 %reuses, i64 0, i64 1
  %counted = add i64 %count, %grows
  store i64 %counted, ptr %count.at
  br label %done
done:
  ret void
}}
define internal void @{table}.drop(ptr %p) noinline {{
  %x = ptrtoint ptr %p to i64
  %end = add i64 %x, 1
  %free = call i64 @{table}.forget(i64 %x, i64 %end)
  ret void
}}
define internal i64 @{table}.find(ptr %p) noinline {{
  %x = ptrtoint ptr %p to i64
  %count.at = getelementptr i64, ptr @{table}, i64 5
  %count = load i64, ptr %count.at
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %more, %on ]
  %over = icmp sge i64 %i, %count
  br i1 %over, label %none, label %look
look:
  %twice = mul i64 %i, 2
  %word = add i64 %twice, {head}
  %begin.at = getelementptr i64, ptr @{table}, i64 %word
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
  %first = icmp eq i64 %x, %begin
  %above = icmp uge i64 %x, %begin
  %below = icmp ult i64 %x, %end
  %within = and i1 %above, %below
  %is = or i1 %first, %within
  br i1 %is, label %found, label %on
on:
  %more = add i64 %i, 1
  br label %next
found:
  ret i64 %word
none:
  ret i64 -1
}}
define internal i1 @{table}.other(ptr %p, i64 %size) noinline {{
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %x = ptrtoint ptr %p to i64
  %f = ptrtoint ptr %frame to i64
  %far = sub i64 %x, %f
  %up = add i64 %far, 65536
  %stack = icmp ult i64 %up, 8388608
  br i1 %stack, label %yes, label %next
next:
  %i = phi i64 [ 0, %0 ], [ %more, %on ]
  %over = icmp sge i64 %i, {constants}
  br i1 %over, label %no, label %look
look:
  %row = getelementptr {{ ptr, i64 }}, ptr @{table}.constants, i64 %i
  %base = load ptr, ptr %row
  %length.at = getelementptr {{ ptr, i64 }}, ptr %row, i64 0, i32 1
  %length = load i64, ptr %length.at
  %b = ptrtoint ptr %base to i64
  %in = sub i64 %x, %b
  %last = add i64 %in, %size
  %above = icmp uge i64 %x, %b
  %below = icmp ule i64 %last, %length
  %is = and i1 %above, %below
  br i1 %is, label %yes, label %on
on:
  %more = add i64 %i, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}}
define internal i1 @{table}.holds(ptr %root, ptr %p, i64 %size, i64 %site) noinline {{
  %none = icmp eq i64 %size, 0
  br i1 %none, label %good, label %some.bytes
some.bytes:
  %of.root = call i64 @{table}.find(ptr %root)
  %known = icmp sge i64 %of.root, 0
  br i1 %known, label %check, label %alone
alone:
  %of.p = call i64 @{table}.find(ptr %p)
  %some = icmp sge i64 %of.p, 0
  br i1 %some, label %check, label %elsewhere
elsewhere:
  %other = call i1 @{table}.other(ptr %p, i64 %size)
  br i1 %other, label %good, label %bad
check:
  %word = phi i64 [ %of.root, %some.bytes ], [ %of.p, %alone ]
  %begin.at = getelementptr i64, ptr @{table}, i64 %word
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %begin = load i64, ptr %begin.at
  %end = load i64, ptr %end.at
  %x = ptrtoint ptr %p to i64
  %last = add i64 %x, %size
  %above = icmp uge i64 %x, %begin
  %below = icmp ule i64 %last, %end
  %is = and i1 %above, %below
  br i1 %is, label %good, label %bad
bad:
  %before = load i64, ptr @{table}
  %new = icmp eq i64 %before, 0
  br i1 %new, label %tell, label %told
tell:
  store i64 1, ptr @{table}
  %at.site = getelementptr i64, ptr @{table}, i64 1
  store i64 %site, ptr %at.site
  %at.p = getelementptr i64, ptr @{table}, i64 2
  store ptr %p, ptr %at.p
  %at.size = getelementptr i64, ptr @{table}, i64 3
  store i64 %size, ptr %at.size
  %at.root = getelementptr i64, ptr @{table}, i64 4
  store ptr %root, ptr %at.root
  br label %told
told:
  ret i1 false
good:
  ret i1 true
}}
define internal ptr @{table}.one(ptr %root, ptr %p, i64 %size, i64 %site) noinline {{
  %is = call i1 @{table}.holds(ptr %root, ptr %p, i64 %size, i64 %site)
  %safe = select i1 %is, ptr %p, ptr @{table}.bin
  ret ptr %safe
}}
define internal void @{table}.lane(ptr %root, ptr %p, i64 %size, ptr %flag, i64 %site) noinline {{
  %old = load i8, ptr %flag
  %runs = icmp ne i8 %old, 0
  br i1 %runs, label %look, label %done
look:
  %is = call i1 @{table}.holds(ptr %root, ptr %p, i64 %size, i64 %site)
  %new = zext i1 %is to i8
  store i8 %new, ptr %flag
  br label %done
done:
  ret void
}}
define internal void @{table}.lanes(
  ptr %root, ptr %p, i64 %size, i64 %n, ptr %flags, i64 %site
) noinline {{
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %more, %next ]
  %far = mul i64 %i, %size
  %at = getelementptr i8, ptr %p, i64 %far
  %flag = getelementptr i8, ptr %flags, i64 %i
  call void @{table}.lane(ptr %root, ptr %at, i64 %size, ptr %flag, i64 %site)
  %more = add i64 %i, 1
  %on = icmp slt i64 %more, %n
  br i1 %on, label %next, label %done
done:
  ret void
}}
define internal void @{table}.each(
  ptr %root, ptr %ps, i64 %size, i64 %n, ptr %flags, i64 %site
) noinline {{
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %more, %next ]
  %from = getelementptr ptr, ptr %ps, i64 %i
  %at = load ptr, ptr %from
  %flag = getelementptr i8, ptr %flags, i64 %i
  call void @{table}.lane(ptr %root, ptr %at, i64 %size, ptr %flag, i64 %site)
  %more = add i64 %i, 1
  %on = icmp slt i64 %more, %n
  br i1 %on, label %next, label %done
done:
  ret void
}}
"""
