"""The transform ``join``: loops behind one another over the same indices as one."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, replace
from typing import ClassVar

from dlvm.gen.loops.proofs import Facts
from dlvm.gen.loops.rewriting import Rewriting
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    Search,
    Statement,
    Store,
    accesses,
    statements,
)
from dlvm.gen.schedule.transform import Transform, register
from dlvm.ir.sizes.dims import divide_exactly, product, symbol, symbols
from dlvm.ir.sizes.positions import Index, flatten

from .fuse import nested


@register
@dataclass(frozen=True, slots=True)
class Join(Transform):
    """The loops inside of one, ``levels`` deep, do their turns one behind the other at each index.

    What one of them writes, another may touch at its own index only: in its own part of a buffer.
    """

    word: ClassVar[str] = "join"
    alone: ClassVar[bool] = True
    levels: int = 1

    def rewritten(self, loop: Loop) -> Body:
        """The loop, with one in the place of those inside."""
        if reason := against(loop.body, self.levels):
            raise self.refused(reason)
        loops = siblings(loop.body, self.levels)
        rest = [s for s in loop.body if s not in loops]
        first = nested(loops[0])[: self.levels]
        names = [s.var for s in first]
        body: list[Statement] = list(first[-1].body)
        for other in loops[1:]:
            chain = nested(other)[: self.levels]
            same = {s.var: symbol(n) for s, n in zip(chain, names, strict=True)}
            body += Rewriting(same).body(chain[-1].body)
        inner: Body = tuple(body)
        for s in reversed(first):
            inner = (replace(s, body=inner),)
        return (replace(loop, body=(*rest, *inner)),)


def against(body: Body, levels: int) -> str:
    """Why the loops of a body can't be joined; nothing if they can."""
    loops = siblings(body, levels)
    if len(loops) < 2:
        return f"no {levels} loops over the same indices follow one another"
    rest = tuple(s for s in body if s not in loops)
    if not all(isinstance(s, Let | Define | Bind) for s in rest):
        return "more than scalars stand beside them"
    written = {x.memory for x in accesses(tuple(loops)) if isinstance(x, Store)}
    if any(x.memory in written for x in accesses(rest)):
        return "a scalar beside them is read from what they write"
    if not _is_own(loops, levels, written):
        return "a turn of one touches what another turn of another writes"
    return ""


def siblings(body: Body, levels: int) -> list[Loop]:
    """All the loops of a body, if they go over the same indices and begin with nothing else."""
    loops = [s for s in body if isinstance(s, Loop)]
    chains = [nested(s)[:levels] if s.kind == "parallel" else [] for s in loops]
    sizes = [tuple(s.extent for s in chain) for chain in chains]
    alone = all(len(s.body) == 1 for chain in chains for s in chain[:-1])
    same = all(size == sizes[0] and len(size) == levels for size in sizes)
    return loops if loops and same and alone and levels > 0 else []


def _is_own(loops: list[Loop], levels: int, written: Collection[Buffer | Local]) -> bool:
    """Whether what any of some loops writes is touched by a turn of each in its own part only."""
    inside = list(statements(tuple(loops)))
    own = {s.name for s in inside if isinstance(s, Local)}
    others = {m for m in written if m.name not in own}
    plain = all(isinstance(s, Loop | Let | Define | Bind | Store | Local) for s in inside)
    searches = any(isinstance(s, Let) and isinstance(s.scalar, Search) for s in inside)
    return plain and not searches and all(_touches_own(nested(s)[:levels], others) for s in loops)


def _touches_own(chain: list[Loop], written: Container[object]) -> bool:
    sizes: Index = tuple(s.extent for s in chain)
    at = flatten([symbol(s.var) for s in chain], sizes)
    touched = _touched(chain[-1].body, Facts({s.var: s.extent - 1 for s in chain}))
    for x, facts in touched:
        if x.memory in written:
            if not isinstance(x.memory, Buffer):
                return False  # an array of the kernel's own has no part for each index
            part = divide_exactly(x.memory.size, product(sizes))
            if part is None:
                return False
            rest = x.offset - part * at
            outer = {s.var for s in chain}.isdisjoint(symbols(rest))
            inside = facts.nonnegative(rest) and facts.nonnegative(part - 1 - rest)
            if not (outer and inside):
                return False
    return True


def _touched(body: Body, facts: Facts) -> list[tuple[Load | Store, Facts]]:
    """Each access, and what is known of the indices where it stands."""
    found: list[tuple[Load | Store, Facts]] = []
    for s in body:
        if isinstance(s, Loop):
            found += _touched(s.body, facts.with_variable(s.var, s.extent - 1, s.extent - 1))
        elif isinstance(s, Define | Bind):
            facts = facts.with_variable(s.name, s.high)
        else:
            found += [(x, facts.given(*x.where)) for x in accesses((s,))]
    return found
