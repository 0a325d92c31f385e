"""The loops over the rows of a kernel, and over the chunks of what is folded along a row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    Body,
    Let,
    Load,
    Local,
    Loop,
    Memory,
    Search,
    Statement,
    Store,
    accesses,
    dims,
)
from dlvm.ir.sizes.dims import symbols

CHUNK = "%chunk"
"""What the names of loops over chunks begin with."""


def is_chunks(s: Statement) -> TypeGuard[Loop]:
    """Whether a loop goes over several chunks, one after the other."""
    named = isinstance(s, Loop) and s.kind == "serial" and s.var.startswith(CHUNK)
    return named and isinstance(s, Loop) and s.extent != 1


def chunks_of(body: Body, rows: tuple[Loop, ...] = ()) -> Iterator[tuple[Loop, tuple[Loop, ...]]]:
    """The loops over chunks of folds, and those around that go over rows."""
    for s in body:
        if isinstance(s, Loop) and s.var.startswith(CHUNK):
            yield s, rows
        elif isinstance(s, Loop):
            yield from chunks_of(s.body, (*rows, s) if s.kind == "parallel" else rows)


def cut_chunk(chunk: Loop) -> tuple[Body, Body]:
    """What a chunk computes in arrays of its own, and what it adds to the total."""
    own = {s.name for s in chunk.body if isinstance(s, Local)}
    ends = (
        i + 1
        for i, s in enumerate(chunk.body)
        if isinstance(s, Loop) or (isinstance(s, Store) and s.memory.name in own)
    )
    end = max(ends, default=0)
    return chunk.body[:end], chunk.body[end:]


def rows_of(body: Body) -> tuple[list[Statement], list[Loop], Body]:
    """Scalars, the loops over rows, and what is done for each; nothing where there is more."""
    chain: list[Loop] = []
    scalars: list[Statement] = []
    written = {x.memory for x in accesses(body) if isinstance(x, Store)}
    while True:
        loops = [s for s in body if isinstance(s, Loop) and s.kind == "parallel"]
        rest = [s for s in body if s not in loops]
        if len(loops) != 1 or not all(isinstance(s, Let) for s in rest):
            return scalars, chain, body
        if any(_depends(s, written, chain) for s in rest):
            return scalars, chain, body
        scalars += rest
        chain.append(loops[0])
        body = loops[0].body


def _depends(s: Statement, written: Collection[Memory], rows: Sequence[Loop]) -> bool:
    """Whether a scalar is not the same before all of the loops."""
    read = s.scalar if isinstance(s, Let) and isinstance(s.scalar, Load | Search) else None
    asked = {name for d in dims(s) for name in symbols(d)}
    changed = read is not None and read.memory in written
    return changed or any(loop.var in asked for loop in rows)


def inside(chain: Sequence[Loop], inner: Body, suffix: str = "") -> Body:
    """Statements inside of the loops over rows, with a suffix as a copy that has its own names."""
    for s in reversed(chain):
        inner = (replace(s, body=inner),)
    return Rewriting({}, (), suffix).body(inner) if suffix else inner
