"""The loops of the QR factorisation: reflections, each by one column."""

from __future__ import annotations

from dlvm.gen.loops.index import Index
from dlvm.gen.loops.statements import Scalar
from dlvm.ir import Dim
from dlvm.ir.dims import minimum
from dlvm.ops import QR

from .workspace import Matrix, Work


def qr(work: Work, op: QR, line: Index) -> None:
    """``R`` above and the reflectors below the diagonal; then ``Q``, from the last one on."""
    m, n = op.a.shape[-2:]
    size = minimum(m, n)
    x = work.room("reflected", line, (m, n), op.a.shape[:-2], work.dtype)
    work.each(m, n, lambda i, j: x.store(i, j, work.element(op.a, (*line, i, j))))
    (q, r), reflections = op.results, Reflections(work, x, (m, n), line)
    if r in work.targets:
        work.each(size, n, lambda i, j: work.result(r, (*line, i, j), x.load(i, j, j - i)))
    if q in work.targets:
        y = reflections.unitary()
        work.each(m, size, lambda i, j: work.result(q, (*line, i, j), y.load(i, j)))


class Reflections:
    """Makes an upper triangle of a matrix, with the reflectors below the diagonal."""

    def __init__(self, work: Work, x: Matrix, shape: tuple[Dim, Dim], line: Index) -> None:
        self.work, self.x, self.shape, self.line = work, x, shape, line
        nest, (m, n) = work.nest, shape
        self.size = minimum(m, n)
        self.scales = self._room("scales", (self.size, 1))
        self.total = self._room("sums", (1, n))
        with nest.loop("serial", self.size, "k") as k:
            at = nest.named("row", k, m - 1), nest.named("column", k, n - 1)
            scale = _reflector(work, x, at, m)
            self.scales.store(k, 0, scale)
            _reflect(work, (x, *at), x, scale, self.total, m, at[1] + 1, n - 1 - at[1])

    def _room(self, name: str, shape: Index) -> Matrix:
        work = self.work
        return work.room(name, self.line, shape, work.batch, work.dtype)

    def unitary(self) -> Matrix:
        """``Q``, as many columns as the smaller size."""
        nest, (m, n), size = self.work.nest, self.shape, self.size
        y = self._room("unitary", (m, size))
        identity(self.work, y, m, size)
        with nest.loop("serial", size, "k") as turn:
            k = size - 1 - turn
            at = nest.named("row", k, m - 1), nest.named("column", k, n - 1)
            scale = self.scales.load(k, 0)
            _reflect(self.work, (self.x, *at), y, scale, self.total, m, k, size - k)
        return y


def identity(work: Work, y: Matrix, m: Dim, size: Dim) -> None:
    """The first columns of the identity."""
    one, zero = work.number(1), work.number(0)
    work.each(
        m,
        size,
        lambda i, j: y.store(i, j, work.words.select(work.nest.inside((i - j, j - i)), one, zero)),
    )


def _reflector(work: Work, x: Matrix, at: tuple[Dim, Dim], m: Dim) -> Scalar:
    """Put the reflector of a column below the diagonal, and give its factor.

    The row and the column of the diagonal element are one number with two names, as bounds of its
    own are known of each.
    """
    nest, words, (k, c) = work.nest, work.words, at
    first, rows = x.load(k, c), m - 1 - k

    def largest(most: Scalar, i: Dim) -> Scalar:
        return words.binary("max", most, words.unary("abs", x.load(k + 1 + i, c)))

    most = work.folded(rows, words.unary("abs", first), largest)
    zero = words.binary("eq", most, work.number(0))
    most = words.select(zero, work.number(1), most)

    def square(x: Scalar) -> Scalar:
        part = words.binary("div", x, most)
        return words.binary("mul", part, part)

    below = work.folded(
        rows,
        work.number(0),
        lambda total, i: words.binary("add", total, square(x.load(k + 1 + i, c))),
    )
    length = words.unary("sqrt", words.binary("add", square(first), below))
    length = words.binary("mul", most, length)
    none = words.binary("eq", below, work.number(0))
    turned = words.unary("neg", words.binary("copysign", length, first))
    end = words.select(none, first, turned)
    x.store(k, c, end)
    apart = words.binary("sub", first, end)
    with nest.loop(work.kind, rows) as i:
        part = words.binary("div", x.load(k + 1 + i, c), apart)
        x.store(k + 1 + i, c, words.select(none, work.number(0), part))
    scale = words.binary("div", words.binary("sub", end, first), end)
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
