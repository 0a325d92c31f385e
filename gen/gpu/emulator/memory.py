"""LLVM code that checks an access of an emulated thread to memory that others touch as well.

Beside every byte stand two stamps: who wrote it last, and who read it since. A stamp is the block,
the number of barriers that the block has passed, and the lane, each plus one. Two accesses, one of
which writes, are a race if they are from different blocks, or from different lanes of a block
between two barriers.
"""

from __future__ import annotations

OUTSIDE, NEVER_WRITTEN, RACE, MISALIGNED, TOO_MANY, NOWHERE, CHANGED = range(1, 8)
"""What a fault is.

``MISALIGNED`` is an address that is no multiple of the bytes asked for, ``TOO_MANY`` more copies
under way than a record holds, ``NOWHERE`` an address in no array of its space, ``CHANGED`` a write
to what a kernel reads as if nobody wrote it.
"""
READ, WRITE, READ_CONSTANT, ATOMIC = range(4)
"""Ways of an access: ``READ_CONSTANT`` is what PTX calls ``.nc``."""
CONTEXT = 128
"""Words of the record of a thread, of 8 bytes each."""
STATE, LANE, BLOCK, BLOCKS, EPOCH, LAUNCH, SITE, WITH, GIVE, GOT, CLAMP, MASK = range(12)
"""Which word of the record says what; from ``WITH`` on lies what a warp exchanges."""
REGISTERS_GIVEN, REGISTERS_GOT = 16, 32
"""Where the words of a product of a warp begin."""
READY, AT_BARRIER, IN_WARP, DONE = range(4)
REGIONS, FAULT, REGION, OFFSET, WHO, WHERE, OTHER, LINE, GLOBALS, SHAREDS = range(10)
"""Words of the record of a launch; the last two count the regions of global and shared memory."""
SPARE = 16
"""Where memory for accesses that are outside begins."""
BASE, BYTES, HOST, WRITERS, READERS, CONSTANTS, WRITTEN = range(7)
"""Words of the record of a region.

``BASE`` is its address for the kernel, ``HOST`` for this process; ``CONSTANTS`` the marks of bytes
that were read as constant; ``WRITTEN`` whether it holds something from the start.
"""
REGION_WORDS = 7
GLOBAL_SHIFT, SHARED_SHIFT = 40, 20
"""An array has all addresses with the same upper bits: no address past its end is in another."""
MANY = 0xFFFF
EVERY = 0xFFFFFF


def word(pointer: str, at: int, name: str, type_: str = "i64") -> str:
    """Two lines that load a word of a record."""
    return (
        f"  %{name}.p = getelementptr i64, ptr {pointer}, i64 {at}\n"
        f"  %{name} = load {type_}, ptr %{name}.p"
    )


_STAMP = f"""
{word("%c", BLOCK, "block")}
{word("%c", EPOCH, "epoch")}
{word("%c", LANE, "lane")}
  %block1 = add i64 %block, 1
  %block40 = shl i64 %block1, 40
  %epoch1 = add i64 %epoch, 1
  %epoch16 = shl i64 %epoch1, 16
  %lane1 = add i64 %lane, 1
  %half = or i64 %block40, %epoch16
  %me = or i64 %half, %lane1
"""

MEETS = """
define internal i1 @emu.meets(i64 %other, i64 %me) {
  %some = icmp ne i64 %other, 0
  %x = xor i64 %other, %me
  %x40 = lshr i64 %x, 40
  %apart = icmp ne i64 %x40, 0
  %x16 = lshr i64 %x, 16
  %e = and i64 %x16, 16777215
  %together = icmp eq i64 %e, 0
  %l = and i64 %x, 65535
  %lanes = icmp ne i64 %l, 0
  %beside = and i1 %together, %lanes
  %clash = or i1 %apart, %beside
  %r = and i1 %some, %clash
  ret i1 %r
}
"""
"""Whether the access of a stamp is not ordered with one's own."""

