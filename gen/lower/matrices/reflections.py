"""The loops of the QR factorisation: reflections by one column, or by a panel of them at once.

Panels are for matrices of known sizes that are large: plain steps have the bits of the reference.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from dlvm.gen.loops.index import ceildiv
from dlvm.gen.loops.statements import Scalar
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import minimum
from dlvm.ir.sizes.positions import Index
from dlvm.ops import QR

from .blocks import STEP, Factors, Span, Triangle, block, multiply, solve, subtract, widths_for
from .workspace import Matrix, Work

WIDTH = 48
"""Columns of a panel."""


def qr(work: Work, op: QR, line: Index) -> None:
    """``R`` above and the reflectors below the diagonal; then ``Q``, from the last one on."""
    m, n = op.a.shape[-2:]
    size = minimum(m, n)
    x = work.room("reflected", line, (m, n), op.a.shape[:-2], work.dtype)
    work.each(m, n, lambda i, j: x.store(i, j, work.element(op.a, (*line, i, j))))
    blocked = isinstance(size, int) and bool(widths_for(work, size))
    (q, r), reflections = op.results, Reflections(work, x, (m, n), line, blocked)
    if r in work.targets:
        work.each(size, n, lambda i, j: work.result(r, (*line, i, j), x.load(i, j, j - i)))
    if q in work.targets:
        y = reflections.unitary()
        work.each(m, size, lambda i, j: work.result(q, (*line, i, j), y.load(i, j)))


class Reflections:
    """Makes an upper triangle of a matrix, with the reflectors below the diagonal.

    If their ``scales`` are given the reflectors are there already. Of several in a kernel each has
    a ``label``, which scratch memory is named after.
    """

    def __init__(
        self,
        work: Work,
        x: Matrix,
        shape: tuple[Dim, Dim],
        line: Index,
        blocked: bool = False,
        scales: Matrix | None = None,
        label: str = "",
    ) -> None:
        self.label = label
        self.work, self.x, self.shape, self.line = work, x, shape, line
        nest, (m, n) = work.nest, shape
        self.size = minimum(m, n)
        self.scales = scales or self.room("scales", (self.size, 1))
        self.total = self.room("totals", (1, n))
        self.blocks = Blocks(self) if blocked else None
        if scales is not None:
            return
        if self.blocks is not None:
            self.blocks.reflect()
            return
        with nest.loop("serial", self.size, "k") as k:
            self.step(k, n)

    def step(self, k: Dim, end: Dim) -> None:
        """The reflection by one column, of the columns behind it up to an end.

        The row and the column of the diagonal element are one number with two names, as bounds of
        its own are known of each.
        """
        work, x, nest, (m, n) = self.work, self.x, self.work.nest, self.shape
        at = nest.named("row", k, m - 1), nest.named("column", k, n - 1)
        scale = _reflector(work, x, at, m)
        self.scales.store(k, 0, scale)
        count = n - 1 - at[1]
        if end is not n:
            count = nest.named("count", end - 1 - k, count)
        _reflect(work, (x, *at), x, scale, self.total, m, at[1] + 1, count)

    def room(self, name: str, shape: Index) -> Matrix:
        """Scratch memory for each matrix of the batch."""
        work = self.work
        return work.room(f"{name}{self.label}", self.line, shape, work.batch, work.dtype)

    def unitary(self) -> Matrix:
        """``Q``, as many columns as the smaller size."""
        nest, (m, n), size = self.work.nest, self.shape, self.size
        y = self.room("unitary", (m, size))
        identity(self.work, y, m, size)
        if self.blocks is not None:
            self.blocks.unitary(y)
            return y
        with nest.loop("serial", size, "k") as turn:
            k = size - 1 - turn
            at = nest.named("row", k, m - 1), nest.named("column", k, n - 1)
            scale = self.scales.load(k, 0)
            _reflect(self.work, (self.x, *at), y, scale, self.total, m, k, size - k)
        return y


class Blocks:
    """Reflections by some columns at once: ``I - V T V'``, where ``V`` holds the reflectors.

    ``inv(T)`` is the upper triangle of ``V' V``, with the inverses of the factors on its diagonal
    (Puglisi 1992): so ``T`` is multiplied with by substitution. Where there is no reflection the
    factor is 0, the inverse infinite, and what is divided by it 0.
    """

    def __init__(self, whole: Reflections) -> None:
        self.whole, self.work = whole, whole.work
        m, n = whole.shape
        self.v = whole.room("vectors", (m, WIDTH))
        self.inverse = whole.room("inverse", (WIDTH, WIDTH))
        self.w = whole.room("products", (WIDTH, n))

    def reflect(self) -> None:
        """Panels of columns, each of which is taken by plain steps; then the columns behind it."""
        x, n = self.whole.x, self.whole.shape[1]
        with self._panels(True) as here:
            with self.work.nest.loop("serial", here.size, "k") as k:
                self.whole.step(here.start + k, here.end)
            self._apply(here, x, Span(here.end, n - here.end), True)

    def unitary(self, y: Matrix) -> None:
        """``Q`` of the identity, from the last panel on."""
        with self._panels(False) as here:
            self._apply(here, y, Span(here.start, self.whole.size - here.start), False)

    @contextmanager
    def _panels(self, forward: bool) -> Generator[Span]:
        size, count = self.whole.size, ceildiv(self.whole.size, WIDTH)
        with self.work.nest.loop("serial", count, "panel") as p:
            start = (p if forward else count - 1 - p) * WIDTH
            yield Span(start, minimum(WIDTH, size - start))

    def _apply(self, here: Span, x: Matrix, columns: Span, transposed: bool) -> None:
        """``X - V T V' X``, or with the transpose of T, of some columns of X."""
        rows = Span(here.start, self.whole.shape[0] - here.start)
        self._vectors(here, rows)
        turned = block(self.v, rows.start, 0, True)
        factors = Factors(turned, block(x, rows.start, columns.start), rows.size)
        multiply(self.work, here.size, columns.size, factors, self.w.store)
        t = Triangle(block(self.inverse, 0, 0, transposed), False, transposed)
        size = self.work.nest.named("size", here.size, WIDTH)
        solve(self.work, t, self.w, Span(0, size), Span(0, columns.size), (STEP,))
        v, w = block(self.v, rows.start, 0), block(self.w, 0, 0)
        subtract(self.work, x, rows, columns, Factors(v, w, here.size))

    def _vectors(self, here: Span, rows: Span) -> None:
        """``V``, which is written out, and ``inv(T)``."""
        work, words, x = self.work, self.work.words, self.whole.x
        one = work.number(1)

        def copied(i: Dim, j: Dim) -> None:
            below = x.load(rows.start + i, here.start + j, i - j - 1)
            diagonal = words.select(work.nest.inside((i - j, j - i)), one, below)
            self.v.store(rows.start + i, j, diagonal)

        work.each(rows.size, here.size, copied)
        turned, v = (block(self.v, rows.start, 0, t) for t in (True, False))
        factors = Factors(turned, v, rows.size)
        multiply(work, here.size, here.size, factors, self.inverse.store)
        with work.nest.loop(work.kind, here.size) as k:
            scale = self.whole.scales.load(here.start + k, 0)
            self.inverse.store(k, k, words.binary("div", one, scale))


