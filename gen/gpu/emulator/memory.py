"""LLVM code that checks an access of an emulated thread to memory that others touch as well.

Beside every byte stand two stamps: who wrote it last, and who read it since. A stamp is the block,
the number of barriers that the block has passed, and the lane, each plus one. Two accesses, one of
which writes, are a race if they are from different blocks, or from different lanes of a block
between two barriers.
"""

from __future__ import annotations

OUTSIDE, NEVER_WRITTEN, RACE, MISALIGNED = 1, 2, 3, 4
"""What a fault is; ``MISALIGNED`` is an address that is no multiple of the bytes asked for."""
CONTEXT = 128
"""Words of the record of a thread, of 8 bytes each."""
STATE, LANE, BLOCK, BLOCKS, EPOCH, LAUNCH, SITE, WITH, GIVE, GOT = range(10)
"""Which word of the record says what; from ``GIVE`` on lies what a warp exchanges."""
REGISTERS_GIVEN, REGISTERS_GOT = 16, 32
"""Where the words of a product of a warp begin."""
READY, AT_BARRIER, IN_WARP, DONE = range(4)
REGIONS, FAULT, REGION, OFFSET, WHO, WHERE, OTHER, _, SPARE = range(9)
"""Words of the record of a launch; at ``SPARE`` lies memory for accesses that are outside."""
BASE, BYTES, WRITERS, READERS, WRITTEN = range(5)
"""Words of the record of a region; ``WRITTEN`` is whether it holds something from the start."""
REGION_WORDS = 5
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
define internal void @emu.fault(ptr %c, i64 %kind, i64 %region, i64 %offset, i64 %other) {{
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
  br label %done
done:
  ret void
}}
"""

AT = f"""
define internal ptr @emu.at(ptr %c, i64 %region, ptr %p, i64 %size, i1 %writes) {{
entry:
{word("%c", LAUNCH, "launch", "ptr")}
{word("%launch", REGIONS, "regions", "ptr")}
  %first = mul i64 %region, {REGION_WORDS}
  %r = getelementptr i64, ptr %regions, i64 %first
{word("%r", BASE, "base")}
{word("%r", BYTES, "bytes")}
{word("%r", WRITERS, "writers", "ptr")}
{word("%r", READERS, "readers", "ptr")}
{word("%r", WRITTEN, "held")}
  %address = ptrtoint ptr %p to i64
  %offset = sub i64 %address, %base
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
  call void @emu.fault(ptr %c, i64 {MISALIGNED}, i64 %region, i64 %offset, i64 0)
  %other = getelementptr i64, ptr %launch, i64 {SPARE}
  ret ptr %other
outside:
  call void @emu.fault(ptr %c, i64 {OUTSIDE}, i64 %region, i64 %offset, i64 0)
  %spare = getelementptr i64, ptr %launch, i64 {SPARE}
  ret ptr %spare
stamps:
  %traced = icmp ne ptr %writers, null
  br i1 %traced, label %start, label %end
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
  %w = load i64, ptr %wp
  %q = load i64, ptr %rp
  %clash = call i1 @emu.meets(i64 %w, i64 %me)
  br i1 %clash, label %race, label %known
race:
  call void @emu.fault(ptr %c, i64 {RACE}, i64 %region, i64 %at, i64 %w)
  br label %known
known:
  %never = icmp eq i64 %w, 0
  %blank = and i1 %never, %unknown
  %poison = and i1 %blank, %reads
  br i1 %poison, label %blankly, label %who
blankly:
  call void @emu.fault(ptr %c, i64 {NEVER_WRITTEN}, i64 %region, i64 %at, i64 0)
  br label %who
who:
  %others = call i1 @emu.meets(i64 %q, i64 %me)
  br i1 %writes, label %write, label %read
write:
  br i1 %others, label %late, label %sign
late:
  call void @emu.fault(ptr %c, i64 {RACE}, i64 %region, i64 %at, i64 %q)
  br label %sign
sign:
  store i64 %me, ptr %wp
  br label %following
read:
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

CHECKS = MEETS + FAULTED + AT
