"""Two diagonals of a matrix with no more columns than rows, by reflections from both sides.

Reflections of a column and of a row in turn leave two diagonals (Golub and Kahan 1965). Of more
than 64 columns the matrix takes in the reflections of a panel at once, by a product (Dongarra,
Hammarling and Sorensen 1989). Neither depends on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.gen.loops.index import ceildiv
from dlvm.gen.loops.statements import Scalar
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import minimum
from dlvm.ir.sizes.positions import Index

from .blocks import Factors, Span, block, multiply, subtract
from .sweeps import Band
from .workspace import Matrix, Work

WIDTH = 32
"""Columns of a panel."""


@dataclass(frozen=True, slots=True)
class Line:
    """Elements of a matrix from a place on, along a row or along a column."""

    x: Matrix
    row: Dim
    column: Dim
    down: bool = False

    def place(self, i: Dim) -> tuple[Dim, Dim]:
        """Where an element is."""
        return (self.row + i, self.column) if self.down else (self.row, self.column + i)

    def load(self, i: Dim) -> Scalar:
        """An element."""
        return self.x.load(*self.place(i))

    def store(self, i: Dim, x: Scalar) -> None:
        """Write an element."""
        self.x.store(*self.place(i), x)


def reflector(
    work: Work, band: Band, x: Line, count: Dim, v: Line, kept: Line
) -> tuple[Scalar, ...]:
    """The factor of the reflector of a vector, and the multiple of the first unit that is left.

    The reflector goes to ``v``, and what is behind its first element, 1, to ``kept`` as well.
    """
    nest, words, binary = work.nest, work.words, work.words.binary
    first, zero, one = x.load(0), work.number(0), work.number(1)
    below = work.dot(count - 1, lambda i: x.load(1 + i))
    none = binary("le", below, binary("mul", band.least, band.least))
    length = words.unary("sqrt", binary("add", binary("mul", first, first), below))
    end = words.unary("neg", binary("copysign", length, first))
    apart = binary("sub", first, end)
    v.store(0, one)
    with nest.loop(work.kind, count - 1) as i:
        part = binary("div", x.load(1 + i), apart)
        v.store(1 + i, words.select(none, zero, part))
    with nest.loop(work.kind, count - 1) as i:
        kept.store(i, v.load(1 + i))
    scale = binary("div", binary("sub", end, first), end)
    return words.select(none, zero, scale), words.select(none, first, end)


class Bidiagonal:
    """Reduces a matrix in scratch memory, which is spoilt, to a diagonal and the one above it.

    Column k of ``outer``, below the diagonal, is the reflector of column k, and column k of
    ``inner`` that of row k - 1, as those of a QR factorisation are. The rows of ``left`` are v, z,
    v, z ... and those of ``right`` y, u, y, u ...: what the matrix has to take in is minus the
    transpose of the one times the other.
    """

    def __init__(
        self, work: Work, x: Matrix, shape: tuple[Dim, Dim], band: Band, line: Index, blocked: bool
    ) -> None:
        self.work, self.x, self.shape, self.band, self.blocked = work, x, shape, band, blocked
        m, n = shape
        width = WIDTH if blocked else 1

        def room(name: str, rows: Dim, columns: Dim) -> Matrix:
            return work.room(name, line, (rows, columns), work.batch, work.dtype)

        self.outer, self.inner = room("outer", m, n), room("inner", n, n)
        self.outer_scales, self.inner_scales = (
            room("outer_scales", n, 1),
            room("inner_scales", n + 1, 1),
        )
        self.left, self.right = (
            room(f"left{width}_", 2 * width, m),
            room(f"right{width}_", 2 * width, n),
        )
        self.sums, self.column = room(f"sums{width}_", 2 * width, 1), room("column", 1, m)
        work.each(n, 1, lambda i, _: self.inner.store(i, 0, work.number(0)))
        self.inner_scales.store(0, 0, work.number(0))
        if blocked:
            with work.nest.loop("serial", ceildiv(n, WIDTH), "panel") as p:
                self._panel(Span(p * WIDTH, minimum(WIDTH, n - p * WIDTH)))
            return
        with work.nest.loop("serial", n, "k") as k:
            self._step(k, 0)
            self._take_in_both(Span(k + 1, m - 1 - k), Span(k + 1, n - 1 - k))

    def _panel(self, here: Span) -> None:
        """Some columns and rows, and then what is behind them."""
        nest, (m, n) = self.work.nest, self.shape
        with nest.loop("serial", here.size, "t") as t:
            self._step(nest.named("step", here.start + t, n - 1), t)
        rows, columns = here.to(m), here.to(n)
        u, v = block(self.left, 0, rows.start, True), block(self.right, 0, columns.start)
        subtract(self.work, self.x, rows, columns, Factors(u, v, 2 * here.size))

    def _take_in_both(self, rows: Span, columns: Span) -> None:
        """The reflections of one column and one row, by what is behind them."""
        nest = self.work.nest
        with nest.loop(self.work.kind, rows.size) as i:
            row = rows.start + i
            first, second = self.left.load(0, row), self.left.load(1, row)
            with nest.loop(self.work.kind, columns.size) as j:
                at = columns.start + j
                new = self.work.minus(self.x.load(row, at), first, self.right.load(0, at))
                self.x.store(row, at, self.work.minus(new, second, self.right.load(1, at)))

    def _step(self, k: Dim, t: Dim) -> None:
        """Column k, and then row k, which take in the reflections before them in the panel."""
        work, nest, (m, n) = self.work, self.work.nest, self.shape
        r, c = nest.named("row", k, m - 1), nest.named("column", k, n - 1)
        self._fill_column(r, c, t)
        v, x = Line(self.left, 2 * t, r), Line(self.column, 0, 0)
        kept = Line(self.outer, r + 1, c, True)
        scale, end = reflector(work, self.band, x, m - r, v, kept)
        self.outer_scales.store(c, 0, scale)
        self.band.put(c, end)
        with nest.loop("serial", minimum(1, n - 1 - c), "once"):
            self._sums_of_columns(r, c, t, scale)
            self._take_in_row(r, c, t)
            u, x = Line(self.right, 2 * t + 1, c + 1), Line(self.x, r, c + 1)
            kept = Line(self.inner, c + 2, c + 1, True)
            scale, end = reflector(work, self.band, x, n - 1 - c, u, kept)
            self.inner_scales.store(c + 1, 0, scale)
            self.band.put_beside(c, end)
            self._sums_of_rows(r, c, t, scale)

    def _fill_column(self, r: Dim, c: Dim, t: Dim) -> None:
        """Column c from row r on, as it is by now."""
        work, nest, count = self.work, self.work.nest, self.shape[0] - r
        with nest.loop(work.kind, count) as i:
            self.column.store(0, i, self.x.load(r + i, c))
        with nest.loop("serial", 2 * t, "s") as s:
            factor = self.right.load(s, c)
            with nest.loop(work.kind, count) as i:
                new = work.minus(self.column.load(0, i), factor, self.left.load(s, r + i))
                self.column.store(0, i, new)

    def _sums_of_columns(self, r: Dim, c: Dim, t: Dim, scale: Scalar) -> None:
        """``y = s X' v`` of the columns behind c."""
        work, nest, words, (m, n) = self.work, self.work.nest, self.work.words, self.shape
        v, y, count = Line(self.left, 2 * t, r), Line(self.right, 2 * t, c + 1), n - 1 - c
        if self.blocked:
            factors = Factors(block(self.left, 2 * t, r), block(self.x, r, c + 1), m - r)
            multiply(work, 1, count, factors, lambda _, j, total: y.store(j, total))
            self._lines(self.left, r, 2 * t, 2 * t, m - r)
            self._subtract(y, self.right, c + 1, 2 * t, count)
        else:
            with nest.loop(work.kind, count) as j:
                y.store(j, self.x.load(r, c + 1 + j))
            with nest.loop("serial", m - 1 - r) as i:
                factor = v.load(1 + i)
                with nest.loop(work.kind, count) as j:
                    part = words.binary("mul", factor, self.x.load(r + 1 + i, c + 1 + j))
                    y.store(j, words.binary("add", y.load(j), part))
        with nest.loop(work.kind, count) as j:
            y.store(j, words.binary("mul", scale, y.load(j)))

    def _take_in_row(self, r: Dim, c: Dim, t: Dim) -> None:
        """Row r behind column c, as it is by now."""
        work, nest, count = self.work, self.work.nest, self.shape[1] - 1 - c
        x = Line(self.x, r, c + 1)
        with nest.loop("serial", 2 * t, "s") as s:
            factor = self.left.load(s, r)
            with nest.loop(work.kind, count) as j:
                x.store(j, work.minus(x.load(j), factor, self.right.load(s, c + 1 + j)))
        with nest.loop(work.kind, count) as j:
            x.store(j, work.words.binary("sub", x.load(j), self.right.load(2 * t, c + 1 + j)))

    def _sums_of_rows(self, r: Dim, c: Dim, t: Dim, scale: Scalar) -> None:
        """``z = s X u`` of the rows behind r, of which X has taken in all but u."""
        work, nest, words, (m, n) = self.work, self.work.nest, self.work.words, self.shape
        u, z = Line(self.right, 2 * t + 1, c + 1), Line(self.left, 2 * t + 1, r + 1)
        count, length = m - 1 - r, n - 1 - c
        if self.blocked:
            column = block(self.right, 2 * t + 1, c + 1, True)
            factors = Factors(block(self.x, r + 1, c + 1), column, length)
            multiply(work, count, 1, factors, lambda i, _, total: z.store(i, total))
            self._lines(self.right, c + 1, 2 * t + 1, 2 * t + 1, length)
        else:
            y = Line(self.right, 0, c + 1)
            self.sums.store(0, 0, work.dot(length, y.load, u.load))
            with nest.loop("serial", count) as i:
                x = Line(self.x, r + 1 + i, c + 1)
                z.store(i, work.dot(length, x.load, u.load))
        self._subtract(z, self.left, r + 1, 2 * t + 1, count)
        with nest.loop(work.kind, count) as i:
            z.store(i, words.binary("mul", scale, z.load(i)))

    def _lines(self, x: Matrix, start: Dim, rows: Dim, vector: Dim, length: Dim) -> None:
        """The products of the first rows of a matrix with another of its rows, from a column on."""
        column = block(x, vector, start, True)
        factors = Factors(block(x, 0, start), column, length)
        multiply(self.work, rows, 1, factors, lambda i, _, total: self.sums.store(i, 0, total))

    def _subtract(self, x: Line, rows: Matrix, start: Dim, taken: Dim, count: Dim) -> None:
        """Multiples of the first rows of a matrix, from a column on."""
        work, nest = self.work, self.work.nest
        with nest.loop("serial", taken, "s") as s:
            factor = self.sums.load(s, 0)
            with nest.loop(work.kind, count) as i:
                x.store(i, work.minus(x.load(i), factor, rows.load(s, start + i)))
