"""Rows that a kernel reads in several sweeps: read once, and kept where the lanes of a block share.

A softmax reads its row for the largest element, for the sum of exponentials and for what it writes.
The row of each buffer that is read in this way is copied to an array of the block first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Load,
    Local,
    Loop,
    LoopKernel,
    Store,
    accesses,
    statements,
)
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import product, symbol, symbols
from dlvm.ir.sizes.positions import flatten

from .chunks import rows_of
from .transforms.stage import Stage

SWEEPS = 2
"""Places that read a row for one fold: whole groups of elements, and the rest."""
ROOM = 32768
"""Bytes of shared memory that rows take at most, so that several blocks fit on a processor."""


def kept(kernel: LoopKernel) -> Iterator[Stage]:
    """The steps that copy the rows which a kernel reads again to arrays of their own."""
    _, chain, body = rows_of(kernel.body)
    lanes = any(isinstance(s, Loop) and s.kind == "parallel" for s in statements(body))
    if not (chain and lanes and any(isinstance(s, Local) for s in body)):
        return
    at = flatten([symbol(s.var) for s in chain], [s.extent for s in chain])
    rows, room = product(tuple(s.extent for s in chain)), ROOM
    for buffer, length in _read_again(body, at, rows).items():
        room -= length * buffer.dtype.bytes
        if room >= 0:
            yield Stage(chain[-1].var, buffer.name, length)


def _read_again(body: Body, row: Dim, rows: Dim) -> dict[Buffer, int]:
    """The buffers that more than one sweep reads row by row, and how long their rows are."""
    touched = list(accesses(body))
    loads = [x for x in touched if isinstance(x, Load) and isinstance(x.memory, Buffer)]
    counts = Counter(x.memory for x in loads if isinstance(x.memory, Buffer))
    written = {x.memory for x in touched if isinstance(x, Store)}
    found: dict[Buffer, int] = {}
    for buffer, count in counts.items():
        whole = isinstance(buffer.size, int) and isinstance(rows, int) and rows > 0
        length = int(str(buffer.size)) // int(str(rows)) if whole else 0
        own = [x for x in loads if x.memory == buffer]
        again = count > SWEEPS and buffer not in written
        even = length > 0 and length * rows == buffer.size
        if again and even and all(_is_of_row(x.offset, length * row) and not x.where for x in own):
            found[buffer] = length
    return found


def _is_of_row(offset: Dim, start: Dim) -> bool:
    """Whether an element lies at a distance from the start of its row that no row decides."""
    return not set(symbols(start)) & set(symbols(offset - start))