FAULTED = f"""
define internal void @emu.fault(ptr %c, i64 %kind, i64 %region, i64 %offset,
  i64 %other, i64 %line) {{
{word("%c", LAUNCH, "launch", "ptr")}
  %f = getelementptr i64, ptr %launch, i64 {FAULT}
  %old = load i64, ptr %f
  %first = icmp eq i64 %old, 0
  br i1 %first, label %note, label %done
note:
{word("%c", LANE, "lane")}
{word("%c", BLOCK, "block")}
  store i64 %kind, ptr %f
  %p1 = getelementptr i64, ptr %launch, i64 {REGION}
  store i64 %region, ptr %p1
  %p2 = getelementptr i64, ptr %launch, i64 {OFFSET}
  store i64 %offset, ptr %p2
  %p3 = getelementptr i64, ptr %launch, i64 {WHO}
  store i64 %lane, ptr %p3
  %p4 = getelementptr i64, ptr %launch, i64 {WHERE}
  store i64 %block, ptr %p4
  %p5 = getelementptr i64, ptr %launch, i64 {OTHER}
  store i64 %other, ptr %p5
  %p6 = getelementptr i64, ptr %launch, i64 {LINE}
  store i64 %line, ptr %p6
  br label %done
done:
  ret void
}}
"""

AT = f"""
define internal ptr @emu.at(ptr %c, i64 %region, i64 %address, i64 %size,
  i64 %mode, i64 %line) {{
entry:
{word("%c", LAUNCH, "launch", "ptr")}
{word("%launch", REGIONS, "regions", "ptr")}
  %first = mul i64 %region, {REGION_WORDS}
  %r = getelementptr i64, ptr %regions, i64 %first
{word("%r", BASE, "base")}
{word("%r", BYTES, "bytes")}
{word("%r", HOST, "host", "ptr")}
{word("%r", WRITERS, "writers", "ptr")}
{word("%r", READERS, "readers", "ptr")}
{word("%r", CONSTANTS, "constants", "ptr")}
{word("%r", WRITTEN, "held")}
  %writes = icmp eq i64 %mode, {WRITE}
  %fixed = icmp eq i64 %mode, {READ_CONSTANT}
  %atomic = icmp eq i64 %mode, {ATOMIC}
  %offset = sub i64 %address, %base
  %p = getelementptr i8, ptr %host, i64 %offset
  %last = sub i64 %bytes, %size
  %room = icmp sge i64 %last, 0
  %below = icmp ule i64 %offset, %last
  %inside = and i1 %room, %below
  %mask = sub i64 %size, 1
  %crooked = and i64 %address, %mask
  %straight = icmp eq i64 %crooked, 0
  br i1 %inside, label %aligned, label %outside
aligned:
  br i1 %straight, label %stamps, label %aside
aside:
  call void @emu.fault(ptr %c, i64 {MISALIGNED}, i64 %region, i64 %offset, i64 0, i64 %line)
  %other = getelementptr i64, ptr %launch, i64 {SPARE}
  ret ptr %other
outside:
  call void @emu.fault(ptr %c, i64 {OUTSIDE}, i64 %region, i64 %offset, i64 0, i64 %line)
  %spare = getelementptr i64, ptr %launch, i64 {SPARE}
  ret ptr %spare
stamps:
  %traced = icmp ne ptr %writers, null
  %alone = xor i1 %atomic, true
  %stamped = and i1 %traced, %alone
  br i1 %stamped, label %start, label %end
start:
{_STAMP}
  %unknown = icmp eq i64 %held, 0
  %reads = xor i1 %writes, true
  br label %byte
byte:
  %i = phi i64 [ 0, %start ], [ %next, %following ]
  %at = add i64 %offset, %i
  %wp = getelementptr i64, ptr %writers, i64 %at
  %rp = getelementptr i64, ptr %readers, i64 %at
  %cp = getelementptr i8, ptr %constants, i64 %at
  %w = load i64, ptr %wp
  %q = load i64, ptr %rp
  %mark = load i8, ptr %cp
  %marked = icmp ne i8 %mark, 0
  %clash = call i1 @emu.meets(i64 %w, i64 %me)
  br i1 %clash, label %race, label %known
race:
  call void @emu.fault(ptr %c, i64 {RACE}, i64 %region, i64 %at, i64 %w, i64 %line)
  br label %known
known:
  %never = icmp eq i64 %w, 0
  %blank = and i1 %never, %unknown
  %poison = and i1 %blank, %reads
  br i1 %poison, label %blankly, label %constant
blankly:
  call void @emu.fault(ptr %c, i64 {NEVER_WRITTEN}, i64 %region, i64 %at, i64 0, i64 %line)
  br label %constant
constant:
  %ever = xor i1 %never, true
  %early = and i1 %fixed, %ever
  %since = and i1 %writes, %marked
  %changed = or i1 %early, %since
  br i1 %changed, label %unsteady, label %who
unsteady:
  call void @emu.fault(ptr %c, i64 {CHANGED}, i64 %region, i64 %at, i64 %w, i64 %line)
  br label %who
who:
  %others = call i1 @emu.meets(i64 %q, i64 %me)
  br i1 %writes, label %write, label %read
write:
  br i1 %others, label %late, label %sign
late:
  call void @emu.fault(ptr %c, i64 {RACE}, i64 %region, i64 %at, i64 %q, i64 %line)
  br label %sign
sign:
  store i64 %me, ptr %wp
  br label %following
read:
  %fixed8 = zext i1 %fixed to i8
  %mark2 = or i8 %mark, %fixed8
  store i8 %mark2, ptr %cp
  %x = xor i64 %q, %me
  %x40 = lshr i64 %x, 40
  %elsewhere = icmp ne i64 %x40, 0
  %lanes = or i64 %me, {MANY}
  %blocks = or i64 %lanes, {EVERY << 40}
  %wide = select i1 %elsewhere, i64 %blocks, i64 %lanes
  %now = select i1 %others, i64 %wide, i64 %me
  %of_all = icmp ugt i64 %q, {(EVERY << 40) - 1}
  %kept = select i1 %of_all, i64 %q, i64 %now
  store i64 %kept, ptr %rp
  br label %following
following:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %size
  br i1 %more, label %byte, label %end
end:
  ret ptr %p
}}
"""
"""The place of an access, or another one where it would be outside."""


