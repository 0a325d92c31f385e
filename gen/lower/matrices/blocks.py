"""Blocks of matrices in factorisations: panels of rows or columns, and updates by products.

A factorisation of a large matrix takes a panel by plain steps, and the rest of the matrix takes in
all of a panel at once, by a product, which runs at the speed of the micro kernel. Panels depend
on the size of the matrix alone, and each element is the same sum over k, so that the number of
threads changes no bit. A matrix no larger than a panel takes plain steps only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from dlvm.gen.loops.statements import CHUNK, Local, Operand, Product, Scalar
from dlvm.gen.lower.products import TILE
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import floordiv, minimum, symbol

from .workspace import Matrix, Work

WIDTHS = 256, 64, 16
"""Rows or columns of a panel, of the panels in it, and of those that are taken by plain steps."""
PANEL, STEP = WIDTHS[1:]


@dataclass(frozen=True, slots=True)
class Span:
    """Some rows or columns, one after the other."""

    start: Dim
    size: Dim

    @property
    def end(self) -> Dim:
        """The first one that is not among them."""
        return self.start + self.size

    def to(self, end: Dim) -> Span:
        """Those that follow, up to an end."""
        return Span(self.end, end - self.end)


def widths_for(work: Work, size: Dim) -> tuple[int, ...]:
    """The widths of panels of a matrix, and of panels in them; none where it is small.

    A size that is open has one level of panels, as a matrix that turns out to be small must take
    plain steps only.
    """
    if not work.blocked or (isinstance(size, int) and size <= PANEL):
        return ()
    return tuple(w for w in WIDTHS if w < size) if isinstance(size, int) else (PANEL,)


@contextmanager
def panels(work: Work, span: Span, width: int, forward: bool = True) -> Generator[Span]:
    """One panel of a span after the other: the whole span where it is no wider than a panel."""
    nest, size = work.nest, span.size
    if isinstance(size, int) and size <= width:
        yield span
        return
    with nest.loop("serial", floordiv(size + (width - 1), width), "panel") as p:
        left = size - p * width
        here = nest.named("width", minimum(width, left), left)
        yield Span(span.start + p * width if forward else span.start + left - here, here)


def block(x: Matrix, i: Dim, j: Dim, transposed: bool = False) -> Operand:
    """The part of a matrix that begins at an element, as a factor; or its transpose."""
    return Operand(x.memory, x.at(i, j), transposed, x.columns)


@dataclass(frozen=True, slots=True)
class Factors:
    """Two matrices in memory, and the number of columns of the first."""

    u: Operand
    v: Operand
    k: Dim


def multiply(
    work: Work, m: Dim, n: Dim, factors: Factors, put: Callable[[Dim, Dim, Scalar], None]
) -> None:
    """``U V`` of m rows and n columns, of which each element is put somewhere.

    A single column is computed as the row of the transposes.
    """
    nest, dtype, column = work.nest, work.dtype, n == 1
    most = TILE[1] // dtype.bytes
    tile = Local(nest.fresh("tile"), dtype, TILE[0] * most)
    names = [nest.fresh(f"%{hint}") for hint in ("row", "col", "rows", "cols")]
    row, col, height, width = map(symbol, names)
    with (
        nest.scope(*names, closed=True) as inside,
        nest.loop("serial", height, "r") as r,
        nest.loop("parallel", width, "c") as c,
    ):
        i, j = (col + c, row + r) if column else (row + r, col + c)
        put(i, j, nest.load(tile, r * most + c))
    u, v = factors.u, factors.v
    if column:
        u, v, m, n = v.turned(), u.turned(), 1, m
    whole = tuple(inside)
    nest.put(Product(u, v, m, n, factors.k, CHUNK, tile, most, tuple(names), whole))


def subtract(work: Work, x: Matrix, rows: Span, columns: Span, factors: Factors) -> None:
    """``X -= U V`` for some rows and columns of X."""

    def put(i: Dim, j: Dim, total: Scalar) -> None:
        spot = rows.start + i, columns.start + j
        x.store(*spot, work.words.binary("sub", x.load(*spot), total))

    multiply(work, rows.size, columns.size, factors, put)


@dataclass(frozen=True, slots=True)
class Triangle:
    """A triangular matrix in memory, which systems of equations are solved with."""

    memory: Operand
    unit: bool
    lower: bool

    def element(self, work: Work, i: Dim, k: Dim) -> Scalar:
        """One of its elements, in the type in which it is computed."""
        return work.words.wide(work.nest.load(self.memory.buffer, self.memory.at(i, k)))

    def part(self, i: Dim, k: Dim) -> Operand:
        """The block that begins at an element."""
        return replace(self.memory, offset=self.memory.at(i, k))


def solve(
    work: Work, t: Triangle, x: Matrix, rows: Span, columns: Span, widths: tuple[int, ...]
) -> None:
    """``X = inv(T) X`` for some rows of T and X, in panels of these widths.

    What is solved for is taken, times a block of T, from the rows that are left.
    """
    if not widths:
        _substitute(work, t, x, rows, columns)
        return
    with panels(work, rows, widths[0], t.lower) as here:
        solve(work, t, x, here, columns, widths[1:])
        left = here.to(rows.end) if t.lower else Span(rows.start, here.start - rows.start)
        v = block(x, here.start, columns.start)
        factors = Factors(t.part(left.start, here.start), v, here.size)
        subtract(work, x, left, columns, factors)


def _substitute(work: Work, t: Triangle, x: Matrix, rows: Span, columns: Span) -> None:
    """Each row that is solved for is taken, times an element of T, from those that are left."""
    nest, words, start = work.nest, work.words, columns.start
    with nest.loop("serial", rows.size, "k") as turn:
        k = rows.start + turn if t.lower else rows.end - 1 - turn
        if not t.unit:
            pivot = t.element(work, k, k)
            with nest.loop(work.kind, columns.size) as j:
                x.store(k, start + j, words.binary("div", x.load(k, start + j), pivot))
        with nest.loop(work.kind, rows.size - 1 - turn) as i:
            row = k + 1 + i if t.lower else rows.start + i
            factor = t.element(work, row, k)
            with nest.loop(work.kind, columns.size) as j:
                at = start + j
                x.store(row, at, work.minus(x.load(row, at), factor, x.load(k, at)))
