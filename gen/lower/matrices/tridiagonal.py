"""Three diagonals of a symmetric matrix, by reflections of rows and columns.

A reflection of rows and columns leaves of a column the element below the diagonal (Golub and Van
Loan, 8.3). Of more than 64 rows the matrix takes in the reflections of a panel at once, by a
product (Dongarra, Hammarling and Sorensen 1989). Neither depends on the number of threads.
"""

from __future__ import annotations

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


class Tridiagonal:
    """Reduces a full symmetric matrix in scratch memory, which is spoilt.

    The diagonals go to ``band``. Column k of ``reflectors``, below the
    diagonal, is the reflector of row k - 1 and leaves the rows before k alone, as that of a QR
    factorisation does; column 0 has none.
    """

    def __init__(self, work: Work, x: Matrix, band: Band, line: Index) -> None:
        self.work, self.x, self.n, self.band = work, x, band.n, band
        n = band.n

        def room(name: str, rows: Dim, columns: Dim) -> Matrix:
            return work.room(name, line, (rows, columns), work.batch, work.dtype)

        self.reflectors, self.scales = room("reflectors", n, n), room("scales", n + 1, 1)
        self.left, self.right = room("left", 2 * WIDTH, n), room("right", 2 * WIDTH, n)
        self.sums = room("sums", 2 * WIDTH, 1)

    def by_steps(self) -> None:
        """Each reflection is taken in at once."""
        nest, words, n = self.work.nest, self.work.words, self.n
        with nest.loop("serial", n - 1, "k") as k:
            scale = self._reflector(k, 0)
            self._times(k)
            self._second(k, 0, scale)
            v, w, count = self.left, self.right, n - 1 - k
            with nest.loop(self.work.kind, count) as i:
                row = k + 1 + i
                first, second = v.load(0, row), w.load(0, row)
                with nest.loop(self.work.kind, count) as j:
                    column = k + 1 + j
                    one = self.work.minus(self.x.load(row, column), first, w.load(0, column))
                    new = words.binary("sub", one, words.binary("mul", second, v.load(0, column)))
                    self.x.store(row, column, new)
        self._finish()

    def by_panels(self) -> None:
        """The columns of a panel one by one, and what is behind them by a product."""
        nest, n = self.work.nest, self.n
        with nest.loop("serial", ceildiv(n - 1, WIDTH), "panel") as p:
            here = Span(p * WIDTH, minimum(WIDTH, n - 1 - p * WIDTH))
            with nest.loop("serial", here.size, "t") as t:
                self._in_panel(nest.named("row", here.start + t, n - 2), t)
            rest = here.to(n)
            u, v = block(self.left, 0, rest.start, True), block(self.right, 0, rest.start)
            subtract(self.work, self.x, rest, rest, Factors(u, v, 2 * here.size))
        self._finish()

    def _in_panel(self, k: Dim, t: Dim) -> None:
        """Column k, which takes in the t reflections before it in the panel.

        The rows of ``left`` are v, w, v, w ... and those of ``right`` w, v, w, v ...: what the
        matrix has to take in is minus the transpose of the one times the other.
        """
        work, nest, n, count = self.work, self.work.nest, self.n, self.n - 1 - k
        with nest.loop("serial", 2 * t, "s") as s:
            factor = self.left.load(s, k)
            with nest.loop(work.kind, n - k) as j:
                column = k + j
                new = work.minus(self.x.load(k, column), factor, self.right.load(s, column))
                self.x.store(k, column, new)
        scale = self._reflector(k, 2 * t)
        v = block(self.left, 2 * t, k + 1)
        target = self.right

        def put(_: Dim, j: Dim, total: Scalar) -> None:
            target.store(2 * t, k + 1 + j, total)

        multiply(work, 1, count, Factors(v, block(self.x, k + 1, k + 1), count), put)

        def keep(i: Dim, _: Dim, total: Scalar) -> None:
            self.sums.store(i, 0, total)

        column = block(self.left, 2 * t, k + 1, True)
        multiply(work, 2 * t, 1, Factors(block(self.left, 0, k + 1), column, count), keep)
        with nest.loop("serial", 2 * t, "s") as s:
            factor = self.sums.load(s, 0)
            with nest.loop(work.kind, count) as j:
                at = k + 1 + j
                target.store(
                    2 * t, at, work.minus(target.load(2 * t, at), factor, self.right.load(s, at))
                )
        self._second(k, 2 * t, scale)

    def _reflector(self, k: Dim, row: Dim) -> Scalar:
        """Row k beside the diagonal becomes a multiple of the first unit; the reflector's factor.

        The reflector goes to a row of ``left``.
        """
        work, nest, words, x, n = self.work, self.work.nest, self.work.words, self.x, self.n
        first, count = x.load(k, k + 1), n - 2 - k
        below = work.dot(count, lambda i: x.load(k, k + 2 + i))
        none = words.binary("le", below, words.binary("mul", self.band.least, self.band.least))
        square = words.binary("mul", first, first)
        length = words.unary("sqrt", words.binary("add", square, below))
        end = words.unary("neg", words.binary("copysign", length, first))
        self.band.put_beside(k, words.select(none, first, end))
        apart = words.binary("sub", first, end)
        zero, one = work.number(0), work.number(1)
        self.left.store(row, k + 1, one)
        with nest.loop(work.kind, count) as j:
            part = words.binary("div", x.load(k, k + 2 + j), apart)
            self.left.store(row, k + 2 + j, words.select(none, zero, part))
        with nest.loop(work.kind, count) as j:
            self.reflectors.store(k + 2 + j, k + 1, self.left.load(row, k + 2 + j))
        scale = words.binary("div", words.binary("sub", end, first), end)
        scale = words.select(none, zero, scale)
        self.scales.store(k + 1, 0, scale)
        return scale

    def _times(self, k: Dim) -> None:
        """``v' A`` of what is behind column k, to a row of ``right``."""
        work, nest, words, count = self.work, self.work.nest, self.work.words, self.n - 1 - k
        v, total = self.left, self.right
        with nest.loop(work.kind, count) as j:
            total.store(0, k + 1 + j, self.x.load(k + 1, k + 1 + j))
        with nest.loop("serial", count - 1) as i:
            factor = v.load(0, k + 2 + i)
            with nest.loop(work.kind, count) as j:
                at = k + 1 + j
                part = words.binary("mul", factor, self.x.load(k + 2 + i, at))
                total.store(0, at, words.binary("add", total.load(0, at), part))

    def _second(self, k: Dim, row: Dim, scale: Scalar) -> None:
        """``w = s A v - (s^2/2) (v' A v) v``, and both vectors in both of the panel's matrices."""
        work, nest, words, count = self.work, self.work.nest, self.work.words, self.n - 1 - k
        v, w = self.left, self.right
        dot = work.dot(count, lambda i: v.load(row, k + 1 + i), lambda i: w.load(row, k + 1 + i))
        half = words.binary("mul", words.binary("mul", scale, work.number(0.5)), dot)
        with nest.loop(work.kind, count) as j:
            at = k + 1 + j
            first = v.load(row, at)
            found = words.binary("mul", scale, work.minus(w.load(row, at), half, first))
            w.store(row, at, found)
            v.store(row + 1, at, found)
            w.store(row + 1, at, first)

    def _finish(self) -> None:
        """The diagonal is where it was, and reflector 0 is none."""
        zero, n = self.work.number(0), self.n
        self.work.each(n, 1, lambda i, _: self.band.put(i, self.x.load(i, i)))
        self.work.each(n, 1, lambda i, _: self.reflectors.store(i, 0, zero))
        self.scales.store(0, 0, zero)
