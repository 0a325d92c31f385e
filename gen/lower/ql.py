"""Eigenvalues of matrices with three diagonals: implicit QL, and its rotations applied to rows.

The steps are those of LAPACK's ``steqr`` with shifts from the first two rows (Wilkinson). A sweep
leaves its rotations in memory; those of some sweeps are applied at once, a strip of columns after
the other, so that columns may be shared by threads.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from dlvm.gen.loops.index import ceildiv
from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import I64, Dim
from dlvm.ir.positions import Index
from dlvm.ops.factorisations.tridiagonal import MOST

from .workspace import Matrix, Work

SWEEPS = 32
"""Sweeps whose rotations are applied at once."""
LANES = 32
"""Columns that take in rotations together: enough for the processor to overlap."""


@contextmanager
def chosen(work: Work, condition: Scalar | bool) -> Generator[None]:
    """What happens only where a condition holds."""
    words = work.words
    if isinstance(condition, bool):
        with work.nest.loop("serial", int(condition)):
            yield
        return
    count = words.select(condition, words.constant(1, I64), words.constant(0, I64))
    with work.nest.loop("serial", work.nest.bind("chosen", count, 1), "once"):
        yield


class QL:
    """Makes a matrix with three diagonals diagonal; ``rows`` take in the rotations.

    The diagonals have an element more than rows, which is not used. An element beside the diagonal
    that is no larger than ``least``, or than rounding errors of its neighbours, is nothing.
    """

    def __init__(
        self,
        work: Work,
        n: Dim,
        diagonals: tuple[Matrix, Matrix],
        least: Scalar,
        rows: Matrix | None,
        line: Index,
    ) -> None:
        self.work, self.n, self.rows, self.least = work, n, rows, least
        self.d, self.e = diagonals
        self.first, self.end, self.taken, self.low, self.high = (
            work.nest.local(name, I64, 1) for name in ("first", "end", "taken", "low", "high")
        )
        if rows is not None:
            shape = SWEEPS, n
            self.cosines = work.room("cosines", line, shape, work.batch, work.dtype)
            self.sines = work.room("sines", line, shape, work.batch, work.dtype)
        self._set(self.first, 0)
        blocks = ceildiv(MOST * n, SWEEPS)
        with work.nest.loop("serial", blocks, "block"), chosen(work, self._is_going()):
            self._some_sweeps()

    def _set(self, state: Local, d: Dim) -> None:
        self.work.nest.store(state, 0, self.work.nest.size(d))

    def _is_going(self) -> Scalar:
        """Whether a row is left to do."""
        nest = self.work.nest
        return self.work.words.binary("lt", nest.load(self.first, 0), nest.size(self.n))

    def _some_sweeps(self) -> None:
        """Sweeps, and then their rotations of the rows."""
        work, n = self.work, self.n
        for state, start in ((self.taken, 0), (self.low, n), (self.high, 0)):
            self._set(state, start)
        if self.rows is not None:
            one, zero = work.number(1), work.number(0)
            work.each(SWEEPS, n, lambda k, i: self.cosines.store(k, i, one))
            work.each(SWEEPS, n, lambda k, i: self.sines.store(k, i, zero))
        with work.nest.loop("serial", SWEEPS, "sweep") as sweep:
            self._find()
            with chosen(work, self._is_going()):
                self._sweep(sweep)
        if self.rows is not None:
            self._apply(self.rows)

    def _find(self) -> None:
        """The first row from ``first`` on that is not cut from the next, and the last below it.

        ``first`` is n where there is none.
        """
        nest, words, n = self.work.nest, self.work.words, self.n
        start = nest.bind("start", nest.load(self.first, 0), n)
        cut = nest.local("cut", I64, 1)
        for state, at in ((self.first, n), (self.end, n - 1), (cut, n - 1)):
            self._set(state, at)
        with nest.loop("serial", n - 1 - start, "t") as t:
            i = n - 2 - t
            small, here, last = self._is_small(i), nest.size(i), nest.load(cut, 0)
            first, end = nest.load(self.first, 0), nest.load(self.end, 0)
            nest.store(self.first, 0, words.select(small, first, here))
            nest.store(self.end, 0, words.select(small, end, last))
            nest.store(cut, 0, words.select(small, here, last))

    def _is_small(self, i: Dim) -> Scalar:
        """Whether the element beside the diagonal is nothing beside its neighbours."""
        binary, words = self.work.words.binary, self.work.words
        around = binary(
            "add",
            words.unary("abs", self.d.load(i, 0)),
            words.unary("abs", self.d.load(i + 1, 0)),
        )
        eps = self.work.number(float(np.finfo(self.work.dtype.numpy).eps))
        bound = binary("max", self.least, binary("mul", eps, around))
        return binary("le", words.unary("abs", self.e.load(i, 0)), bound)

    def _sweep(self, sweep: Dim) -> None:
        """One sweep of rotations, from the last row of a block to its first."""
        work, nest, words, binary = (
            self.work,
            self.work.nest,
            self.work.words,
            self.work.words.binary,
        )
        d, e, n = self.d, self.e, self.n
        start, m = (nest.bind(s.name, nest.load(s, 0), n - 1) for s in (self.first, self.end))
        one, two = work.number(1), work.number(2)
        p, g, s, c = (nest.local(name, work.dtype, 1) for name in ("p", "g", "s", "c"))
        corner, near = d.load(start, 0), e.load(start, 0)
        slope = binary("div", binary("sub", d.load(start + 1, 0), corner), binary("mul", two, near))
        root = words.unary("sqrt", binary("add", binary("mul", slope, slope), one))
        below = binary("add", slope, binary("copysign", root, slope))
        shifted = binary("sub", d.load(m, 0), corner)
        nest.store(g, 0, binary("add", shifted, binary("div", near, below)))
        nest.store(p, 0, work.number(0))
        nest.store(s, 0, one)
        nest.store(c, 0, one)
        count = nest.bind("count", binary("sub", nest.size(m), nest.size(start)), m)
        with nest.loop("serial", count, "t") as t:
            i = nest.named("at", m - 1 - t, n - 2)
            self._rotation(sweep, i, (p, g, s, c))
        d.store(start, 0, binary("sub", d.load(start, 0), nest.load(p, 0)))
        e.store(start, 0, nest.load(g, 0))
        e.store(m, 0, work.number(0))
        nest.store(self.taken, 0, binary("add", nest.load(self.taken, 0), nest.size(1)))
        nest.store(self.low, 0, binary("min", nest.load(self.low, 0), nest.size(start)))
        nest.store(self.high, 0, binary("max", nest.load(self.high, 0), nest.size(m)))

    def _rotation(self, sweep: Dim, i: Dim, states: tuple[Local, ...]) -> None:
        """The rotation of rows i and i + 1."""
        work, nest, words, binary = (
            self.work,
            self.work.nest,
            self.work.words,
            self.work.words.binary,
        )
        p, g, s, c = (nest.load(state, 0) for state in states)
        e, d = self.e.load(i, 0), self.d.load(i, 0)
        f, b = binary("mul", s, e), binary("mul", c, e)
        square = binary("add", binary("mul", f, f), binary("mul", g, g))
        info = np.finfo(work.dtype.numpy)
        none = binary("lt", square, work.number(float(info.tiny / info.eps)))
        root = words.unary("sqrt", square)
        over = binary("div", work.number(1), root)
        sine = words.select(none, work.number(0), binary("mul", f, over))
        cosine = words.select(none, work.number(1), binary("mul", g, over))
        self.e.store(i + 1, 0, words.select(none, work.number(0), root))
        high = binary("sub", self.d.load(i + 1, 0), p)
        part = binary("mul", binary("sub", d, high), sine)
        r = binary("add", part, binary("mul", work.number(2), binary("mul", cosine, b)))
        step = binary("mul", sine, r)
        self.d.store(i + 1, 0, binary("add", high, step))
        after = binary("sub", binary("mul", cosine, r), b)
        for state, x in zip(states, (step, after, sine, cosine), strict=True):
            nest.store(state, 0, x)
        if self.rows is not None:
            self.cosines.store(sweep, i, cosine)
            self.sines.store(sweep, i, sine)

    def _apply(self, rows: Matrix) -> None:
        """The rotations of some sweeps, of which each strip of columns takes in all."""
        work, nest, binary, n = self.work, self.work.nest, self.work.words.binary, self.n
        taken = nest.bind("taken", nest.load(self.taken, 0), SWEEPS)
        low = nest.bind(
            "low", binary("min", nest.load(self.low, 0), nest.load(self.high, 0)), n - 1
        )
        high = nest.bind("high", nest.load(self.high, 0), n - 1)
        count = nest.bind("count", binary("sub", nest.size(high), nest.size(low)), high)
        with nest.loop(work.kind, n, "j", width=LANES) as j:
            carried = nest.local("carried", work.dtype, 1)
            with nest.loop("serial", taken, "k") as k:
                nest.store(carried, 0, rows.load(high, j))
                with nest.loop("serial", count, "t") as t:
                    i = high - 1 - t
                    c, s = self.cosines.load(k, i), self.sines.load(k, i)
                    here, below = rows.load(i, j), nest.load(carried, 0)
                    new = binary("add", binary("mul", c, below), binary("mul", s, here))
                    rows.store(i + 1, j, new)
                    new = binary("sub", binary("mul", c, here), binary("mul", s, below))
                    nest.store(carried, 0, new)
                rows.store(low, j, nest.load(carried, 0))
