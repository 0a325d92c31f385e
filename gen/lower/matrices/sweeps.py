"""Matrices of two or three diagonals become diagonal by implicit QL; rows take in its rotations.

The steps are those of LAPACK's ``steqr`` and ``bdsqr``, with shifts from the first two rows. A
sweep leaves its rotations in memory; those of some sweeps are applied at once, a strip of columns
after the other, so that columns may be shared by threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from dlvm.gen.loops.index import ceildiv
from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import I64, Dim
from dlvm.ir.sizes.positions import Index
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


@dataclass(frozen=True, slots=True)
class Band:
    """A diagonal of n elements, and the one beside it; what is no larger than ``least`` is nothing.

    Both have more room than that: before the element beside the first of the diagonal there is a
    zero, and behind the last ones there are elements that are not used.
    """

    n: Dim
    diagonal: Matrix
    off_diagonal: Matrix
    least: Scalar

    @staticmethod
    def of(work: Work, n: Dim, line: Index, diagonal: Matrix, least: Scalar) -> Band:
        """One with room for what is beside a diagonal."""
        off = work.room("beside", line, (n + 2, 1), work.batch, work.dtype)
        off.store(0, 0, work.number(0))
        return Band(n, diagonal, off, least)

    def at(self, i: Dim) -> Scalar:
        """An element of the diagonal."""
        return self.diagonal.load(i, 0)

    def beside(self, i: Dim) -> Scalar:
        """The element between those of rows i and i + 1."""
        return self.off_diagonal.load(i + 1, 0)

    def put(self, i: Dim, x: Scalar) -> None:
        """Write an element of the diagonal."""
        self.diagonal.store(i, 0, x)

    def put_beside(self, i: Dim, x: Scalar) -> None:
        """Write the element between those of rows i and i + 1."""
        self.off_diagonal.store(i + 1, 0, x)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that take in rotations, which are kept for some sweeps."""

    rows: Matrix
    width: Dim
    cosines: Matrix
    sines: Matrix


