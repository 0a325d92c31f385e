"""The words of a call's context, which generated code reads and Python fills in."""

from __future__ import annotations

from dlvm.gen.loops.status import WORDS as STATUS

(
    POOL, THREADS, PRINTER, CURRENT, FIRST, HELD, SIGNALS, LEFT, SINCE, STACK, FLOOR, MODE, RANKS,
    HALT,
) = range(14)  # fmt: skip
"""Words of a call's context: the pool of threads and how many of them the call may use, the
printer, the current chunk, the first chunk, bytes held; how Python is asked for signals, how much
work may pass until then, and when that was last done; how many bytes of the processor's stack the
call may take, and the address below which it has taken them; the caller's floating-point mode;
the table by which ranks of a mesh reach one another; a
status of what Python raised in the midst of a kernel, which then ends as soon as it can."""
WORDS = HALT + STATUS

(SWAP, GATHER, SEND, SUM, BYTE, IGNORED, MOST, EXCHANGES) = range(8)
"""Words of the table of a rank: the functions that exchange rows, as MPI has them, its types of a
byte and of a status that nobody reads, how many bytes they count, then the words of each exchange
of the program."""
(GROUP, TO, FROM) = range(3)
"""Words of an exchange: its communicator, or the index of the rank; whom it sends to; from whom."""
TYPE, WORD = TO, FROM
"""The same of a sum: the type of its elements, and what is done with them."""
EACH = 3
