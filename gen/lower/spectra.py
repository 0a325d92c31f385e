"""The loops of eigenvalues and of singular values.

Symmetric matrices go by way of three diagonals, and few rows by Jacobi rotations, as singular
values do.
"""

from __future__ import annotations

import numpy as np

from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import BOOL, I64, Dim
from dlvm.ir.dims import minimum
from dlvm.ir.positions import Index
from dlvm.ops import Eigh, Svd
from dlvm.ops.factorisations import tridiagonal
from dlvm.ops.factorisations.eigh import ROTATED
from dlvm.ops.factorisations.rotations import SWEEPS
from dlvm.ops.factorisations.svd import bound

from .blocks import PANEL
from .ql import QL, chosen
from .reflections import Reflections, identity
from .rotations import angle, finite, in_order, largest, pairs, rotate, sign
from .tridiagonal import Tridiagonal
from .workspace import Matrix, Work

APART = 8
"""Columns of a matrix that are not used, so that 256 rows of a column are in many cache sets."""


def _room(work: Work, name: str, line: Index, shape: Index) -> Matrix:
    return work.room(name, line, shape, work.batch, work.dtype)


def _eps(work: Work) -> float:
    return float(np.finfo(work.dtype.numpy).eps)


# -- eigenvalues -----------------------------------------------------------------------------------


def eigh(work: Work, op: Eigh, line: Index) -> None:
    """By rotations or, of more than ``ROTATED`` rows, by three diagonals; an open size has both."""
    nest, words, n = work.nest, work.words, op.a.shape[-1]
    x = _room(work, "full", line, (n, n + APART))
    values = _room(work, "values", line, (n + 1, 1))
    rows = _room(work, "rows", line, (n, n)) if op.results[1] in work.targets else None
    with nest.loop("serial", n, "i") as i, nest.loop("serial", i + 1) as j:
        found = work.element(op.a, (*line, i, j))
        x.store(i, j, found)
        x.store(j, i, found)
    whole = finite(work, (n, n), x.load)
    few, some, many = _sizes(work, n)
    if few is not False:
        with chosen(work, few):
            _rotated(work, x, values, rows, n)
    for blocked, condition in ((False, some), (True, many)):
        if condition is not False:
            with chosen(work, condition):
                _reduced(work, x, values, rows, n, whole, blocked, line)
    in_order(work, values, n, *(((rows, n),) if rows is not None else ()))
    nan, (w, v) = work.number(float("nan")), op.results
    if w in work.targets:
        with nest.loop(work.kind, n) as i:
            work.result(w, (*line, i), words.select(whole, values.load(i, 0), nan))
    if rows is None:
        return
    with nest.loop(work.kind, n) as j:
        turned = sign(work, lambda i: rows.load(j, i), n)
        with nest.loop("serial", n) as i:
            element = words.binary("mul", rows.load(j, i), turned)
            work.result(v, (*line, i, j), words.select(whole, element, nan))


def _sizes(work: Work, n: Dim) -> tuple[Scalar | bool, ...]:
    """Whether there are few rows, some, or many: for rotations, plain steps and panels.

    A lane of a GPU takes plain steps of many as well.
    """
    most = 2**62 if work.kind == "serial" else PANEL
    if isinstance(n, int):
        return n <= ROTATED, ROTATED < n <= most, most < n
    words, size = work.words, work.nest.size(n)
    few, not_many = (words.binary("le", size, words.constant(m, I64)) for m in (ROTATED, most))
    beyond, many = (words.binary("lt", words.constant(m, I64), size) for m in (ROTATED, most))
    some = words.binary("and", beyond, not_many)
    return few, some, many if work.kind != "serial" else False


def _reduced(
    work: Work,
    x: Matrix,
    values: Matrix,
    rows: Matrix | None,
    n: Dim,
    whole: Scalar,
    blocked: bool,
    line: Index,
) -> None:
    """Three diagonals, and then rotations of the vectors of their reflections."""
    words = work.words
    scale = _scale(work, largest(work, (n, n), x.load), float(tridiagonal.bound(work.dtype.numpy)))

    def divided(i: Dim, j: Dim) -> None:
        found = words.binary("div", x.load(i, j), scale)
        x.store(i, j, words.select(whole, found, work.number(0)))

    work.each(n, n, divided)
    part = work.number(_eps(work) / tridiagonal.TINY)
    least = words.binary("mul", largest(work, (n, n), x.load), part)
    three = Tridiagonal(work, x, values, n, line, least)
    (three.by_panels if blocked else three.by_steps)()
    if rows is not None:
        shape = n, n
        q = Reflections(work, three.reflectors, shape, line, blocked, three.scales).unitary()
        work.each(n, n, lambda i, j: rows.store(i, j, q.load(j, i)))
    QL(work, n, (values, three.beside), least, rows, line)
    work.each(n, 1, lambda i, _: values.store(i, 0, words.binary("mul", values.load(i, 0), scale)))


def _rotated(work: Work, x: Matrix, values: Matrix, rows: Matrix | None, n: Dim) -> None:
    """The matrix becomes diagonal; ``V'`` takes the rotations of its rows."""
    nest, words = work.nest, work.words
    if rows is not None:
        identity(work, rows, n, n)
    limit = words.binary("mul", largest(work, (n, n), x.load), work.number(_eps(work)))
    again = nest.local("again", BOOL, 1)
    nest.store(again, 0, words.constant(True, BOOL))
    with nest.loop("serial", SWEEPS, "sweep"):
        active = words.binary("lt", limit, _beside(work, x, n, nest.load(again, 0)))
        nest.store(again, 0, active)
        with pairs(work, active, n) as pair:
            cosine, sine = _both_sides(work, x, pair, n)
            if rows is not None:
                rotate(work, rows, pair, cosine, sine, n)
    work.each(n, 1, lambda i, _: values.store(i, 0, x.load(i, i)))


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
    low = float(bound(work.dtype.numpy))
    scale = _scale(work, largest(work, (m, n), element), low)
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


def _scale(work: Work, most: Scalar, low: float) -> Scalar:
    """What a matrix is divided by: 1, where neither its largest element nor its inverse is low."""
    words, one = work.words, work.number(1)
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
