"""How much a kernel does, as sizes: what the report says and the interpreter counts.

Additions and multiplications count one, an fma two, other functions of floats one; comparisons,
selections, conversions and what only serves the order of a fold count nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm.errors import CompilerError
from dlvm.ir import Dim, Expr
from dlvm.ir.dims import Atom, Call, minimum, substitute, symbol, symbols

from .index import ceildiv, recombine
from .loops import (
    Body,
    Let,
    Load,
    Loop,
    Memory,
    Product,
    Scalar,
    Search,
    Sort,
    Statement,
    Store,
    Word,
)


def flops_of(scalar: Scalar) -> int:
    """Floating-point operations of one evaluation."""
    if not isinstance(scalar, Word) or not scalar.dtype.is_float:
        return 0
    return {"fma": 2, "select": 0, "cast": 0, "reinterpret": 0}.get(scalar.word, 1)


def flops_of_product(p: Product) -> Dim:
    """Floating-point operations of the sums alone."""
    return 2 * p.m * p.n * p.k if p.tile.dtype.is_float else 0


def flops(body: Body) -> Dim:
    """Floating-point operations of a body."""
    return count(body, _flops)


def _flops(s: Statement) -> Dim:
    if isinstance(s, Product):
        return flops_of_product(s)
    return flops_of(s.scalar) if isinstance(s, Let) and s.counted else 0


def accesses(body: Body, memory: Memory) -> Dim:
    """How many elements of a memory a body reads and writes, each as often as it does."""

    def touched(s: Statement) -> Dim:
        match s:
            case Let(Load(memory=found)) | Store(memory=found):
                return int(found is memory)
            case Sort(count=count):
                return 2 * count if memory in s.touched else 0
            case Let(Search(memory=found, count=count)):
                return count if found is memory else 0
            case Product(x, y, m, n, k):
                return (x.buffer is memory) * m * k + (y.buffer is memory) * k * n
            case _:
                return 0

    return count(body, touched)


def count(body: Body, cost: Callable[[Statement], Dim]) -> Dim:
    """The sum of a cost over every statement of a body, as often as it runs."""
    total: Dim = 0
    for s in body:
        total = total + cost(s)
        if isinstance(s, Loop):
            total = total + _turns(s, recombine(count(s.body, cost)))
        elif isinstance(s, Product):
            total = total + _product(s, count(s.body, cost))
    return total


def _turns(loop: Loop, inside: Dim) -> Dim:
    """All turns of a loop. Where a turn takes a chunk, of ``min(n - k*var, k)``, they take n.

    A loop of ``min(1, n)`` turns whose turn takes n takes n.
    """
    total: Dim = 0
    if loop.extent == 0:
        return 0
    for mono, factor in inside.terms if isinstance(inside, Expr) else (((), inside),):
        each: Dim = factor
        turns = loop.extent
        for atom, power in mono:
            alone = Expr(((((atom, 1),), 1),))
            if loop.var in symbols(alone):
                turns = _chunked(loop, atom)
            else:
                each = each * Expr(((((atom, power),), 1),))
                turns = 1 if loop.extent == minimum(1, alone) else turns
        total = total + turns * each
    return total


def _chunked(loop: Loop, atom: Atom) -> Dim:
    match atom:
        case Call("min", rest, int(k)) | Call("min", int(k), rest):
            whole = rest + k * symbol(loop.var)
            if loop.var not in symbols(whole):
                return whole
        case _:
            pass
    raise CompilerError(f"the turns of {loop.var} do {atom} each, which has no known sum")


def _product(p: Product, inside: Dim) -> Dim:
    """The body, tile by tile: its count is linear in rows and in columns."""
    rows, cols = p.spot[2:]
    once = substitute(inside, {rows: 0, cols: 0})
    per_row = substitute(inside, {rows: 1, cols: 0}) - once
    per_col = substitute(inside, {rows: 0, cols: 1}) - once
    per_element = substitute(inside, {rows: 1, cols: 1}) - per_row - per_col - once
    down, across = ceildiv(p.m, p.tile.size // p.width), ceildiv(p.n, p.width)
    edges = per_row * p.m * across + per_col * p.n * down + once * down * across
    return per_element * p.m * p.n + edges
