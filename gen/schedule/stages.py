"""Folds of few long rows in two stages: chunks side by side, then the sums of chunks in order.

A fold goes along a row chunk by chunk, and adds what each chunk gives to a total. The chunks of a
row know nothing of one another, so each can be a block of its own that writes what it gives to
memory; the totals are added up where they are needed, in the same order, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlvm.gen.loops.index import flatten
from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Scalar,
    Statement,
    Store,
    accesses,
    statements,
)
from dlvm.ir import TensorType
from dlvm.ir.dims import product, symbol

MOST_ROWS = 256
"""Rows from which on there are blocks enough, one for each."""
CHUNK = "%chunk"


def staged(kernel: LoopKernel) -> LoopKernel:
    """The kernel with a loop over rows and chunks for each fold, and one that has the totals."""
    scalars, chain, body = rows_of(kernel.body)
    rows = product(tuple(s.extent for s in chain))
    chunks = [s for s in body if _is_chunks(s)]
    if not chunks or not (isinstance(rows, int) and rows <= MOST_ROWS):
        return kernel
    if _writes(body[: body.index(chunks[-1])]):
        return kernel  # each stage repeats what is before its chunks
    at = flatten([symbol(s.var) for s in chain], [s.extent for s in chain])
    before: list[Statement] = []
    stages: list[Statement] = []
    scratch: list[Buffer] = []
    for s in body:
        if not (isinstance(s, Loop) and s in chunks):
            before.append(s)
            continue
        head, tail = _cut(s)
        given = [t.scalar for t in tail if isinstance(t, Let) and _is_own(t.scalar, s)]
        parts = [_part(s, j, x, rows) for j, x in enumerate(given)]
        place = at * s.extent + symbol(s.var)
        stores = [Store(b, place, x) for b, x in zip(parts, given, strict=True)]
        lets = [Let(x) for x in given]
        stage = replace(s, kind="parallel", body=(*before, *head, *lets, *stores))
        stages.append(_alone(chain, stage, f".s{len(stages)}"))
        pairs = zip(parts, given, strict=True)
        loads: dict[Scalar, Scalar] = {x: Load(x.dtype, b, place) for b, x in pairs}
        before.append(replace(s, body=renamed(tail, loads)))
        scratch += parts
    last = _alone(chain, Loop("%total", 1, "parallel", tuple(before)), "")
    return replace(kernel, buffers=(*kernel.buffers, *scratch), body=(*scalars, *stages, last))


def rows_of(body: Body) -> tuple[list[Statement], list[Loop], Body]:
    """Scalars, the loops over rows, and what is done for each; nothing where there is more."""
    chain: list[Loop] = []
    scalars: list[Statement] = []
    while True:
        loops = [s for s in body if isinstance(s, Loop) and s.kind == "parallel"]
        rest = [s for s in body if s not in loops]
        if len(loops) != 1 or not all(isinstance(s, Let) for s in rest):
            return scalars, chain, body
        if any(isinstance(s, Let) and isinstance(s.scalar, Load) for s in rest):
            return scalars, chain, body
        scalars += rest
        chain.append(loops[0])
        body = loops[0].body


def _writes(body: Body) -> bool:
    return any(isinstance(x, Store) and isinstance(x.memory, Buffer) for x in accesses(body))


def _is_chunks(s: Statement) -> bool:
    named = isinstance(s, Loop) and s.kind == "serial" and s.var.startswith(CHUNK)
    return named and isinstance(s, Loop) and s.extent != 1


def _cut(chunk: Loop) -> tuple[Body, Body]:
    """What a chunk computes in arrays of its own, and what it adds to the total."""
    own = {s.name for s in chunk.body if isinstance(s, Local)}
    ends = (
        i + 1
        for i, s in enumerate(chunk.body)
        if isinstance(s, Loop) or (isinstance(s, Store) and s.memory.name in own)
    )
    end = max(ends, default=0)
    return chunk.body[:end], chunk.body[end:]


def _is_own(x: Scalar, chunk: Loop) -> bool:
    own = {s.name for s in statements(chunk.body) if isinstance(s, Local)}
    return isinstance(x, Load) and x.memory.name in own


def _part(chunk: Loop, number: int, x: Scalar, rows: int) -> Buffer:
    name = f"part{chunk.var.removeprefix(CHUNK)}_{number}"
    return Buffer(name, TensorType(x.dtype, (rows * chunk.extent,)), "scratch")


def _alone(chain: Sequence[Loop], inner: Loop, suffix: str) -> Statement:
    """A loop inside of those over rows, with names of its own."""
    for s in reversed(chain):
        inner = replace(s, body=(inner,))
    return Rewriting({}, (), suffix).statement(inner) if suffix else inner