def _space(name: str, shift: int, count: int, before: str) -> str:
    """The place of an access by an address of a space, whose upper bits number its arrays."""
    return f"""
define internal ptr @emu.{name}(ptr %c, i64 %address, i64 %size, i64 %mode, i64 %line) {{
{word("%c", LAUNCH, "launch", "ptr")}
{word("%launch", count, "count")}
  %high = lshr i64 %address, {shift}
  %own = sub i64 %high, 1
  %there = icmp ult i64 %own, %count
  br i1 %there, label %known, label %unknown
known:
{before}
  %p = call ptr @emu.at(ptr %c, i64 %region, i64 %address, i64 %size, i64 %mode, i64 %line)
  ret ptr %p
unknown:
  call void @emu.fault(ptr %c, i64 {NOWHERE}, i64 0, i64 %address, i64 0, i64 %line)
  %spare = getelementptr i64, ptr %launch, i64 {SPARE}
  ret ptr %spare
}}
"""


SPACES = _space("global", GLOBAL_SHIFT, GLOBALS, "  %region = add i64 %own, 0") + _space(
    "shared",
    SHARED_SHIFT,
    SHAREDS,
    f"{word('%launch', GLOBALS, 'globals')}\n  %region = add i64 %own, %globals",
)
INSIDE = f"""
define internal i64 @emu.local(ptr %c, i64 %offset, i64 %bytes, i64 %size, i64 %line) {{
  %last = sub i64 %bytes, %size
  %below = icmp ule i64 %offset, %last
  %mask = sub i64 %size, 1
  %crooked = and i64 %offset, %mask
  %straight = icmp eq i64 %crooked, 0
  %fine = and i1 %below, %straight
  br i1 %fine, label %known, label %unknown
known:
  ret i64 %offset
unknown:
  call void @emu.fault(ptr %c, i64 {NOWHERE}, i64 0, i64 %offset, i64 0, i64 %line)
  ret i64 0
}}
"""
"""The offset of an access to the array of a thread."""
CHECKS = MEETS + FAULTED + AT + SPACES + INSIDE
