"""The loops of eigenvalues and of singular values: Jacobi rotations, sweep by sweep."""

from __future__ import annotations

import numpy as np

from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import BOOL, I64, Dim
from dlvm.ir.dims import minimum
from dlvm.ir.positions import Index
from dlvm.ops import Eigh, Svd
from dlvm.ops.factorisations.rotations import SWEEPS
from dlvm.ops.factorisations.svd import bound

from .reflections import Reflections, identity
from .rotations import angle, finite, in_order, largest, pairs, rotate, sign
from .workspace import Matrix, Work

APART = 8
"""Columns of a matrix that are not used, so that 256 rows of a column are in many cache sets."""


def _room(work: Work, name: str, line: Index, shape: Index) -> Matrix:
    return work.room(name, line, shape, work.batch, work.dtype)


def _eps(work: Work) -> float:
    return float(np.finfo(work.dtype.numpy).eps)


# -- eigenvalues -----------------------------------------------------------------------------------


def eigh(work: Work, op: Eigh, line: Index) -> None:
    """The matrix becomes diagonal; ``V'`` takes the rotations of its rows."""
    nest, words, n = work.nest, work.words, op.a.shape[-1]
    x, values = _room(work, "rotated", line, (n, n + APART)), _room(work, "values", line, (n, 1))
    w, v = op.results
    rows = [_room(work, "vectors", line, (n, n))] if v in work.targets else []
    with nest.loop("serial", n, "i") as i, nest.loop("serial", i + 1) as j:
        found = work.element(op.a, (*line, i, j))
        x.store(i, j, found)
        x.store(j, i, found)
    for y in rows:
        identity(work, y, n, n)
    whole = finite(work, (n, n), x.load)
    limit = words.binary("mul", largest(work, (n, n), x.load), work.number(_eps(work)))
    again = nest.local("again", BOOL, 1)
    nest.store(again, 0, words.constant(True, BOOL))
    with nest.loop("serial", SWEEPS, "sweep"):
        active = words.binary("lt", limit, _beside(work, x, n, nest.load(again, 0)))
        nest.store(again, 0, active)
        with pairs(work, active, n) as pair:
            cosine, sine = _both_sides(work, x, pair, n)
            for y in rows:
                rotate(work, y, pair, cosine, sine, n)
    work.each(n, 1, lambda i, _: values.store(i, 0, x.load(i, i)))
    in_order(work, values, n, *((y, n) for y in rows))
    nan = work.number(float("nan"))
    if w in work.targets:
        with nest.loop(work.kind, n) as i:
            work.result(w, (*line, i), words.select(whole, values.load(i, 0), nan))
    for y in rows:
        with nest.loop(work.kind, n) as j:
            turned = sign(work, lambda i, y=y, j=j: y.load(j, i), n)
            with nest.loop("serial", n) as i:
                element = words.binary("mul", y.load(j, i), turned)
                work.result(v, (*line, i, j), words.select(whole, element, nan))


def _beside(work: Work, x: Matrix, n: Dim, again: Scalar) -> Scalar:
    """The largest magnitude below the diagonal; not looked for again where nothing was found."""
    nest, words = work.nest, work.words
    count = words.select(again, nest.size(n), words.constant(0, I64))
    rows = nest.bind("rows", count, n)
    most = nest.local("beside", work.dtype, 1)
    nest.store(most, 0, work.number(0))
    with nest.loop("serial", rows, "i") as i, nest.loop("serial", i) as j:
        size = words.unary("abs", x.load(i, j))
        nest.store(most, 0, words.binary("max", nest.load(most, 0), size))
    return nest.load(most, 0)


def _both_sides(work: Work, x: Matrix, pair: tuple[Dim, Dim], n: Dim) -> tuple[Scalar, Scalar]:
    """Rotate two rows and columns so that their common element becomes zero; by this angle."""
    nest, (p, q) = work.nest, pair
    a, b, c = x.load(p, p), x.load(q, q), x.load(p, q)
    cosine, sine, first, second = angle(work, a, b, c, True)
    rotate(work, x, pair, cosine, sine, n)
    with nest.loop("serial", n) as k:
        x.store(k, p, x.load(p, k))
        x.store(k, q, x.load(q, k))
    x.store(p, p, first)
    x.store(q, q, second)
    x.store(p, q, work.number(0))
    x.store(q, p, work.number(0))
    return cosine, sine


# -- singular values -------------------------------------------------------------------------------


