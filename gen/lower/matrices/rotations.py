"""Jacobi rotations of the rows of matrices in scratch memory.

The steps are those of ``dlvm/ops/factorisations/rotations.py``. A sweep that finds nothing to do is
a loop of no turns: how many there are is known when it starts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import BOOL, I64, Dim
from dlvm.ops.factorisations.rotations import LARGE

from .workspace import Matrix, Work


@contextmanager
def pairs(work: Work, active: Scalar, n: Dim) -> Generator[tuple[Dim, Dim]]:
    """Each pair p < q of n rows; none where a sweep is not ``active``."""
    nest, words = work.nest, work.words
    with nest.loop("serial", n, "p") as p:
        behind = words.select(active, nest.size(n - 1 - p), words.constant(0, I64))
        with nest.loop("serial", nest.bind("behind", behind, n - 1 - p), "q") as turn:
            yield p, p + 1 + turn


def angle(work: Work, a: Scalar, b: Scalar, c: Scalar, rising: bool) -> tuple[Scalar, ...]:
    """Cosine and sine of the rotation that makes ``[[a, c], [c, b]]`` diagonal; the diagonal."""
    binary, unary, one, half = work.words.binary, work.words.unary, work.number(1), work.number(0.5)
    select, zero = work.words.select, work.number(0)
    slope = binary("div", binary("sub", binary("mul", b, half), binary("mul", a, half)), c)
    root = unary("sqrt", binary("add", one, binary("mul", slope, slope)))
    below = binary("add", unary("abs", slope), root)
    tangent = binary("div", binary("copysign", one, slope), below)
    none = binary("eq", c, zero)
    tangent = select(none, zero, tangent)
    root = unary("sqrt", binary("add", one, binary("mul", tangent, tangent)))
    sine = binary("div", tangent, root)
    half_tangent = binary("div", tangent, binary("add", one, root))
    cosine = binary("sub", one, binary("mul", sine, half_tangent))
    step = binary("mul", tangent, c)
    first, second = binary("sub", a, step), binary("add", b, step)
    other = binary("lt", second, first) if rising else binary("lt", first, second)
    other = select(none, work.words.constant(False, BOOL), other)
    turned = select(other, sine, cosine), select(other, unary("neg", cosine), sine)
    return *turned, select(other, second, first), select(other, first, second)


def rotate(work: Work, x: Matrix, pair: tuple[Dim, Dim], c: Scalar, s: Scalar, width: Dim) -> None:
    """Two rows become sums of both."""
    binary, (p, q) = work.words.binary, pair
    with work.nest.loop(work.kind, width) as j:
        first, second = x.load(p, j), x.load(q, j)
        x.store(p, j, binary("sub", binary("mul", c, first), binary("mul", s, second)))
        x.store(q, j, binary("add", binary("mul", s, first), binary("mul", c, second)))


def in_order(work: Work, keys: Matrix, n: Dim, *rows: tuple[Matrix, Dim]) -> None:
    """Sort by selection: keys ascending, and the rows that belong to them."""
    nest, words = work.nest, work.words
    with nest.loop("serial", n, "k") as k:
        place = nest.local("place", I64, 1)
        nest.store(place, 0, nest.size(k))

        def less(least: Scalar, i: Dim, k: Dim = k, place: Local = place) -> Scalar:
            key = keys.load(k + 1 + i, 0)
            better = words.binary("lt", key, least)
            found = words.select(better, nest.size(k + 1 + i), nest.load(place, 0))
            nest.store(place, 0, found)
            return words.select(better, key, least)

        work.folded(n - 1 - k, keys.load(k, 0), less)
        p = nest.bind("least", nest.load(place, 0), n - 1)
        for x, width in ((keys, 1), *rows):
            exchange(work, x, k, p, width)


def exchange(work: Work, x: Matrix, k: Dim, p: Dim, width: Dim) -> None:
    """Rows k and p in one another's place."""
    with work.nest.loop("serial", width) as j:
        here, there = x.load(k, j), x.load(p, j)
        x.store(k, j, there)
        x.store(p, j, here)


def sign(work: Work, element: Callable[[Dim], Scalar], count: Dim) -> Scalar:
    """The sign of the first element that is large beside the largest; of no elements 1."""
    words, zero = work.words, work.number(0)

    def larger(most: Scalar, i: Dim) -> Scalar:
        return words.binary("max", most, words.unary("abs", element(i)))

    bound = words.binary("mul", work.folded(count, zero, larger), work.number(LARGE))

    def first(found: Scalar, i: Dim) -> Scalar:
        x = element(i)
        large = words.binary("le", bound, words.unary("abs", x))
        new = words.binary("and", words.binary("eq", found, zero), large)
        return words.select(new, x, found)

    return words.binary("copysign", work.number(1), work.folded(count, zero, first))


def finite(work: Work, count: tuple[Dim, Dim], element: Callable[[Dim, Dim], Scalar]) -> Scalar:
    """Whether all elements are finite."""
    nest, words = work.nest, work.words
    all_are = nest.local("finite", BOOL, 1)
    nest.store(all_are, 0, words.constant(True, BOOL))
    with nest.loop("serial", count[0]) as i, nest.loop("serial", count[1]) as j:
        zero = words.binary(
            "eq", words.binary("mul", element(i, j), work.number(0)), work.number(0)
        )
        nest.store(all_are, 0, words.binary("and", nest.load(all_are, 0), zero))
    return nest.load(all_are, 0)


def largest(work: Work, count: tuple[Dim, Dim], element: Callable[[Dim, Dim], Scalar]) -> Scalar:
    """The largest magnitude; 0 where there is none."""
    nest, words = work.nest, work.words
    most = nest.local("largest", work.dtype, 1)
    nest.store(most, 0, work.number(0))
    with nest.loop("serial", count[0]) as i, nest.loop("serial", count[1]) as j:
        size = words.unary("abs", element(i, j))
        nest.store(most, 0, words.binary("max", nest.load(most, 0), size))
    return nest.load(most, 0)
