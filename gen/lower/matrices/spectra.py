"""What the loops of eigenvalues and of singular values have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import BOOL, I64, Dim
from dlvm.ir.sizes.positions import Index
from dlvm.ops.factorisations import tridiagonal

from .blocks import PANEL
from .rotations import finite, largest
from .sweeps import Band
from .workspace import Matrix, Work

APART = 8
"""Columns of a matrix that are not used, so that 256 rows of a column are in many cache sets."""
ANY = 2**62
"""More rows than there are."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A matrix in scratch memory, which is spoilt, and where its values and vectors go.

    The vectors are rows: of a symmetric matrix one set, of others one for the longer and one for
    the shorter side, or none where only values are asked for. Room for values ends later than they.
    """

    work: Work
    line: Index
    x: Matrix
    shape: tuple[Dim, Dim]
    whole: Scalar
    values: Matrix
    vectors: tuple[Matrix, ...]
    unfinished: Local

    @staticmethod
    def of(
        work: Work,
        line: Index,
        x: Matrix,
        shape: tuple[Dim, Dim],
        values: Matrix,
        vectors: tuple[Matrix, ...],
    ) -> Problem:
        """One whose sweeps have not begun."""
        whole, unfinished = finite(work, shape, x.load), work.nest.local("unfinished", BOOL, 1)
        work.nest.store(unfinished, 0, work.words.constant(False, BOOL))
        return Problem(work, line, x, shape, whole, values, vectors, unfinished)

    def is_solved(self) -> Scalar:
        """Whether there are results: the matrix was finite, and sweeps came to an end."""
        words = self.work.words
        ended = words.unary("not", self.work.nest.load(self.unfinished, 0))
        return words.binary("and", self.whole, ended)

    def scaled(self, low: float) -> Scalar:
        """Divide the matrix by what is given, and make it zero where it is not finite."""
        work, words = self.work, self.work.words
        scale = scale_of(work, largest(work, self.shape, self.x.load), low)

        def divided(i: Dim, j: Dim) -> None:
            found = words.binary("div", self.x.load(i, j), scale)
            self.x.store(i, j, words.select(self.whole, found, work.number(0)))

        work.each(*self.shape, divided)
        return scale

    def band(self) -> tuple[Band, Scalar]:
        """Room for diagonals of the matrix after it was scaled, and by what."""
        work = self.work
        scale = self.scaled(float(tridiagonal.bound(work.dtype.numpy)))
        part = work.number(eps(work) / tridiagonal.TINY)
        least = work.words.binary("mul", largest(work, self.shape, self.x.load), part)
        return Band.of(work, self.shape[1], self.line, self.values, least), scale


def room(work: Work, name: str, line: Index, shape: Index) -> Matrix:
    """Scratch memory for a matrix of each problem of a batch."""
    return work.room(name, line, shape, work.batch, work.dtype)


def eps(work: Work) -> float:
    """The distance of 1 to the next number."""
    return float(np.finfo(work.dtype.numpy).eps)


def ways(work: Work, n: Dim, rotated: int) -> tuple[Scalar | bool, ...]:
    """Whether there are few rows, some, or many: for rotations, plain steps and panels.

    A lane of a GPU takes plain steps of many as well. There are rotations alone where up to ``ANY``
    rows are rotated.
    """
    if rotated == ANY:
        return True, False, False
    most = PANEL if work.blocked else ANY
    if isinstance(n, int):
        return n <= rotated, rotated < n <= most, most < n
    words, size = work.words, work.nest.size(n)
    few, not_many = (words.binary("le", size, words.constant(m, I64)) for m in (rotated, most))
    beyond, many = (words.binary("lt", words.constant(m, I64), size) for m in (rotated, most))
    some = words.binary("and", beyond, not_many)
    return few, some, many if work.kind != "serial" else False


def scale_of(work: Work, most: Scalar, low: float) -> Scalar:
    """What a matrix is divided by: 1, where neither its largest element nor its inverse is low."""
    words, one = work.words, work.number(1)
    high = words.binary("le", most, work.number(1 / low))
    ordinary = words.binary("and", words.binary("le", work.number(low), most), high)
    none = words.binary("eq", most, work.number(0))
    return words.select(words.binary("or", ordinary, none), one, most)
