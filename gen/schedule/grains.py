"""Which loops threads share, and how finely.

A loop whose turns are independent gets a *grain*: at least so many turns (of it, and of the
loops right inside that it is taken together with, ``levels`` in all) are worth a thread. What a
turn costs is what ``cost`` says; where sizes are not known the grain is an
expression that is evaluated when the kernel runs. Results do not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from dlvm.cost import WEIGHTS
from dlvm.gen.loops.index import step_of
from dlvm.gen.loops.statements import (
    Bind,
    Body,
    Define,
    Let,
    Load,
    Loop,
    Number,
    Product,
    Scalar,
    Word,
    statements,
)
from dlvm.ir import F32, F64, Dim
from dlvm.ir.sizes.dims import bounds, floordiv, maximum, minimum, symbols
from dlvm.target import Target

from .cost import Costs
from .transforms.share import Share

WIDEST = 64
"""Lanes of the widest vectors there are."""
MANY_REGISTERS = 32
"""With fewer, half of them hold the sums of columns, as the rest is needed for what is added."""
PLAIN = 3
"""Words in a fold of columns that is mostly reading."""
SHARED_PRODUCTS_FROM = 16
"""Products in a row are shared among threads from here on; fewer share each one's own work."""


def grains(body: Body, work: int, target: Target) -> Iterator[Share]:
    """The loops that several threads may share, each in parts of ``work`` ps (0: none)."""
    costs = Costs(body, target)
    for s in body if work else ():
        if isinstance(s, Loop):
            yield from _grains(s, work, costs)


def _grains(loop: Loop, work: int, costs: Costs) -> Iterator[Share]:
    """Independent loops as they are, serial ones with those inside."""
    if loop.kind == "serial":
        for s in loop.body:
            if isinstance(s, Loop):
                yield from _grains(s, work, costs)
        return
    if loop.kind not in ("parallel", "vector") or loop.limit is not None or _few_products(loop):
        return
    whole = costs.time((loop,))
    if isinstance(whole, int) and whole < 2 * work:
        return
    chain = _chain(loop)
    turns = [_most(costs.time(s.body)) for s in chain]
    fine = (i for i, c in enumerate(turns, 1) if isinstance(c, int) and 4 * c <= work)
    levels = next(fine, len(chain))
    turn = turns[levels - 1]
    grain = maximum(1, floordiv(turn + (work - 1), turn)) if turn != 0 else 1
    yield Share(loop.var, _rounded(grain, chain[levels - 1]), levels)


def _rounded(grain: Dim, loop: Loop) -> Dim:
    """A grain of a vector loop is whole vectors, whatever their width."""
    if loop.kind != "vector":
        return grain
    whole = max(loop.width, WIDEST)
    rounded = floordiv(grain + (whole - 1), whole) * whole
    if not loop.strip:
        return rounded
    many = minimum(1, floordiv(loop.extent, 2 * loop.strip))  # columns enough for long strips
    return maximum(rounded, loop.strip * many)


def strips(target: Target) -> tuple[int, ...]:
    """Columns of four bytes that one thread folds together, the best first: what registers hold."""
    most = target.lanes(4) * target.registers
    most = most if target.registers >= MANY_REGISTERS else most // 2
    return most, most // 2, most // 4


def columns(loop: Loop, target: Target) -> int:
    """How many columns the vectors of a loop take through the loops inside it together.

    As many as registers hold, and so from memory a long piece of each row, where that is most of
    the work; 0 where the work or the number of columns is not known to be like that.
    """
    size = loop.extent
    if not (isinstance(size, int) and _mostly_reads(loop)):
        return 0
    return next((n for n in strips(target) if 2 * n <= size and -size % n <= size // 4), 0)


def open_columns(loop: Loop, target: Target) -> int:
    """The same where the number of columns is open: while that many are left."""
    return 0 if isinstance(loop.extent, int) or not _mostly_reads(loop) else strips(target)[0]


def _mostly_reads(loop: Loop) -> bool:
    """Whether a vector loop folds columns and does little with them."""
    inside = [t for s in loop.body if isinstance(s, Loop) for t in statements(s.body)]
    lets = [s.scalar for s in statements(loop.body) if isinstance(s, Let)]
    words = [t.scalar.word for t in inside if isinstance(t, Let) and isinstance(t.scalar, Word)]
    simple = bool(inside) and len(words) <= PLAIN and not {*words} & {*WEIGHTS}
    return simple and all(_along(x, loop.var) for x in lets)


def _along(x: Scalar, var: str) -> bool:
    """Whether a vector of a scalar is one piece of memory, or computed from such ones."""
    if isinstance(x, Load):
        return x.dtype in (F32, F64) and not x.where and step_of(x.offset, var) in (0, 1)
    return isinstance(x, Word | Number) and x.dtype in (F32, F64)


def _chain(loop: Loop) -> list[Loop]:
    """A loop and those right inside it, beside nothing but scalars, that are as independent."""
    chain = [loop]
    while True:
        loops = [s for s in chain[-1].body if isinstance(s, Loop)]
        plain = all(isinstance(s, Loop | Let | Define | Bind) for s in chain[-1].body)
        if chain[-1].kind == "vector" or len(loops) != 1 or not plain:
            return chain
        if loops[0].kind not in ("parallel", "vector") or loops[0].limit is not None:
            return chain
        if {s.var for s in chain} & set(symbols(loops[0].extent)):
            return chain
        chain.append(loops[0])


def _few_products(loop: Loop) -> bool:
    if not any(isinstance(s, Product) for s in statements(loop.body)):
        return False
    turns: Dim = 1
    for s in _chain(loop):
        turns = turns * s.extent
    return isinstance(turns, int) and turns < SHARED_PRODUCTS_FROM


def _most(cost: Dim) -> Dim:
    """The most that a cost can be, where that is a number.

    Pieces of an open length are whole where there are several, which is where it matters.
    """
    most = bounds(cost)[1]
    return cost if most == math.inf else int(most)
