"""The loops of the real Schur form: reflections, and sweeps with two shifts.

The steps are those of ``dlvm/ops/factorisations/schur.py``. Every turn of the one loop looks for
the last block of the rows that are left, and cuts it off or sweeps over it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import I64, Dim
from dlvm.ir.sizes.positions import Index
from dlvm.ops import Schur
from dlvm.ops.factorisations import tridiagonal
from dlvm.ops.factorisations.schur import MOST, ODD

from .rotations import largest
from .spectra import APART, Problem, eps, room
from .sweeps import chosen
from .workspace import Matrix, Work


def schur(work: Work, op: Schur, line: Index) -> None:
    """Both factors, or NaN for both."""
    n = op.a.shape[-1]
    x, zero = room(work, "full", line, (n + 2, n + APART)), work.number(0)
    work.each(n + 2, n + APART, lambda i, j: x.store(i, j, zero))
    work.each(n, n, lambda i, j: x.store(i, j, work.element(op.a, (*line, i, j))))
    t, z = op.results
    vectors = (room(work, "rows", line, (n + 1, n)),) if z in work.targets else ()
    problem = Problem.of(work, line, x, (n, n), x, vectors)
    scale = problem.scaled(float(tridiagonal.bound(work.dtype.numpy)))
    Francis.of(problem).run()
    solved, nan, words = problem.is_solved(), work.number(float("nan")), work.words

    def write(i: Dim, j: Dim) -> None:
        element = words.binary("mul", x.load(i, j), scale)
        work.result(t, (*line, i, j), words.select(solved, element, nan))

    if t in work.targets:
        work.each(n, n, write)
    for rows in vectors:

        def turned(i: Dim, j: Dim, rows: Matrix = rows) -> None:
            work.result(z, (*line, i, j), words.select(solved, rows.load(j, i), nan))

        work.each(n, n, turned)


@dataclass(frozen=True, slots=True)
class Reflection:
    """``I - [1, q, r]' [x, y, z]`` of three rows."""

    q: Scalar
    r: Scalar
    x: Scalar
    y: Scalar
    z: Scalar

    def parts(self) -> tuple[Scalar, ...]:
        """Its five numbers."""
        return self.q, self.r, self.x, self.y, self.z


