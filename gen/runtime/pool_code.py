"""The machine code of the thread pool: taking a job apart, and what a worker does all day.

The pool is one block of words (``WORDS`` says which) and one *seat* for each thread, a cache line
of its own. The state word is the number of the job (upper half, on which workers sleep), whether
it is open, and how many workers are inside. To enter is one exchange of that word, so a worker
that wakes late finds the job closed and does no harm, and the caller waits only for those that
are inside: a worker that sleeps never holds up a job, as the caller does its share as well.

A job is cut into parts. Each thread has a run of neighbouring ones, takes them from its seat's
counter, then helps the others with theirs. Which thread does what changes no result.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.base.system import THREADS as SEVERAL
from dlvm.base.system import has

from . import choice

MAX_THREADS = 256
"""Threads at most."""
PARTS = 4
"""Parts of a job for each thread, so that one that is late is helped."""

RUN, CREATE, MASK, SYSCALL, WORKER, STARTED = range(6)
LOCK, SLEEPERS = 8, 16
STATE, BODY, ENV, COUNT, GRAIN, GRAINS, CUT, THREADS = range(24, 32)
SIGNALS = 32  # the signals that workers don't take: 128 bytes
SEATS, SEAT = 48, 8
NEXT, END, NUMBER, POOL, THREAD, SPINS, MODE = range(7)
SIZE = SEATS + SEAT * MAX_THREADS

OPEN = 1 << 31
INSIDE = OPEN - 1


@dataclass(frozen=True, slots=True)
class System:
    """How a processor waits a moment and how its Linux numbers the calls that the pool needs."""

    pause: str
    declaration: str
    futex: int
    rest: int


SYSTEMS = {
    "x86_64": System(
        "call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()", 202, 24
    ),
    "aarch64": System(
        "call void @llvm.aarch64.isb(i32 15)", "declare void @llvm.aarch64.isb(i32)", 98, 124
    ),
}


def system(triple: str) -> System | None:
    """What the pool needs to know of a system; None where there is no pool."""
    return SYSTEMS.get(triple.split("-")[0]) if has(SEVERAL) and "linux" in triple else None


def code(how: System, modes: str, attributes: str) -> str:
    """The module: ``pool_run``, ``pool_worker``, to measure it ``pool_pause``, and ``choice``."""
    pieces = (modes, choice.functions(), _RUN, _HIRE, _WORK)
    pieces += (_worker(how), _close(how), _pause(how))
    ends = f"attributes #0 = {{ {attributes} }}"
    return "\n".join((how.declaration, *pieces, ends)) + "\n"


_RUN = f"""
define void @pool_run(ptr %pool, ptr %body, ptr %env, i64 %count, i64 %grain, i64 %limit) #0 {{
entry:
  %lock = getelementptr i64, ptr %pool, i64 {LOCK}
  %taken = load atomic i64, ptr %lock monotonic, align 8
  %free = icmp eq i64 %taken, 0
  br i1 %free, label %try, label %serial
try:
  %swap = cmpxchg ptr %lock, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %mine, label %size, label %serial
serial:
  call void %body(ptr %env, i64 0, i64 %count)
  ret void
size:
  %above = add i64 %count, %grain
  %last = sub i64 %above, 1
  %grains = udiv i64 %last, %grain
  %wanted = call i64 @llvm.umin.i64(i64 %limit, i64 %grains)
  %started.at = getelementptr i64, ptr %pool, i64 {STARTED}
  %started = load atomic i64, ptr %started.at monotonic, align 8
  %enough = icmp ule i64 %wanted, %started
  br i1 %enough, label %ready, label %hire
hire:
  call void @pool_hire(ptr %pool, i64 %wanted)
  br label %ready
ready:
  %exist = load atomic i64, ptr %started.at monotonic, align 8
  %threads = call i64 @llvm.umin.i64(i64 %wanted, i64 %exist)
  %alone = icmp ult i64 %threads, 2
  br i1 %alone, label %unlock, label %cut
unlock:
  store atomic i64 0, ptr %lock release, align 8
  br label %serial
