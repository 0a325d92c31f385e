"""The transform ``stages``: folds of few long rows as chunks side by side, then their sums.

A fold goes along a row chunk by chunk, and adds what each chunk gives to a total. The chunks of a
row know nothing of one another, so each can be a block of its own that writes what it gives to
memory; the totals are added up where they are needed, in the same order, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.statements import (
    Body,
    Buffer,
    Let,
    Load,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
    accesses,
    statements,
)
from dlvm.gen.schedule.chunks import CHUNK, cut_chunk, inside, is_chunks, rows_of
from dlvm.gen.schedule.transform import OfKernel, register
from dlvm.ir import Dim, TensorType
from dlvm.ir.sizes.dims import bounds, product, symbol, symbols
from dlvm.ir.sizes.positions import flatten

MOST_ROWS = 256
"""Rows from which on there are blocks enough, one for each."""
MOST_COLUMNS = 1 << 17
"""Columns from which on there are lanes enough, one for each."""
MANY = 64
"""Chunks whose totals are added once for all that follows, and read by a whole warp."""
TILE = 1024
"""Totals of chunks that a warp reads before it adds them."""


@register
@dataclass(frozen=True, slots=True)
class Stages(OfKernel):
    """A loop over rows and chunks for each fold of the kernel, and one that has the totals."""

    word: ClassVar[str] = "stages"
    impossible: ClassVar[str] = "its rows are many, or have no chunks, or are written between folds"
    makes_memory: ClassVar[bool] = True

    @staticmethod
    def made(body: Body) -> Body | None:
        """The statements with this done, if that can be."""
        return staged(body)


def staged(whole: Body) -> Body | None:
    """The statements with folds in two stages, if that can be."""
    scalars, chain, body = rows_of(whole)
    rows = product(tuple(s.extent for s in chain))
    chunks = [s for s in body if isinstance(s, Loop) and is_chunks(s)]
    columns = not any(_has_lanes(s) for s in chunks)
    most = MOST_COLUMNS if columns else MOST_ROWS
    if not chunks or not (isinstance(rows, int) and rows <= most):
        return None
    if _writes(body[: body.index(chunks[-1])]):
        return None  # each stage repeats what is before its chunks
    work = _Stages(chain, rows, columns)
    for s in body:
        if isinstance(s, Loop) and s in chunks:
            work.chunk(s, is_last=s is chunks[-1])
        else:
            work.before.append(s)
    last = inside(chain, (Loop("%total", 1, "parallel", tuple(work.before)),))
    return (*scalars, *work.stages, *last)


@dataclass
class _Stages:
    """The stages so far of folds of rows or ``columns``, whose loops are in ``chain``.

    ``before`` is what comes before the next chunks. Chunks of columns are side by side in memory,
    as columns are; those of a row follow one another.
    """

    chain: Sequence[Loop]
    rows: int
    columns: bool
    before: list[Statement] = field(default_factory=list[Statement])
    stages: list[Statement] = field(default_factory=list[Statement])

    def chunk(self, s: Loop, is_last: bool) -> None:
        """A stage for chunks, and what adds up their totals."""
        head, tail = cut_chunk(s)
        given = [t.scalar for t in tail if isinstance(t, Let) and _is_own(t.scalar, s)]
        parts = [self._room(f"part{_number(s)}_{j}", x, s.extent) for j, x in enumerate(given)]
        place = self._place(s.extent, symbol(s.var))
        stores = [Store(b, place, x) for b, x in zip(parts, given, strict=True)]
        inner: Body = (*self.before, *head, *map(Let, given), *stores)
        if self.columns:
            inner = inside(self.chain, inner)
        for part in _even(replace(s, kind="parallel", body=inner)):
            self._stage((part,), () if self.columns else self.chain)
        totals = self._totals(s, tail, dict(zip(given, parts, strict=True)))
        self.before += totals
        many = isinstance(s.extent, int) and s.extent > MANY
        if many and not is_last:
            self._once(s, tail, len(totals))

    def _once(self, s: Loop, tail: Body, added: int) -> None:
        """A stage that adds up totals, which later ones read in place of the last ``added``."""
        named = {x.memory for x in accesses(tail) if isinstance(x, Store)}
        totals = [m for m in named if isinstance(m, Local) and m.size == 1]
        if len(totals) < len(named) or any(not _declares(self.before, m) for m in totals):
            return
        at = self._place(1, 0)
        loads = [Load(m.dtype, m, 0) for m in totals]
        found = [self._room(f"sum{_number(s)}_{j}", x, 1) for j, x in enumerate(loads)]
        stores = [Store(b, at, x) for b, x in zip(found, loads, strict=True)]
        once = Loop("%once", 1, "parallel", (*self.before, *map(Let, loads), *stores))
        self._stage((once,), self.chain)
        again = [Load(x.dtype, b, at) for b, x in zip(found, loads, strict=True)]
        del self.before[-added:]
        self.before += map(Let, again)
        self.before += [Store(m, 0, x) for m, x in zip(totals, again, strict=True)]

    def _totals(self, s: Loop, tail: Body, parts: dict[Scalar, Buffer]) -> Body:
        """The loop that adds the totals of chunks; many of a row are read by its lanes first."""
        n = s.extent
        if self.columns or not (isinstance(n, int) and n > MANY):
            at = self._place(n, symbol(s.var))
            loads: dict[Scalar, Scalar] = {x: Load(x.dtype, b, at) for x, b in parts.items()}
            return (replace(s, body=renamed(tail, loads)),)
        whole = n - n % TILE
        turn = f"%turn{_number(s)}"
        tiles = self._tile(s, tail, parts, TILE * symbol(turn), TILE) if whole else ()
        rest = self._tile(s, tail, parts, whole, n % TILE, "r") if n % TILE else ()
        return (Loop(turn, whole // TILE, "serial", tiles), *rest)

    def _tile(
        self,
        s: Loop,
        tail: Body,
        parts: dict[Scalar, Buffer],
        first: Dim,
        count: int,
        suffix: str = "",
    ) -> Body:
        """Adds the totals of ``count`` chunks, which lanes read together."""
        k = f"{_number(s)}{suffix}"
        place, among = f"%place{k}", f"%among{k}"
        read: list[Statement] = []
        names: dict[Scalar, Scalar] = {}
        tiles: list[Local] = []
        for j, (x, part) in enumerate(parts.items()):
            tiles.append(Local(f"tile{k}_{j}", x.dtype, count))
            found = Load(x.dtype, part, self._place(s.extent, first + symbol(place)))
            read += (Let(found), Store(tiles[-1], symbol(place), found))
            names[x] = Load(x.dtype, tiles[-1], symbol(among))
        adds = Rewriting({s.var: first + symbol(among)}, suffix=suffix and f".{suffix}").body(
            renamed(tail, names)
        )
        return (
            *tiles,
            Loop(place, count, "parallel", tuple(read)),
            Loop(among, count, "serial", adds),
        )

    def _place(self, count: Dim, number: Dim) -> Dim:
        """Where the total of a chunk is."""
        at = flatten([symbol(s.var) for s in self.chain], [s.extent for s in self.chain])
        return number * self.rows + at if self.columns else at * count + number

    def _room(self, name: str, x: Scalar, count: Dim) -> Buffer:
        """Memory for so many totals of each row."""
        return Buffer(name, TensorType(x.dtype, (self.rows * count,)), "scratch")

    def _stage(self, body: Body, chain: Sequence[Loop]) -> None:
        self.stages += inside(chain, body, f".s{len(self.stages)}")


def _writes(body: Body) -> bool:
    return any(isinstance(x, Store) and isinstance(x.memory, Buffer) for x in accesses(body))


def _is_own(x: Scalar, chunk: Loop) -> bool:
    own = {s.name for s in statements(chunk.body) if isinstance(s, Local)}
    return isinstance(x, Load) and x.memory.name in own


def _even(chunks: Loop) -> list[Loop]:
    """The chunks, the last one by itself where it is shorter: so each has a known length."""
    last = chunks.extent - 1
    inside = [t.extent for t in statements(chunks.body) if isinstance(t, Loop)]
    if not isinstance(last, int) or all(chunks.var not in symbols(n) for n in inside):
        return [chunks]
    whole = replace(chunks, extent=last, body=_settled(chunks.body, chunks.var, last))
    rest = Rewriting({chunks.var: last}).body(chunks.body)
    return [whole, replace(chunks, extent=1, body=rest)]


def _settled(body: Body, var: str, count: int) -> Body:
    """Loops whose extent is the same in all of the first turns of a loop have that extent."""
    done: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            least, most = bounds(s.extent, {var: (0, count - 1)})
            same = symbols(s.extent) and least == most
            extent = int(least) if same else s.extent
            s = replace(s, extent=extent, body=_settled(s.body, var, count))
        done.append(s)
    return tuple(done)


def _has_lanes(s: Loop) -> bool:
    return any(isinstance(t, Loop) and t.kind == "parallel" for t in statements(s.body))


def _number(chunk: Loop) -> str:
    return chunk.var.removeprefix(CHUNK)


def _declares(body: Sequence[Statement], array: Local) -> bool:
    return any(isinstance(s, Local) and s.name == array.name for s in body)