@dataclass(frozen=True, slots=True)
class Francis:
    """A matrix ``h`` that becomes ``T``, and ``rows`` that become ``Z'``, if that is asked for.

    Behind both there are rows, and behind ``h`` columns, of zeros, which reflections may touch.
    """

    problem: Problem
    work: Work
    h: Matrix
    n: Dim
    least: Scalar
    left: Local
    idle: Local
    turning: Local

    @staticmethod
    def of(problem: Problem) -> Francis:
        """One of which nothing is done."""
        work, (n, _) = problem.work, problem.shape
        part = work.number(eps(work) / tridiagonal.TINY)
        least = work.words.binary("mul", largest(work, (n, n), problem.x.load), part)
        left, idle = (work.nest.local(name, I64, 1) for name in ("left", "idle"))
        turning = work.nest.local("turning", work.dtype, 5)
        return Francis(problem, work, problem.x, n, least, left, idle, turning)

    def run(self) -> None:
        """Everything; whether rows are left says whether it came to an end."""
        work, nest, n = self.work, self.work.nest, self.n
        one, zero, words = work.number(1), work.number(0), work.words

        def unit(i: Dim, j: Dim) -> Scalar:
            return words.select(nest.inside((i - j, j - i)), one, zero)

        for rows in self.problem.vectors:
            work.each(n + 1, n, lambda i, j, rows=rows: rows.store(i, j, unit(i, j)))
        if not isinstance(n, int) or n > 2:
            Hessenberg(self, room(work, "reflector", self.problem.line, (n, 1))).reduce()
        nest.store(self.left, 0, nest.size(n))
        nest.store(self.idle, 0, nest.size(0))
        with nest.loop("serial", MOST * n, "turn"), chosen(work, self._is_going()):
            self._turn()
        nest.store(self.problem.unfinished, 0, self._is_going())

    def _is_going(self) -> Scalar:
        nest = self.work.nest
        return self.work.words.binary("lt", nest.size(0), nest.load(self.left, 0))

    def _turn(self) -> None:
        """One block is cut off, or takes a sweep."""
        work, nest, words, n = self.work, self.work.nest, self.work.words, self.n
        binary, one, two = words.binary, nest.size(1), nest.size(2)
        left = nest.load(self.left, 0)
        last = nest.bind("last", binary("sub", left, one), n - 1)
        first = self._cut(last)
        size = binary("sub", nest.size(last), nest.size(first))
        single, double = (binary("eq", size, nest.size(i)) for i in (0, 1))
        more = binary("lt", one, size)
        if not isinstance(n, int) or n > 1:
            with chosen(work, double):
                self._standardise(nest.named("pair", first + 0, n - 1))
        if not isinstance(n, int) or n > 2:
            with chosen(work, more):
                self._sweep(first, last, size)
        fewer = words.select(single, binary("sub", left, one), binary("sub", left, two))
        nest.store(self.left, 0, words.select(more, left, fewer))
        idle = nest.load(self.idle, 0)
        nest.store(self.idle, 0, words.select(more, idle, nest.size(0)))

    def _cut(self, last: Dim) -> Dim:
        """The first row of the last block; what is small beside the diagonal becomes zero."""
        work, nest, words, h = self.work, self.work.nest, self.work.words, self.h
        found = nest.local("first", I64, 1)
        nest.store(found, 0, nest.size(0))
        with nest.loop("serial", last, "k") as k:
            x, above, below = h.load(k + 1, k), h.load(k, k), h.load(k + 1, k + 1)
            around = words.binary("add", words.unary("abs", above), words.unary("abs", below))
            relative = words.binary("mul", work.number(eps(work)), around)
            limit = words.binary("max", self.least, relative)
            small = words.binary("le", words.unary("abs", x), limit)
            h.store(k + 1, k, words.select(small, work.number(0), x))
            nest.store(found, 0, words.select(small, nest.size(k + 1), nest.load(found, 0)))
        return nest.bind("first", nest.load(found, 0), self.n - 1)

    # -- sweeps ------------------------------------------------------------------------------------

    def _sweep(self, first: Dim, last: Dim, size: Scalar) -> None:
        """One sweep of reflections with two shifts over the rows of a block."""
        work, nest, words, h, n = self.work, self.work.nest, self.work.words, self.h, self.n
        idle = words.binary("add", nest.load(self.idle, 0), nest.size(1))
        odd = words.binary("eq", idle, nest.size(ODD))
        nest.store(self.idle, 0, words.select(odd, nest.size(0), idle))
        self._keep(self._reflection(*self._shifted(first, last, odd))[0])
        count = nest.bind("count", size, n - 1)
        with nest.loop("serial", count, "t") as t:
            k = nest.named("at", first + t, n - 2)
            by = Reflection(*(nest.load(self.turning, i) for i in range(5)))
            self._from_left(h, by, k, k, n - k)
            for rows in self.problem.vectors:
                self._from_left(rows, by, k, 0, n)
            end = words.binary("min", nest.size(k + 4), nest.size(last + 1))
            self._from_right(by, k, nest.bind("rows", end, n))
            zero = work.number(0)
            inside = [words.binary("le", nest.size(k + i), nest.size(last)) for i in (2, 3)]
            q, r = (
                words.select(here, h.load(k + i, k), zero)
                for here, i in zip(inside, (2, 3), strict=True)
            )
            following, beside = self._reflection(h.load(k + 1, k), q, r)
            for i, x in enumerate((beside, zero, zero)):
                h.store(k + 1 + i, k, x)
            self._keep(following)

    def _keep(self, by: Reflection) -> None:
        """The reflection of the next rows."""
        for i, x in enumerate(by.parts()):
            self.work.nest.store(self.turning, i, x)

    def _reflection(self, p: Scalar, q: Scalar, r: Scalar) -> tuple[Reflection, Scalar]:
        """What makes ``[end, 0, 0]`` of three numbers, and the end."""
        words, binary, zero = self.work.words, self.work.words.binary, self.work.number(0)
        beside = binary("add", words.unary("abs", q), words.unary("abs", r))
        none = binary("eq", beside, zero)
        most = binary("add", words.unary("abs", p), beside)
        a, b, c = (binary("div", x, most) for x in (p, q, r))
        square = binary("add", binary("mul", a, a), binary("mul", b, b))
        square = binary("add", square, binary("mul", c, c))
        s = binary("copysign", words.unary("sqrt", square), a)
        apart = binary("add", a, s)
        pairs = ((b, apart), (c, apart), (apart, s), (b, s), (c, s))
        parts = (words.select(none, zero, binary("div", x, y)) for x, y in pairs)
        end = words.unary("neg", binary("mul", s, most))
        return Reflection(*parts), words.select(none, p, end)

    def _from_left(self, x: Matrix, by: Reflection, k: Dim, start: Dim, count: Dim) -> None:
        """Three rows from k on, of some columns."""
        work, binary = self.work, self.work.words.binary
        with work.nest.loop(work.kind, count) as t:
            j = start + t
            a, b, c = (x.load(k + i, j) for i in range(3))
            total = binary("add", a, binary("mul", by.q, b))
            total = binary("add", total, binary("mul", by.r, c))
            for i, (element, part) in enumerate(((a, by.x), (b, by.y), (c, by.z))):
                x.store(k + i, j, work.minus(element, total, part))

    def _from_right(self, by: Reflection, k: Dim, rows: Dim) -> None:
        """Three columns from k on, of the first rows."""
        work, binary, x = self.work, self.work.words.binary, self.h
        with work.nest.loop(work.kind, rows) as i:
            a, b, c = (x.load(i, k + j) for j in range(3))
            total = binary("add", binary("mul", by.x, a), binary("mul", by.y, b))
            total = binary("add", total, binary("mul", by.z, c))
            x.store(i, k, binary("sub", a, total))
            x.store(i, k + 1, work.minus(b, total, by.q))
            x.store(i, k + 2, work.minus(c, total, by.r))

    def _shifted(self, first: Dim, last: Dim, odd: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """A multiple of the first column of ``(H - s)(H - s')``, for two shifts."""
        work, words, binary, h = self.work, self.work.words, self.work.words.binary, self.h
        real, imaginary = self._shifts(last, odd)
        at, beside, below = h.load(first, first), h.load(first, first + 1), h.load(first + 1, first)
        apart = binary("sub", at, real)
        size = binary("add", words.unary("abs", apart), words.unary("abs", imaginary))
        size = binary("add", size, words.unary("abs", below))
        part = binary("div", below, size)
        p = binary("add", binary("mul", part, beside), _over(work, apart, size))
        p = binary("add", p, _over(work, imaginary, size))
        around = binary("add", at, h.load(first + 1, first + 1))
        q = binary("sub", around, binary("mul", work.number(2), real))
        r = binary("mul", part, h.load(first + 2, first + 1))
        return p, binary("mul", part, q), r

    def _shifts(self, last: Dim, odd: Scalar) -> tuple[Scalar, Scalar]:
        """The real and imaginary part of the eigenvalues of the last two rows, or of others.

        If both are real it is the nearer one, which is taken twice.
        """
        work, words, binary, h = self.work, self.work.words, self.work.words.binary, self.h
        before, third = self._above(last, 1), self._above(last, 2)
        a, b = h.load(before, before), h.load(before, last)
        c, d = h.load(last, before), h.load(last, last)
        above = words.unary("abs", h.load(before, third))
        size = binary("add", words.unary("abs", c), above)
        other = binary("add", binary("mul", work.number(0.75), size), d)
        b = words.select(odd, binary("mul", work.number(-0.4375), size), b)
        a, c, d = (words.select(odd, x, y) for x, y in ((other, a), (size, c), (other, d)))
        size = binary("add", words.unary("abs", a), words.unary("abs", b))
        for x in (c, d):
            size = binary("add", size, words.unary("abs", x))
        size = words.select(binary("eq", size, work.number(0)), work.number(1), size)
        a, b, c, d = (binary("div", x, size) for x in (a, b, c, d))
        mean = binary("mul", binary("add", a, d), work.number(0.5))
        product = binary("mul", binary("sub", a, mean), binary("sub", d, mean))
        product = binary("sub", product, binary("mul", b, c))
        root = words.unary("sqrt", words.unary("abs", product))
        ends = binary("add", mean, root), binary("sub", mean, root)
        high, low = (words.unary("abs", binary("sub", x, d)) for x in ends)
        near = words.select(binary("le", high, low), *ends)
        complex_pair = binary("le", work.number(0), product)
        real = words.select(complex_pair, mean, near)
        imaginary = words.select(complex_pair, root, work.number(0))
        return binary("mul", real, size), binary("mul", imaginary, size)

    def _above(self, row: Dim, count: int) -> Dim:
        """The row that lies so many rows above one that has as many above it."""
        nest, binary = self.work.nest, self.work.words.binary
        found = binary("sub", nest.size(row), nest.size(count))
        return nest.bind("above", binary("max", found, nest.size(0)), self.n - 1)

    # -- blocks of two rows ------------------------------------------------------------------------

    def _standardise(self, k: Dim) -> None:
        """Two rows that are a block become two blocks, or one with equal diagonal elements."""
        work, nest, h, n = self.work, self.work.nest, self.h, self.n
        places = (k, k), (k, k + 1), (k + 1, k), (k + 1, k + 1)
        new, c, s = _rotation(work, *(h.load(*place) for place in places))
        self._turned(h, (k, c, s), k + 2, n - 2 - k)
        for rows in self.problem.vectors:
            self._turned(rows, (k, c, s), 0, n)
        binary = work.words.binary
        with nest.loop(work.kind, k) as i:
            here, beside = h.load(i, k), h.load(i, k + 1)
            h.store(i, k, binary("add", binary("mul", c, here), binary("mul", s, beside)))
            h.store(i, k + 1, binary("sub", binary("mul", c, beside), binary("mul", s, here)))
        for place, x in zip(places, new, strict=True):
            h.store(*place, x)

    def _turned(self, x: Matrix, by: tuple[Dim, Scalar, Scalar], start: Dim, count: Dim) -> None:
        """Two rows, of some columns, become sums of both."""
        work, binary, (k, c, s) = self.work, self.work.words.binary, by
        with work.nest.loop(work.kind, count) as t:
            here, below = x.load(k, start + t), x.load(k + 1, start + t)
            first = binary("add", binary("mul", c, here), binary("mul", s, below))
            second = binary("sub", binary("mul", c, below), binary("mul", s, here))
            x.store(k, start + t, first)
            x.store(k + 1, start + t, second)


def _over(work: Work, x: Scalar, size: Scalar) -> Scalar:
    """``x^2 / size``, without a square."""
    return work.words.binary("mul", x, work.words.binary("div", x, size))


def _rotation(
    work: Work, a: Scalar, b: Scalar, c: Scalar, d: Scalar
) -> tuple[list[Scalar], Scalar, Scalar]:
    """The standard form of ``[[a, b], [c, d]]``, and the cosine and sine that lead to it."""
    words, binary, zero = work.words, work.words.binary, work.number(0)
    p = binary("mul", binary("sub", a, d), work.number(0.5))
    product = binary("mul", b, c)
    square = binary("add", binary("mul", p, p), product)
    real = binary("le", zero, square)
    first, cosine, sine = _real(work, (p, square, product), b, c, d)
    second, *angle = _complex(work, p, a, b, c, d)
    new = [words.select(real, x, y) for x, y in zip(first, second, strict=True)]
    return new, words.select(real, cosine, angle[0]), words.select(real, sine, angle[1])


def _real(
    work: Work, parts: tuple[Scalar, Scalar, Scalar], b: Scalar, c: Scalar, d: Scalar
) -> tuple[tuple[Scalar, ...], Scalar, Scalar]:
    """A triangle, for two real eigenvalues."""
    words, binary, zero, (p, square, product) = work.words, work.words.binary, work.number(0), parts
    z = binary("add", p, binary("copysign", words.unary("sqrt", square), p))
    length = words.unary("sqrt", binary("add", binary("mul", c, c), binary("mul", z, z)))
    none = binary("eq", z, zero)
    low = words.select(none, zero, binary("div", product, z))
    new = binary("add", d, z), binary("sub", b, c), zero, binary("sub", d, low)
    return new, binary("div", z, length), binary("div", c, length)


def _complex(
    work: Work, p: Scalar, a: Scalar, b: Scalar, c: Scalar, d: Scalar
) -> tuple[tuple[Scalar, ...], Scalar, Scalar]:
    """Equal diagonal elements, for two eigenvalues that are not real but by rounding errors."""
    words, binary, zero, one = work.words, work.words.binary, work.number(0), work.number(1)
    half = work.number(0.5)

    def turned(x: Scalar, by: Scalar, y: Scalar, other: Scalar, word: str = "add") -> Scalar:
        return binary(word, binary("mul", x, by), binary("mul", y, other))

    total, apart = binary("add", b, c), binary("sub", a, d)
    length = words.unary("sqrt", turned(total, total, apart, apart))
    plain = binary("eq", length, zero)
    length = words.select(plain, one, length)
    share = binary("add", one, binary("div", words.unary("abs", total), length))
    cosine = words.unary("sqrt", binary("mul", half, share))
    cosine = words.select(plain, one, cosine)
    sine = words.unary("neg", binary("div", p, binary("mul", length, cosine)))
    sine = binary("mul", sine, binary("copysign", one, total))
    aa, bb = turned(a, cosine, b, sine), turned(b, cosine, a, sine, "sub")
    cc, dd = turned(c, cosine, d, sine), turned(d, cosine, c, sine, "sub")
    mean = binary("add", turned(aa, cosine, cc, sine), turned(dd, cosine, bb, sine, "sub"))
    mean = binary("mul", mean, half)
    b, c = turned(bb, cosine, dd, sine), turned(cc, cosine, aa, sine, "sub")
    kept = binary("lt", binary("mul", b, c), zero)
    right = binary("le", words.unary("abs", c), words.unary("abs", b))
    c, other = words.select(kept, c, zero), words.unary("neg", c)
    flipped = words.binary("and", words.unary("not", kept), words.unary("not", right))
    b = words.select(flipped, other, b)
    turn = words.select(flipped, words.unary("neg", sine), cosine)
    return (mean, b, c, mean), turn, words.select(flipped, cosine, sine)


class Hessenberg:
    """Reflections that leave one diagonal below the main one."""

    def __init__(self, francis: Francis, reflector: Matrix) -> None:
        self.work, self.h, self.n, self.least = francis.work, francis.h, francis.n, francis.least
        self.rows, self.v = francis.problem.vectors, reflector
        line = francis.problem.line
        self.total = room(self.work, "totals", line, (1, self.n))

    def reduce(self) -> None:
        """Column by column."""
        nest, n = self.work.nest, self.n
        with nest.loop("serial", n - 2, "k") as turn:
            k = nest.named("k", turn + 0, n - 3)
            scale = self._reflector(k)
            self._from_left(self.h, scale, k, k + 1, n - 1 - k)
            for rows in self.rows:
                self._from_left(rows, scale, k, 0, n)
            self._from_right(scale, k)

    def _reflector(self, k: Dim) -> Scalar:
        """Column k loses what is below the element that follows the diagonal."""
        work, words, h, count = self.work, self.work.words, self.h, self.n - 2 - k
        binary, zero, first = words.binary, work.number(0), self.h.load(k + 1, k)
        below = work.dot(count, lambda i: h.load(k + 2 + i, k))
        none = binary("le", below, binary("mul", self.least, self.least))
        length = words.unary("sqrt", binary("add", binary("mul", first, first), below))
        end = words.unary("neg", binary("copysign", length, first))
        apart = binary("sub", first, end)
        self.v.store(0, 0, work.number(1))
        with work.nest.loop(work.kind, count) as i:
            part = binary("div", h.load(k + 2 + i, k), apart)
            self.v.store(1 + i, 0, words.select(none, zero, part))
            h.store(k + 2 + i, k, zero)
        h.store(k + 1, k, words.select(none, first, end))
        scale = binary("div", binary("sub", end, first), end)
        return words.select(none, zero, scale)

    def _from_left(self, x: Matrix, scale: Scalar, k: Dim, start: Dim, count: Dim) -> None:
        """The rows behind row k, of some columns."""
        work, nest, binary, total = self.work, self.work.nest, self.work.words.binary, self.total
        with nest.loop(work.kind, count) as j:
            total.store(0, j, x.load(k + 1, start + j))
        with nest.loop("serial", self.n - 2 - k) as i:
            factor = self.v.load(1 + i, 0)
            with nest.loop(work.kind, count) as j:
                part = binary("mul", factor, x.load(k + 2 + i, start + j))
                total.store(0, j, binary("add", total.load(0, j), part))
        with nest.loop(work.kind, count) as j:
            total.store(0, j, binary("mul", total.load(0, j), scale))
        with nest.loop(work.kind, self.n - 1 - k) as i:
            factor = self.v.load(i, 0)
            with nest.loop(work.kind, count) as j:
                old = x.load(k + 1 + i, start + j)
                x.store(k + 1 + i, start + j, work.minus(old, factor, total.load(0, j)))

    def _from_right(self, scale: Scalar, k: Dim) -> None:
        """The columns behind column k, of all rows."""
        work, h, v, count = self.work, self.h, self.v, self.n - 1 - k
        with work.nest.loop(work.kind, self.n) as i:
            total = work.dot(count, lambda j: h.load(i, k + 1 + j), lambda j: v.load(j, 0))
            total = work.words.binary("mul", total, scale)
            with work.nest.loop(work.kind, count) as j:
                old = h.load(i, k + 1 + j)
                h.store(i, k + 1 + j, work.minus(old, total, v.load(j, 0)))
