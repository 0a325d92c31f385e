"""How much a kernel does, as sizes: what the report says and the interpreter counts.

Additions and multiplications count one, an fma two, other functions of floats one; comparisons,
selections, conversions and what only serves the order of a fold count nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import Atom, Call, Monomial, floordiv, minimum, substitute, symbol, symbols
from dlvm.ir.sizes.polynomials import summed
from dlvm.ir.sizes.positions import recombine

from .index import ceildiv
from .statements import (
    Bind,
    Body,
    Buffer,
    Define,
    Let,
    Load,
    Loop,
    Product,
    Scalar,
    Search,
    Size,
    Sort,
    Statement,
    Store,
    Word,
)

FEW = 64
"""Turns of a loop up to which what each does is added up."""


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


def accesses(body: Body) -> dict[str, Dim]:
    """How many elements of each memory, by its name, a body reads and writes, counted each time."""
    total: dict[str, Dim] = {}
    for s in body:
        for name, n in _touched(s):
            total[name] = total.get(name, 0) + n
        for inside in _parts(s):
            for name, n in accesses(inside).items():
                total[name] = total.get(name, 0) + _times(s, inside, n)
    return {name: _by_loops(n, body) for name, n in total.items()}


def _touched(s: Statement) -> Iterator[tuple[str, Dim]]:
    match s:
        case Let(Load(memory=memory)) | Store(memory=memory):
            yield memory.name, 1
        case Sort(count=n):
            yield from ((memory.name, 2 * n) for memory in s.touched)
        case Let(Search(memory=memory, count=n)):
            yield memory.name, n
        case Product(x, y, m, n, k):
            sizes = (x, m * k), (y, k * n)
            yield from ((o.buffer.name, n) for o, n in sizes if isinstance(o.buffer, Buffer))
        case _:
            return


def count(body: Body, cost: Callable[[Statement], Dim]) -> Dim:
    """The sum of a cost over every statement of a body, as often as it runs."""
    found: list[Dim] = []
    for s in body:
        found.append(cost(s))
        found += (_times(s, inside, count(inside, cost)) for inside in _parts(s))
    return _by_loops(summed(found), body)


def _parts(s: Statement) -> Iterator[Body]:
    """The bodies in a statement that run equally often."""
    if isinstance(s, Loop):
        yield s.body
    elif isinstance(s, Product):
        yield s.finish
        yield from (fill.body for fill in (s.fill(s.x), s.fill(s.y)) if fill is not None)


def _times(s: Statement, body: Body, once: Dim) -> Dim:
    """A count of one run of such a body, as often as it runs."""
    if isinstance(s, Loop):
        return _turns(s, recombine(once))
    assert isinstance(s, Product)
    sides = (s.x, s.m, s.k), (s.y, s.k, s.n)
    for x, rows, cols in sides:
        fill = s.fill(x)
        if fill is not None and fill.body is body:
            far, near = (cols, rows) if x.transposed else (rows, cols)
            whole: tuple[Dim, ...] = (0, 0, far, floordiv(near, fill.unit), near)
            return substitute(once, dict(zip(fill.spot, whole, strict=True)))
    return _product(s, once)


def _by_loops(total: Dim, body: Body) -> Dim:
    """A count without the names that a body gives to indices; what data says is at its highest."""
    for s in reversed(body):
        match s:
            case Define(name, dim) | Bind(name, Size(dim)):
                total = substitute(total, {name: dim})
            case Bind(name, _, high):
                total = substitute(total, {name: high})
            case _:
                pass
    return total


def _turns(loop: Loop, inside: Dim) -> Dim:
    """All turns of a loop together."""
    if loop.extent == 0:
        return 0
    if loop.counts is not None:
        return loop.counts * inside
    found: list[Dim] = []
    for mono, factor in inside.terms if isinstance(inside, Expr) else (((), inside),):
        own = tuple(pair for pair in mono if loop.var in symbols(_monomial((pair[0], 1))))
        same = tuple(pair for pair in mono if pair not in own)
        turns = _summed(loop, own) if own else _repeated(loop, same)
        found.append(factor * _monomial(*same) * turns)
    return summed(found)


def _repeated(loop: Loop, same: Monomial) -> Dim:
    """How often what each turn does alike counts: once for n in a loop of ``min(1, n)`` turns."""
    once = any(loop.extent == minimum(1, _monomial((atom, 1))) for atom, _ in same)
    return 1 if once else loop.extent


def _summed(loop: Loop, own: Monomial) -> Dim:
    """The sum over all turns of what depends on the turn.

    Where a turn takes a piece, of ``min(n - k*var, k)``, they take n. Powers have closed forms, and
    few turns are added one by one. What is left is taken for as much as in the first turn, which
    takes a whole piece.
    """
    n = loop.extent
    match own:
        case ((Call("min", rest, int(k)) | Call("min", int(k), rest), 1),):
            whole = rest + k * symbol(loop.var)
            if loop.var not in symbols(whole):
                return whole
        case ((loop.var, 1),):
            return floordiv(n * (n - 1), 2)
        case ((loop.var, 2),):
            return floordiv(n * (n - 1) * (2 * n - 1), 6)
        case ((loop.var, 3),):
            return floordiv(n * n * (n - 1) * (n - 1), 4)
        case _ if isinstance(n, int) and 0 <= n <= FEW:
            turns = (substitute(_monomial(*own), {loop.var: i}) for i in range(n))
            return sum(turns, start=0)
        case _:
            pass
    return loop.extent * substitute(_monomial(*own), {loop.var: 0})


def _monomial(*pairs: tuple[Atom, int]) -> Dim:
    return Expr(((pairs, 1),)) if pairs else 1


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
