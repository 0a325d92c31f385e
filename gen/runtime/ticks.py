"""The timers of a build that measures: a table of ticks of the processor's clock, one slot a step.

The table is a global of the module, so one call at a time may run. Each tick adds the time since
the one before to its slot; so slots share out the time of a call without gaps or overlaps. The
first ticks of a call are kept one by one as well, for a time line.
"""

from __future__ import annotations

from dlvm.gen.text.module import Text

TABLE = "dlvm_ticks"
TICK = "dlvm_tick"
LAST, COUNT, SLOTS = 0, 1, 2
"""Words of the table: the clock at the last tick, the number of ticks; from the third on, the time
and the number of ticks of each slot."""
MOST = 1 << 14
"""Slots that there are at most."""
EVENTS = SLOTS + 2 * MOST
"""The word where the time line starts: a slot and the clock for each tick."""
KEPT = 1 << 16
"""Ticks on the time line; the cell after them takes all later ones."""
WORDS = EVENTS + 2 * KEPT + 2

CLOCKS = {
    "aarch64": '  %now = call i64 asm sideeffect "mrs $0, cntvct_el0", "=r"()',
    "": "  %now = call i64 @llvm.readcyclecounter()",
}
"""How a processor's clock is read; the counter of cycles of AArch64 is closed to programs."""


def include_ticks(text: Text) -> None:
    """Add the table and the function that ticks to a module."""
    clock = next(code for cpu, code in CLOCKS.items() if text.triple.startswith(cpu))
    text.globals[TABLE] = f"@{TABLE} = global [{WORDS} x i64] zeroinitializer, align 64"
    text.declarations[TICK] = "declare i64 @llvm.readcyclecounter()"
    text.functions[TICK] = f"""
define internal void @{TICK}(i64 %slot) #0 {{
entry:
{clock}
  %last = load i64, ptr @{TABLE}
  %spent = sub i64 %now, %last
  store i64 %now, ptr @{TABLE}
  %twice = mul i64 %slot, 2
  %word = add i64 %twice, {SLOTS}
  %time.at = getelementptr i64, ptr @{TABLE}, i64 %word
  %time = load i64, ptr %time.at
  %time.new = add i64 %time, %spent
  store i64 %time.new, ptr %time.at
  %runs.at = getelementptr i64, ptr %time.at, i64 1
  %runs = load i64, ptr %runs.at
  %runs.new = add i64 %runs, 1
  store i64 %runs.new, ptr %runs.at
  %count.at = getelementptr i64, ptr @{TABLE}, i64 {COUNT}
  %count = load i64, ptr %count.at
  %count.new = add i64 %count, 1
  store i64 %count.new, ptr %count.at
  %full = icmp uge i64 %count, {KEPT}
  %cell = select i1 %full, i64 {KEPT}, i64 %count
  %cell.twice = mul i64 %cell, 2
  %event = add i64 %cell.twice, {EVENTS}
  %event.at = getelementptr i64, ptr @{TABLE}, i64 %event
  store i64 %slot, ptr %event.at
  %event.now = getelementptr i64, ptr %event.at, i64 1
  store i64 %now, ptr %event.now
  ret void
}}"""