def svd(work: Work, op: Svd, line: Index) -> None:
    """The columns of the matrix, which are rows in memory, become orthogonal, then sorted."""
    nest, words, (m, n) = work.nest, work.words, op.a.shape[-2:]
    x, rows = _room(work, "columns", line, (n, m)), _room(work, "right", line, (n, n))
    keys = _room(work, "keys", line, (n, 1))

    def element(i: Dim, j: Dim) -> Scalar:
        return work.element(op.a, (*line, i, j))

    whole = finite(work, (m, n), element)
    scale = _scale(work, largest(work, (m, n), element))
    work.each(n, m, lambda j, i: x.store(j, i, words.binary("div", element(i, j), scale)))
    identity(work, rows, n, n)
    _orthogonal(work, x, rows, (m, n))
    with nest.loop("serial", n) as j:
        root = words.unary("sqrt", _dots(work, x, (j, j), m)[0])
        keys.store(j, 0, words.unary("neg", root))
    in_order(work, keys, n, (x, m), (rows, n))
    size, nan = minimum(m, n), work.number(float("nan"))
    u, s, vt = op.results
    if s in work.targets:
        with nest.loop(work.kind, size) as j:
            value = words.binary("mul", words.unary("neg", keys.load(j, 0)), scale)
            work.result(s, (*line, j), words.select(whole, value, nan))
    if u not in work.targets and vt not in work.targets:
        return
    y = _room(work, "left", line, (m, size))
    work.each(m, size, lambda i, j: y.store(i, j, x.load(j, i)))
    unitary = Reflections(work, y, (m, size), line).unitary()
    with nest.loop("serial", size) as j:
        k = nest.named("row", j, m - 1)
        end = words.binary("copysign", work.number(1), y.load(k, j))

        def column(i: Dim, j: Dim = j, end: Scalar = end) -> Scalar:
            return words.binary("mul", unitary.load(i, j), end)

        def row(i: Dim, j: Dim = j) -> Scalar:
            return rows.load(j, i)

        turned = sign(work, column, m) if op.left else sign(work, row, n)
        for result, part, count in ((u, column, m), (vt, row, n)):
            if result not in work.targets:
                continue
            with nest.loop("serial", count) as i:
                place = (*line, i, j) if result is u else (*line, j, i)
                found = words.binary("mul", part(i), turned)
                work.result(result, place, words.select(whole, found, nan))


def _scale(work: Work, most: Scalar) -> Scalar:
    """What squares are taken relative to: 1, where neither over- nor underflows."""
    words, one = work.words, work.number(1)
    low = float(bound(work.dtype.numpy))
    high = words.binary("le", most, work.number(1 / low))
    ordinary = words.binary("and", words.binary("le", work.number(low), most), high)
    none = words.binary("eq", most, work.number(0))
    return words.select(words.binary("or", ordinary, none), one, most)


def _orthogonal(work: Work, x: Matrix, rows: Matrix, shape: tuple[Dim, Dim]) -> None:
    """Sweeps of rotations, for as long as a pair of rows was not orthogonal."""
    nest, words, (m, n) = work.nest, work.words, shape
    again = nest.local("again", BOOL, 1)
    nest.store(again, 0, words.constant(True, BOOL))
    root = words.unary("sqrt", words.cast(nest.size(m), work.dtype))
    limit = words.binary("mul", root, work.number(_eps(work)))
    with nest.loop("serial", SWEEPS, "sweep"):
        active = nest.load(again, 0)
        nest.store(again, 0, words.constant(False, BOOL))
        with pairs(work, active, n) as pair:
            _one_side(work, (x, m), (rows, n), pair, limit, again)


def _one_side(
    work: Work,
    x: tuple[Matrix, Dim],
    rows: tuple[Matrix, Dim],
    pair: tuple[Dim, Dim],
    limit: Scalar,
    again: Local,
) -> None:
    """Rotate two rows so that they become orthogonal, unless they are."""
    nest, words = work.nest, work.words
    a, b, c = _dots(work, x[0], pair, x[1])
    sizes = words.binary("mul", words.unary("sqrt", a), words.unary("sqrt", b))
    least = words.binary("mul", limit, sizes)
    turns = words.binary("lt", least, words.unary("abs", c))
    nest.store(again, 0, words.binary("or", nest.load(again, 0), turns))
    cosine, sine, *_ = angle(work, a, b, words.select(turns, c, work.number(0)), False)
    for matrix, width in (x, rows):
        rotate(work, matrix, pair, cosine, sine, width)


def _dots(work: Work, x: Matrix, pair: tuple[Dim, Dim], width: Dim) -> tuple[Scalar, ...]:
    """The products of two rows with themselves and with one another."""
    nest, words, (p, q) = work.nest, work.words, pair
    states = [nest.local("dot", work.dtype, 1) for _ in range(1 if p == q else 3)]
    for state in states:
        nest.store(state, 0, work.number(0))
    with nest.loop("serial", width) as j:
        first = x.load(p, j)
        second = first if p == q else x.load(q, j)
        for state, (y, z) in zip(
            states, ((first, first), (second, second), (first, second)), strict=False
        ):
            product = words.binary("mul", y, z)
            nest.store(state, 0, words.binary("add", nest.load(state, 0), product))
    return tuple(nest.load(state, 0) for state in states)