cut:
  %many = mul i64 %threads, {PARTS}
  %parts = call i64 @llvm.umin.i64(i64 %many, i64 %grains)
  br label %seat
seat:
  %t = phi i64 [ 0, %cut ], [ %t.next, %seat ]
  %first = phi i64 [ 0, %cut ], [ %end, %seat ]
  %t.next = add i64 %t, 1
  %share = mul i64 %t.next, %parts
  %end = udiv i64 %share, %threads
  %at = mul i64 %t, {SEAT}
  %next.index = add i64 %at, {SEATS + NEXT}
  %end.index = add i64 %at, {SEATS + END}
  %next.at = getelementptr i64, ptr %pool, i64 %next.index
  %end.at = getelementptr i64, ptr %pool, i64 %end.index
  store atomic i64 %first, ptr %next.at monotonic, align 8
  store atomic i64 %end, ptr %end.at monotonic, align 8
  %more = icmp ult i64 %t.next, %threads
  br i1 %more, label %seat, label %publish
publish:
  %body.at = getelementptr i64, ptr %pool, i64 {BODY}
  store atomic ptr %body, ptr %body.at monotonic, align 8
  %env.at = getelementptr i64, ptr %pool, i64 {ENV}
  store atomic ptr %env, ptr %env.at monotonic, align 8
  %count.at = getelementptr i64, ptr %pool, i64 {COUNT}
  store atomic i64 %count, ptr %count.at monotonic, align 8
  %grain.at = getelementptr i64, ptr %pool, i64 {GRAIN}
  store atomic i64 %grain, ptr %grain.at monotonic, align 8
  %grains.at = getelementptr i64, ptr %pool, i64 {GRAINS}
  store atomic i64 %grains, ptr %grains.at monotonic, align 8
  %cut.at = getelementptr i64, ptr %pool, i64 {CUT}
  store atomic i64 %parts, ptr %cut.at monotonic, align 8
  %threads.at = getelementptr i64, ptr %pool, i64 {THREADS}
  store atomic i64 %threads, ptr %threads.at monotonic, align 8
  call void @pool_open(ptr %pool)
  call void @pool_work(ptr %pool, i64 0)
  call void @pool_close(ptr %pool)
  store atomic i64 0, ptr %lock release, align 8
  ret void
}}"""

_HIRE = f"""
define internal void @pool_hire(ptr %pool, i64 %wanted) #0 {{
entry:
  %create.at = getelementptr i64, ptr %pool, i64 {CREATE}
  %create = load atomic ptr, ptr %create.at monotonic, align 8
  %worker.at = getelementptr i64, ptr %pool, i64 {WORKER}
  %worker = load atomic ptr, ptr %worker.at monotonic, align 8
  %started.at = getelementptr i64, ptr %pool, i64 {STARTED}
  %most = call i64 @llvm.umin.i64(i64 %wanted, i64 {MAX_THREADS})
  br label %one
one:
  %t = load atomic i64, ptr %started.at monotonic, align 8
  %more = icmp ult i64 %t, %most
  br i1 %more, label %start, label %done
start:
  %at = mul i64 %t, {SEAT}
  %index = add i64 %at, {SEATS}
  %seat = getelementptr i64, ptr %pool, i64 %index
  %thread = getelementptr i64, ptr %seat, i64 {THREAD}
  %error = call i32 %create(ptr %thread, ptr null, ptr %worker, ptr %seat)
  %good = icmp eq i32 %error, 0
  br i1 %good, label %count, label %done
count:
  %t.next = add i64 %t, 1
  store atomic i64 %t.next, ptr %started.at monotonic, align 8
  br label %one