class Sweeps(ABC):
    """Sweeps over the blocks of a band, until it is diagonal; matrices take in their rotations.

    With one matrix these are the transposed vectors of three diagonals. Of two diagonals there are
    two, of both sides.
    """

    def __init__(self, work: Work, band: Band, line: Index) -> None:
        self.work, self.band, self.n, self.line = work, band, band.n, line
        self.first, self.end, self.taken, self.low, self.high = (
            work.nest.local(name, I64, 1) for name in ("first", "end", "taken", "low", "high")
        )
        self.sides: list[Rows] = []

    def run(self, sides: Sequence[tuple[Matrix, Dim]]) -> Scalar:
        """All sweeps; whether a row was left to do in the last one."""
        work = self.work
        for i, (rows, width) in enumerate(sides):
            tables = (
                work.room(f"{name}{i}", self.line, (SWEEPS, self.n), work.batch, work.dtype)
                for name in ("cosines", "sines")
            )
            self.sides.append(Rows(rows, width, *tables))
        self._set(self.first, 0)
        blocks = ceildiv(MOST * self.n, SWEEPS)
        with work.nest.loop("serial", blocks, "block"), chosen(work, self._is_going()):
            self._some_sweeps()
        return self._is_going()

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
        for side in self.sides:
            for table, start in ((side.cosines, 1), (side.sines, 0)):
                number = work.number(start)
                work.each(SWEEPS, n, lambda k, i, t=table, x=number: t.store(k, i, x))
        with work.nest.loop("serial", SWEEPS, "sweep") as sweep:
            self._find()
            with chosen(work, self._is_going()):
                self._whole_sweep(sweep)
        if self.sides:
            self._apply()

    def _find(self) -> None:
        """The first row from ``first`` on that is not cut from the next, and the last below it.

        ``first`` is n where there is none.
        """
        nest, words, n = self.work.nest, self.work.words, self.n
        behind = words.binary("sub", nest.size(n - 1), nest.load(self.first, 0))
        rows = nest.bind("rows", words.binary("max", behind, nest.size(0)), n - 1)
        cut = nest.local("cut", I64, 1)
        for state, at in ((self.first, n), (self.end, n - 1), (cut, n - 1)):
            self._set(state, at)
        with nest.loop("serial", rows, "t") as t:
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
            words.unary("abs", self.band.at(i)),
            words.unary("abs", self.band.at(i + 1)),
        )
        eps = self.work.number(float(np.finfo(self.work.dtype.numpy).eps))
        bound = binary("max", self.band.least, binary("mul", eps, around))
        return binary("le", words.unary("abs", self.band.beside(i)), bound)

    def _whole_sweep(self, sweep: Dim) -> None:
        """One sweep over a block, and which rows it turned."""
        nest, binary = self.work.nest, self.work.words.binary
        start, end = (
            nest.bind(s.name, nest.load(s, 0), self.n - 1) for s in (self.first, self.end)
        )
        self.sweep(sweep, start, end)
        self.band.put_beside(end, self.work.number(0))
        nest.store(self.taken, 0, binary("add", nest.load(self.taken, 0), nest.size(1)))
        nest.store(self.low, 0, binary("min", nest.load(self.low, 0), nest.size(start)))
        nest.store(self.high, 0, binary("max", nest.load(self.high, 0), nest.size(end)))

    @abstractmethod
    def sweep(self, sweep: Dim, start: Dim, end: Dim) -> None:
        """The rotations of one sweep, from row ``end`` to row ``start``."""

    @contextmanager
    def upwards(self, start: Dim, end: Dim) -> Generator[Dim]:
        """The upper one of two neighbouring rows, from the last to the first ones of a block."""
        nest = self.work.nest
        far = self.work.words.binary("sub", nest.size(end), nest.size(start))
        with nest.loop("serial", nest.bind("count", far, end), "t") as t:
            yield nest.named("at", end - 1 - t, self.n - 2)

    def turn(self, f: Scalar, g: Scalar) -> tuple[Scalar, Scalar, Scalar]:
        """Cosine and sine of the rotation that makes ``[r, 0]`` of ``[f, g]``, and r."""
        work, words, binary = self.work, self.work.words, self.work.words.binary
        square = binary("add", binary("mul", f, f), binary("mul", g, g))
        info = np.finfo(work.dtype.numpy)
        none = binary("lt", square, work.number(float(info.tiny / info.eps)))
        zero, one, root = work.number(0), work.number(1), words.unary("sqrt", square)
        over = binary("div", one, root)
        cosine = words.select(none, one, binary("mul", f, over))
        sine = words.select(none, zero, binary("mul", g, over))
        return cosine, sine, words.select(none, zero, root)

    def keep(self, side: int, sweep: Dim, i: Dim, cosine: Scalar, sine: Scalar) -> None:
        """A rotation of rows i and i + 1, for the rows that take it in."""
        if self.sides:
            self.sides[side].cosines.store(sweep, i, cosine)
            self.sides[side].sines.store(sweep, i, sine)

    def _apply(self) -> None:
        """The rotations of some sweeps, of which each strip of columns takes in all."""
        nest, binary, n = self.work.nest, self.work.words.binary, self.n
        taken = nest.bind("taken", nest.load(self.taken, 0), SWEEPS)
        ends = nest.load(self.low, 0), nest.load(self.high, 0)
        low = nest.bind("low", binary("min", *ends), n - 1)
        high = nest.bind("high", ends[1], n - 1)
        far = binary("sub", nest.size(high), nest.size(low))
        count = nest.bind("count", far, high)
        for side in self.sides:
            with (
                nest.loop(self.work.kind, side.width, "j", width=LANES) as j,
                nest.loop("serial", taken, "k") as k,
            ):
                self._rotations(side, k, j, (low, high, count))

    def _rotations(self, side: Rows, k: Dim, j: Dim, ends: tuple[Dim, Dim, Dim]) -> None:
        """All rotations of a sweep, of one column; the element that both sides change is kept."""
        nest, binary, rows = self.work.nest, self.work.words.binary, side.rows
        low, high, count = ends
        carried = nest.local("carried", self.work.dtype, 1)
        nest.store(carried, 0, rows.load(high, j))
        with nest.loop("serial", count, "t") as t:
            i = high - 1 - t
            c, s = side.cosines.load(k, i), side.sines.load(k, i)
            here, below = rows.load(i, j), nest.load(carried, 0)
            new = binary("add", binary("mul", c, below), binary("mul", s, here))
            rows.store(i + 1, j, new)
            new = binary("sub", binary("mul", c, here), binary("mul", s, below))
            nest.store(carried, 0, new)
        rows.store(low, j, nest.load(carried, 0))


