"""How much a kernel does, as sizes: what the report says and the interpreter counts.

Additions and multiplications count one, an fma two, other functions of floats one; comparisons,
selections, conversions and what only serves the order of a fold count nothing.
"""

from __future__ import annotations

from dlvm.ir import Dim
from dlvm.ir.dims import substitute

from .index import ceildiv
from .loops import Body, Let, Loop, Product, Scalar, Word


def flops_of(scalar: Scalar) -> int:
    """Floating-point operations of one evaluation."""
    if not isinstance(scalar, Word) or not scalar.dtype.is_float:
        return 0
    return {"fma": 2, "select": 0, "cast": 0}.get(scalar.word, 1)


def flops(body: Body) -> Dim:
    """Floating-point operations of a body."""
    total: Dim = 0
    for s in body:
        if isinstance(s, Let) and s.counted:
            total = total + flops_of(s.scalar)
        elif isinstance(s, Loop):
            total = total + s.extent * flops(s.body)
        elif isinstance(s, Product):
            total = total + _product(s)
    return total


def _product(p: Product) -> Dim:
    """Two for each multiplication, and the body: its count is linear in rows and in columns."""
    inside = flops(p.body)
    rows, cols = p.spot[2:]
    once = substitute(inside, {rows: 0, cols: 0})
    per_row = substitute(inside, {rows: 1, cols: 0}) - once
    per_col = substitute(inside, {rows: 0, cols: 1}) - once
    per_element = substitute(inside, {rows: 1, cols: 1}) - per_row - per_col - once
    down, across = ceildiv(p.m, p.tile.size // p.width), ceildiv(p.n, p.width)
    edges = per_row * p.m * across + per_col * p.n * down + once * down * across
    return (per_element + 2 * p.k) * p.m * p.n + edges