done:
  ret void
}}"""

_WORK = f"""
define internal void @pool_work(ptr %pool, i64 %me) #0 {{
entry:
  %body.at = getelementptr i64, ptr %pool, i64 {BODY}
  %body = load atomic ptr, ptr %body.at monotonic, align 8
  %env.at = getelementptr i64, ptr %pool, i64 {ENV}
  %env = load atomic ptr, ptr %env.at monotonic, align 8
  %count.at = getelementptr i64, ptr %pool, i64 {COUNT}
  %count = load atomic i64, ptr %count.at monotonic, align 8
  %grain.at = getelementptr i64, ptr %pool, i64 {GRAIN}
  %grain = load atomic i64, ptr %grain.at monotonic, align 8
  %grains.at = getelementptr i64, ptr %pool, i64 {GRAINS}
  %grains = load atomic i64, ptr %grains.at monotonic, align 8
  %parts.at = getelementptr i64, ptr %pool, i64 {CUT}
  %parts = load atomic i64, ptr %parts.at monotonic, align 8
  %threads.at = getelementptr i64, ptr %pool, i64 {THREADS}
  %threads = load atomic i64, ptr %threads.at monotonic, align 8
  %invited = icmp ult i64 %me, %threads
  br i1 %invited, label %visit, label %done
visit:
  %turn = phi i64 [ 0, %entry ], [ %turn.next, %empty ]
  %sum = add i64 %me, %turn
  %past = icmp uge i64 %sum, %threads
  %around = sub i64 %sum, %threads
  %t = select i1 %past, i64 %around, i64 %sum
  %at = mul i64 %t, {SEAT}
  %next.index = add i64 %at, {SEATS + NEXT}
  %end.index = add i64 %at, {SEATS + END}
  %next.at = getelementptr i64, ptr %pool, i64 %next.index
  %end.at = getelementptr i64, ptr %pool, i64 %end.index
  %end = load atomic i64, ptr %end.at monotonic, align 8
  br label %look
look:
  %seen = load atomic i64, ptr %next.at monotonic, align 8
  %some = icmp ult i64 %seen, %end
  br i1 %some, label %take, label %empty
take:
  %part = atomicrmw add ptr %next.at, i64 1 monotonic
  %got = icmp ult i64 %part, %end
  br i1 %got, label %run, label %empty
run:
  %low = mul i64 %part, %grains
  %high = add i64 %low, %grains
  %low.grain = udiv i64 %low, %parts
  %high.grain = udiv i64 %high, %parts
  %begin = mul i64 %low.grain, %grain
  %stop = mul i64 %high.grain, %grain
  %within = call i64 @llvm.umin.i64(i64 %stop, i64 %count)
  call void %body(ptr %env, i64 %begin, i64 %within)
  br label %look
empty:
  %turn.next = add i64 %turn, 1
  %again = icmp ult i64 %turn.next, %threads
  br i1 %again, label %visit, label %done
done:
  ret void
}}"""


def _worker(how: System) -> str:
    return f"""
define ptr @pool_worker(ptr %seat) #0 {{
entry:
  %mode.at = getelementptr i64, ptr %seat, i64 {MODE}
  call void @mode_set(ptr %mode.at)
  %pool.at = getelementptr i64, ptr %seat, i64 {POOL}
  %pool = load atomic ptr, ptr %pool.at monotonic, align 8
  %number.at = getelementptr i64, ptr %seat, i64 {NUMBER}
  %number = load atomic i64, ptr %number.at monotonic, align 8
  %spins.at = getelementptr i64, ptr %seat, i64 {SPINS}
  %spins = load atomic i64, ptr %spins.at monotonic, align 8
  %mask.at = getelementptr i64, ptr %pool, i64 {MASK}
  %mask = load atomic ptr, ptr %mask.at monotonic, align 8
  %signals = getelementptr i64, ptr %pool, i64 {SIGNALS}
  %masked = call i32 %mask(i32 2, ptr %signals, ptr null)
  %syscall.at = getelementptr i64, ptr %pool, i64 {SYSCALL}
  %syscall = load atomic ptr, ptr %syscall.at monotonic, align 8
  %state.at = getelementptr i64, ptr %pool, i64 {STATE}
  %job.at = getelementptr i8, ptr %state.at, i64 4
  %sleepers.at = getelementptr i64, ptr %pool, i64 {SLEEPERS}
  br label %idle