class OfThree(Sweeps):
    """Of the three diagonals of a symmetric matrix."""

    def sweep(self, sweep: Dim, start: Dim, end: Dim) -> None:
        """From a shift by an eigenvalue of the first two rows."""
        work, nest, binary, band = self.work, self.work.nest, self.work.words.binary, self.band
        states = [nest.local(name, work.dtype, 1) for name in ("p", "g", "s", "c")]
        one, two, corner, near = work.number(1), work.number(2), band.at(start), band.beside(start)
        slope = binary("div", binary("sub", band.at(start + 1), corner), binary("mul", two, near))
        square = binary("add", binary("mul", slope, slope), one)
        root = binary("copysign", work.words.unary("sqrt", square), slope)
        shifted = binary("sub", band.at(end), corner)
        first = binary("add", shifted, binary("div", near, binary("add", slope, root)))
        for state, x in zip(states, (work.number(0), first, one, one), strict=True):
            nest.store(state, 0, x)
        with self.upwards(start, end) as i:
            p, g, s, c = (nest.load(state, 0) for state in states)
            beside, here = band.beside(i), band.at(i)
            f, b = binary("mul", s, beside), binary("mul", c, beside)
            cosine, sine, r = self.turn(g, f)
            band.put_beside(i + 1, r)
            high = binary("sub", band.at(i + 1), p)
            part = binary("mul", binary("sub", here, high), sine)
            r = binary("add", part, binary("mul", two, binary("mul", cosine, b)))
            step = binary("mul", sine, r)
            band.put(i + 1, binary("add", high, step))
            after = binary("sub", binary("mul", cosine, r), b)
            for state, x in zip(states, (step, after, sine, cosine), strict=True):
                nest.store(state, 0, x)
            self.keep(0, sweep, i, cosine, sine)
        band.put(start, binary("sub", band.at(start), nest.load(states[0], 0)))
        band.put_beside(start, nest.load(states[1], 0))


class OfTwo(Sweeps):
    """Of the diagonal and the one above it; the rotations of rows and of columns take turns."""

    def sweep(self, sweep: Dim, start: Dim, end: Dim) -> None:
        """From a shift by a singular value of the first two rows."""
        nest, binary, band = self.work.nest, self.work.words.binary, self.band
        states = [nest.local(name, self.work.dtype, 1) for name in ("f", "g")]
        nest.store(states[0], 0, self._start(start, end))
        nest.store(states[1], 0, band.beside(end - 1))
        with self.upwards(start, end) as i:
            f, g = (nest.load(state, 0) for state in states)
            low, beside, here = band.at(i + 1), band.beside(i), band.at(i)
            c, s, r = self.turn(f, g)
            band.put_beside(i + 1, r)
            f = binary("add", binary("mul", c, low), binary("mul", s, beside))
            beside = binary("sub", binary("mul", c, beside), binary("mul", s, low))
            g, here = binary("mul", s, here), binary("mul", c, here)
            self.keep(0, sweep, i, c, s)
            c, s, r = self.turn(f, g)
            band.put(i + 1, r)
            nest.store(
                states[0], 0, binary("add", binary("mul", c, beside), binary("mul", s, here))
            )
            band.put(i, binary("sub", binary("mul", c, here), binary("mul", s, beside)))
            far = band.beside(i - 1)
            nest.store(states[1], 0, binary("mul", s, far))
            band.put_beside(i - 1, binary("mul", c, far))
            self.keep(1, sweep, i, c, s)
        band.put_beside(start, nest.load(states[0], 0))

    def _start(self, start: Dim, end: Dim) -> Scalar:
        """What the first rotation makes zero with the element beside it.

        There is no shift where an element of the diagonal is nothing: the sweep cuts a row off.
        """
        work, words, binary, band = self.work, self.work.words, self.work.words.binary, self.band
        x, y = (words.unary("abs", band.at(i)) for i in (start, start + 1))
        one, corner = work.number(1), band.at(end)
        small, large = binary("min", x, y), binary("max", x, y)
        ratio = binary("div", words.unary("abs", band.beside(start)), large)
        more = binary("add", one, binary("div", small, large))
        less = binary("div", binary("sub", large, small), large)
        square = binary("mul", ratio, ratio)
        roots = [
            words.unary("sqrt", binary("add", binary("mul", z, z), square)) for z in (more, less)
        ]
        shift = binary("mul", small, binary("div", work.number(2), binary("add", *roots)))
        nothing = binary("le", self._least(start, end), band.least)
        plain = binary("lt", work.number(0), shift)
        size = binary("sub", words.unary("abs", corner), shift)
        over = binary("add", binary("copysign", one, corner), binary("div", shift, corner))
        shifted = words.select(nothing, corner, binary("mul", size, over))
        return words.select(plain, shifted, corner)

    def _least(self, start: Dim, end: Dim) -> Scalar:
        """The least magnitude on the diagonal of a block."""
        nest, words, band = self.work.nest, self.work.words, self.band
        far = words.binary("sub", nest.size(end), nest.size(start))

        def less(least: Scalar, t: Dim) -> Scalar:
            return words.binary("min", least, words.unary("abs", band.at(end - 1 - t)))

        count = nest.bind("count", far, end)
        return self.work.folded(count, words.unary("abs", band.at(end)), less)
