"""The transform ``deal``: folds of long rows whose chunks are dealt to the warps of a block.

A fold goes along a row chunk by chunk and adds the result of each chunk to a total. Chunks do not
depend on one another, so each can be folded by a warp of its own, which writes its result to an
array of the block. All lanes then add these results in the order of chunks, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeGuard

from dlvm.gen.loops.rewriting import Rewriting, renamed
from dlvm.gen.loops.simplify import used
from dlvm.gen.loops.statements import (
    WARP,
    Body,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Scalar,
    Statement,
    Store,
    Word,
    accesses,
    scalars,
    statements,
)
from dlvm.gen.schedule.chunks import CHUNK, is_chunks, rows_of
from dlvm.gen.schedule.transform import OfKernel, register
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import symbol, symbols

LONG = 2048
"""Elements of a row from which on a block has several warps."""
WARPS = 4
"""Warps of a block that folds a long row.

With 4 warps of 96 registers five blocks fit on a processor with 65,536; with 8 only two would.
"""


@register
@dataclass(frozen=True, slots=True)
class Deal(OfKernel):
    """The chunks of each row are turns of a parallel loop, where the kernel's rows are long.

    All of its folds are dealt or none is, as a fold by all lanes would wait at each step.
    """

    word: ClassVar[str] = "deal"
    impossible: ClassVar[str] = "its rows are short, or not all of its folds can be dealt"

    @staticmethod
    def made(body: Body) -> Body | None:
        """The statements with this done, if that can be."""
        return dealt(body)


def dealt(whole: Body) -> Body | None:
    """The statements with the chunks of rows in parallel, if that can be."""
    before, chain, body = rows_of(whole)
    if not chain or not _is_long(body) or _has_own_arrays(body):
        return None
    work = _Dealing()
    work.body(body)
    if not work.arrays or any(map(_is_left, work.done)):
        return None
    inner: Body = (*work.arrays, *work.done)
    for s in reversed(chain):
        inner = (replace(s, body=inner),)
    return (*before, *inner)


def warps_of(body: Body) -> int:
    """How many warps share the work of a row: one unless it has chunks that are dealt."""
    chunks = [s for s in body if _is_dealt(s)]
    if not chunks:
        return 1
    most = max(s.extent if isinstance(s.extent, int) else WARPS for s in chunks)
    return WARPS if _is_wide(body) else min(WARPS, most)


def _is_dealt(s: Statement) -> TypeGuard[Loop]:
    """Whether a loop is over chunks, each of which a warp folds."""
    return isinstance(s, Loop) and s.kind == "parallel" and s.var.startswith(CHUNK)


def _is_left(s: Statement) -> bool:
    """Whether a fold was not dealt to warps."""
    return _has_lanes(s) or (isinstance(s, Local) and s.size == WARP)


def _is_long(body: Body) -> bool:
    return _is_wide(body) or any(_has_lanes(s) for s in body)


def _is_wide(body: Body) -> bool:
    """Whether lanes share more than the elements of a fold."""
    loops = [s for s in body if isinstance(s, Loop) and s.kind == "parallel"]
    return any(_elements(s) > LONG for s in loops if not _is_dealt(s))


def _elements(s: Loop) -> int:
    """Iterations of a loop and the parallel loops inside, as far as they are known."""
    inside = [t for t in s.body if isinstance(t, Loop) and t.kind == "parallel"]
    own = s.extent if isinstance(s.extent, int) else 1
    return own * max((_elements(t) for t in inside), default=1)


def _has_own_arrays(body: Body) -> bool:
    """Whether an iteration of a parallel loop has arrays of its own."""
    return any(isinstance(t, Local) for s in _lanes_in(body) for t in statements(s.body))


def _has_lanes(s: Statement) -> TypeGuard[Loop]:
    """Whether a loop goes over a known number of chunks, in each of which lanes share the work."""
    return is_chunks(s) and isinstance(s.extent, int) and any(_lanes_in(s.body))


def _lanes_in(body: Body) -> Iterator[Loop]:
    return (s for s in statements(body) if isinstance(s, Loop) and s.kind == "parallel")


@dataclass
class _Dealing:
    """The statements of a row, and the arrays for the results of chunks."""

    arrays: list[Statement] = field(default_factory=list[Statement])
    done: list[Statement] = field(default_factory=list[Statement])

    def body(self, body: Body) -> None:
        """All statements, with chunks in parallel."""
        at = 0
        while at < len(body):
            s = body[at]
            if _has_lanes(s):
                self.done += self._loop(s)
            elif isinstance(s, Local) and (end := _end_of_fold(body, at)):
                body = (*body[:end], *self._once(body[at:end], body[end:]))
                at = end
                continue
            else:
                self.done.append(s)
            at += 1

    def _loop(self, s: Loop) -> Body:
        """Chunks in parallel, and then the loop that adds their results."""
        end = _end_of_fold(s.body, 0)
        head, tail = s.body[:end], s.body[end:]
        if not end or not _is_apart(head, tail):
            return (s,)
        name = f"{s.var}.sum"
        assert isinstance(s.extent, int)
        chunks, loads = self._dealt(s.var, s.extent, head, tail, symbol(name))
        adds = Rewriting({s.var: symbol(name)}).body(renamed(tail, loads))
        return (chunks, replace(s, var=name, body=used(adds)))

    def _once(self, head: Body, rest: Body) -> Body:
        """A fold of a single chunk, and what follows, which reads the result of the chunk."""
        before, head = _lifted(head)
        self.done += before
        if not _is_apart(head, rest):
            self.done += head
            return rest
        first = head[0]
        assert isinstance(first, Local)
        name = f"{CHUNK}.{first.name.removeprefix('%')}"
        chunks, loads = self._dealt(name, 1, head, rest, 0)
        self.done.append(chunks)
        return renamed(rest, loads)

    def _dealt(
        self, name: str, count: int, head: Body, tail: Body, at: Dim
    ) -> tuple[Loop, dict[Scalar, Scalar]]:
        """The loop over chunks, and what the statements behind it read in place of its arrays."""
        own = _own(head)
        given = [s.scalar for s in tail if isinstance(s, Let) and _reads(s.scalar, own)]
        stores: list[Statement] = []
        loads: dict[Scalar, Scalar] = {}
        parts: dict[str, Local] = {}
        for x in given:
            assert isinstance(x, Load)
            if x.memory.name not in parts:
                part = Local(f"part.{x.memory.name}", x.dtype, count)
                parts[x.memory.name] = part
                found = Load(x.dtype, x.memory, 0)
                stores += (Let(found), Store(part, symbol(name), found))
            loads[x] = Load(x.dtype, parts[x.memory.name], at)
        self.arrays += parts.values()
        return Loop(name, count, "parallel", (*head, *stores)), loads


def _end_of_fold(body: Body, start: int) -> int:
    """Where the statements end that fold into the arrays that are declared from here on."""
    first = start
    while start < len(body) and isinstance(body[start], Local):
        start += 1
    own = {s.name for s in body[first:start] if isinstance(s, Local) and s.size == WARP}
    if start == first or len(own) < start - first:
        return 0
    ends = (i + 1 for i, s in enumerate(body) if i >= start and _folds(s, own))
    return max(ends, default=0)


def _lifted(head: Body) -> tuple[Body, Body]:
    """The scalars between the statements of a fold that need nothing of it, and the fold.

    Others may use them as well: elements behind the last whole group, or a mean.
    """
    made = {s.scalar for s in statements(head) if isinstance(s, Let)}
    written = {x.memory.name for x in accesses(head) if isinstance(x, Store)}
    named = {s.name for s in head if isinstance(s, Define)}
    before: list[Statement] = []
    rest: list[Statement] = []
    for s in head:
        if isinstance(s, Let) and _is_free(s.scalar, made, written, named):
            made.remove(s.scalar)
            before.append(s)
        else:
            rest.append(s)
    return tuple(before), tuple(rest)


def _is_free(x: Scalar, made: set[Scalar], written: set[str], named: set[str]) -> bool:
    """Whether a scalar needs no other that is ``made``, nothing ``written`` and no index named."""
    if isinstance(x, Load):
        indices = {n for d in (x.offset, *x.where) for n in symbols(d)}
        return x.memory.name not in written and named.isdisjoint(indices)
    return isinstance(x, Word) and made.isdisjoint(x.operands)


def _folds(s: Statement, own: set[str]) -> bool:
    if isinstance(s, Loop):
        return any(x.memory.name in own for x in accesses((s,)))
    return isinstance(s, Store) and s.memory.name in own


def _own(head: Body) -> set[str]:
    return {s.name for s in head if isinstance(s, Local)}


def _reads(x: Scalar, own: set[str]) -> bool:
    return isinstance(x, Load) and x.memory.name in own


def _is_apart(head: Body, rest: Body) -> bool:
    """Whether a warp can run the head alone, of which the rest reads nothing but its results.

    Its lanes then keep the arrays in registers, each an element.
    """
    own = _own(head)
    made = {s.scalar for s in statements(head) if isinstance(s, Let)}
    inside = list(statements(rest))
    loads = [s.scalar for s in inside if isinstance(s, Let) and _reads(s.scalar, own)]
    plain = [s for s in rest if isinstance(s, Let) and _reads(s.scalar, own)]
    first = all(isinstance(x, Load) and x.offset == 0 and not x.where for x in loads)
    alone = not any(x in made for s in inside for x in scalars(s))
    stored = any(isinstance(x, Store) and x.memory.name in own for x in accesses(rest))
    return (
        bool(loads)
        and len(plain) == len(loads)
        and first
        and alone
        and not stored
        and (_in_registers(head, own, None))
    )


def _in_registers(body: Sequence[Statement], own: set[str], lane: Dim | None) -> bool:
    """Whether lanes touch elements at known distances from their own, or known ones."""
    for s in body:
        if isinstance(s, Loop):
            inner = symbol(s.var) if s.kind == "parallel" else lane
            if not _in_registers(s.body, own, inner):
                return False
        x = s.scalar if isinstance(s, Let) else s
        if isinstance(x, Load | Store) and x.memory.name in own:
            far = x.offset if lane is None else x.offset - lane
            if not isinstance(far, int):
                return False
        if isinstance(s, Local) and s.name not in own:
            return False
    return True