idle:
  %served = phi i64 [ -1, %entry ], [ %job, %work ], [ %served, %sleep ]
  br label %look
look:
  %turn = phi i64 [ 0, %idle ], [ %turn.next, %wait ], [ %turn, %enter ]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %job = lshr i64 %state, 32
  %new = icmp ne i64 %job, %served
  %bit = and i64 %state, {OPEN}
  %open = icmp ne i64 %bit, 0
  %wanted = and i1 %new, %open
  br i1 %wanted, label %enter, label %tired
tired:
  %turn.next = add i64 %turn, 1
  %over = icmp sge i64 %turn.next, %spins
  br i1 %over, label %sleep, label %wait
wait:
  {how.pause}
  br label %look
sleep:
  %asleep = atomicrmw add ptr %sleepers.at, i64 1 seq_cst
  %still = trunc i64 %job to i32
  %up = call i64 (i64, ...) %syscall(i64 {how.futex}, ptr %job.at, i64 128, i32 %still, ptr null)
  %awake = atomicrmw sub ptr %sleepers.at, i64 1 seq_cst
  br label %idle
enter:
  %inside = add i64 %state, 1
  %swap = cmpxchg ptr %state.at, i64 %state, i64 %inside acq_rel monotonic, align 8
  %entered = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %entered, label %work, label %look
work:
  call void @pool_work(ptr %pool, i64 %number)
  %left = atomicrmw sub ptr %state.at, i64 1 release
  br label %idle
}}"""


def _close(how: System) -> str:
    return f"""
define internal void @pool_open(ptr %pool) #0 {{
entry:
  %state.at = getelementptr i64, ptr %pool, i64 {STATE}
  %state = load atomic i64, ptr %state.at monotonic, align 8
  %before = lshr i64 %state, 32
  %job = add i64 %before, 1
  %upper = shl i64 %job, 32
  %open = or i64 %upper, {OPEN}
  %old = atomicrmw xchg ptr %state.at, i64 %open seq_cst
  %sleepers.at = getelementptr i64, ptr %pool, i64 {SLEEPERS}
  %sleepers = load atomic i64, ptr %sleepers.at seq_cst, align 8
  %awake = icmp eq i64 %sleepers, 0
  br i1 %awake, label %done, label %wake
wake:
  %syscall.at = getelementptr i64, ptr %pool, i64 {SYSCALL}
  %syscall = load atomic ptr, ptr %syscall.at monotonic, align 8
  %job.at = getelementptr i8, ptr %state.at, i64 4
  %woken = call i64 (i64, ...) %syscall(i64 {how.futex}, ptr %job.at, i64 129, i32 2147483647)
  br label %done
done:
  ret void
}}
define internal void @pool_close(ptr %pool) #0 {{
entry:
  %state.at = getelementptr i64, ptr %pool, i64 {STATE}
  %open = atomicrmw and ptr %state.at, i64 {~OPEN} acq_rel
  br label %look
look:
  %turn = phi i64 [ 1, %entry ], [ %turn.next, %wait ]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %inside = and i64 %state, {INSIDE}
  %over = icmp eq i64 %inside, 0
  br i1 %over, label %done, label %long
long:
  %turn.next = add i64 %turn, 1
  %low = and i64 %turn, 1023
  %tired = icmp eq i64 %low, 0
  br i1 %tired, label %rest, label %wait
rest:
  %syscall.at = getelementptr i64, ptr %pool, i64 {SYSCALL}
  %syscall = load atomic ptr, ptr %syscall.at monotonic, align 8
  %rested = call i64 (i64, ...) %syscall(i64 {how.rest})
  br label %wait
wait:
  {how.pause}
  br label %look
done:
  ret void
}}"""


def _pause(how: System) -> str:
    return f"""
define void @pool_pause(i64 %times) #0 {{
entry:
  br label %again
again:
  %turn = phi i64 [ 0, %entry ], [ %next, %again ]
  {how.pause}
  %next = add i64 %turn, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %again, label %done
done:
  ret void
}}"""