def identity(work: Work, y: Matrix, m: Dim, size: Dim) -> None:
    """The first columns of the identity."""
    one, zero = work.number(1), work.number(0)
    work.each(
        m,
        size,
        lambda i, j: y.store(i, j, work.words.select(work.nest.inside((i - j, j - i)), one, zero)),
    )


def _reflector(work: Work, x: Matrix, at: tuple[Dim, Dim], m: Dim) -> Scalar:
    """Put the reflector of a column below the diagonal, and give its factor."""
    nest, words, (k, c) = work.nest, work.words, at
    first, rows = x.load(k, c), m - 1 - k

    def largest(most: Scalar, i: Dim) -> Scalar:
        return words.binary("max", most, words.unary("abs", x.load(k + 1 + i, c)))

    most = work.folded(rows, words.unary("abs", first), largest)
    zero = words.binary("eq", most, work.number(0))
    most = words.select(zero, work.number(1), most)

    def part(x: Scalar) -> Scalar:
        return words.binary("div", x, most)

    def square(x: Scalar) -> Scalar:
        return words.binary("mul", part(x), part(x))

    below = work.folded(
        rows,
        work.number(0),
        lambda total, i: words.binary("add", total, square(x.load(k + 1 + i, c))),
    )
    length = words.unary("sqrt", words.binary("add", square(first), below))
    none = words.binary("eq", below, work.number(0))
    end = words.unary("neg", words.binary("copysign", length, part(first)))
    x.store(k, c, words.select(none, first, words.binary("mul", most, end)))
    apart = words.binary("sub", part(first), end)
    with nest.loop(work.kind, rows) as i:
        behind = words.binary("div", part(x.load(k + 1 + i, c)), apart)
        x.store(k + 1 + i, c, words.select(none, work.number(0), behind))
    scale = words.binary("div", words.binary("sub", end, part(first)), end)
    return words.select(none, work.number(0), scale)


def _reflect(
    work: Work,
    reflector: tuple[Matrix, Dim, Dim],
    x: Matrix,
    scale: Scalar,
    total: Matrix,
    m: Dim,
    start: Dim,
    columns: Dim,
) -> None:
    """``X - t v (v' X)`` of some columns of X, for the reflector below an element of a matrix."""
    nest, words, (v, k, c) = work.nest, work.words, reflector
    with nest.loop(work.kind, columns) as j:
        total.store(0, j, x.load(k, start + j))
    with nest.loop("serial", m - 1 - k) as i:
        factor = v.load(k + 1 + i, c)
        with nest.loop(work.kind, columns) as j:
            part = words.binary("mul", factor, x.load(k + 1 + i, start + j))
            total.store(0, j, words.binary("add", total.load(0, j), part))
    with nest.loop(work.kind, columns) as j:
        scaled = words.binary("mul", total.load(0, j), scale)
        total.store(0, j, scaled)
        x.store(k, start + j, words.binary("sub", x.load(k, start + j), scaled))
    with nest.loop("serial", m - 1 - k) as i:
        factor = v.load(k + 1 + i, c)
        with nest.loop(work.kind, columns) as j:
            row = k + 1 + i
            x.store(row, start + j, work.minus(x.load(row, start + j), factor, total.load(0, j)))
