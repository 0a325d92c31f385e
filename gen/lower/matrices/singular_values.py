"""The loops of singular values: two diagonals, and rotations of few columns."""

from __future__ import annotations

from dlvm.gen.loops.builder import At
from dlvm.gen.loops.statements import Local, Scalar
from dlvm.ir import BOOL, Dim
from dlvm.ir.sizes.dims import at_least, maximum, minimum
from dlvm.ir.sizes.positions import Index
from dlvm.ops import Svd
from dlvm.ops.factorisations.rotations import SWEEPS
from dlvm.ops.factorisations.svd import ROOT, ROTATED
from dlvm.ops.factorisations.tridiagonal import bound

from .bidiagonal import Bidiagonal
from .reflections import Reflections, identity
from .rotations import angle, in_order, pairs, rotate, sign
from .spectra import ANY, APART, Problem, eps, room, ways
from .sweeps import OfTwo, chosen
from .workspace import Matrix, Work


def svd(work: Work, op: Svd, line: Index) -> None:
    """Of the matrix or its transpose, whichever has no more columns than rows.

    Few columns become orthogonal by rotations, and any number if it is accurate; others leave two
    diagonals. An open size has both.
    """
    m, n = op.a.shape[-2:]
    shape = long, short = maximum(m, n), minimum(m, n)
    x, tall = room(work, "tall", line, (long, short + APART)), _is_tall(work, m, n)
    work.each(long, short, lambda i, j: x.store(i, j, _element(work, op, line, (i, j), tall)))
    values = room(work, "values", line, (short + 1, 1))
    wanted = any(op.results[i] in work.targets for i in (0, 2))
    names = (("long", long), ("short", short)) if wanted else ()
    vectors = tuple(room(work, name, line, (short, width)) for name, width in names)
    problem = Problem.of(work, line, x, shape, values, vectors)
    few, some, many = ways(work, short, ANY if op.accurate else ROTATED)
    if few is not False:
        with chosen(work, few):
            _by_columns(problem)
    for blocked, condition in ((False, some), (True, many)):
        if condition is not False:
            with chosen(work, condition):
                _by_diagonals(problem, blocked)
    in_order(work, values, short, *zip(vectors, shape, strict=False))
    _write(problem, op, tall)


def _is_tall(work: Work, m: Dim, n: Dim) -> Scalar | bool:
    """Whether there are no more columns than rows."""
    if at_least(m, n) or at_least(n, m + 1):
        return at_least(m, n)
    return work.words.binary("le", work.nest.size(n), work.nest.size(m))


def _element(work: Work, op: Svd, line: Index, at: tuple[Dim, Dim], tall: Scalar | bool) -> Scalar:
    """An element of the matrix if it is tall, and of its transpose if not."""
    (i, j), (m, n) = at, op.a.shape[-2:]
    if isinstance(tall, bool):
        return work.element(op.a, (*line, *((i, j) if tall else (j, i))))
    found = [
        work.words.wide(
            work.pull.element(op.a, At((*line, row, column), (m - 1 - row, n - 1 - column)))
        )
        for row, column in ((i, j), (j, i))
    ]
    return work.words.select(tall, *found)


def _write(problem: Problem, op: Svd, tall: Scalar | bool) -> None:
    """The values, and the vectors of both sides with their signs."""
    work, line, (_, short) = problem.work, problem.line, problem.shape
    nest, words, nan, (u, s, vt) = work.nest, work.words, work.number(float("nan")), op.results
    solved = problem.is_solved()
    if s in work.targets:
        with nest.loop(work.kind, short) as j:
            value = words.unary("neg", problem.values.load(j, 0))
            found = words.select(solved, value, nan)
            work.result(s, (*line, j), found)
    if not problem.vectors:
        return
    lengths = op.a.shape[-2:]

    def element(side: int, j: Dim, i: Dim) -> Scalar:
        """Of vector j of the columns (0) or of the rows (1) of the result."""
        first, second = problem.vectors
        if isinstance(tall, bool):
            return (first if (side == 0) == tall else second).load(j, i)
        found = first.load(j, i), second.load(j, i, short - 1 - i)
        return words.select(tall, *(found if side == 0 else reversed(found)))

    with nest.loop("serial", short) as j:
        side = 0 if op.left else 1
        turned = sign(work, lambda i: element(side, j, i), lengths[side])
        for side, result in ((0, u), (1, vt)):
            if result not in work.targets:
                continue
            with nest.loop("serial", lengths[side]) as i:
                place = (*line, i, j) if side == 0 else (*line, j, i)
                found = words.binary("mul", element(side, j, i), turned)
                work.result(result, place, words.select(solved, found, nan))


def _by_diagonals(problem: Problem, blocked: bool) -> None:
    """Two diagonals, and then rotations of the vectors of their reflections."""
    work, line, (long, short), values = problem.work, problem.line, problem.shape, problem.values
    words = work.words
    band, scale = problem.band()
    two = Bidiagonal(work, problem.x, problem.shape, band, line, blocked)
    sides = ((two.outer, two.outer_scales, long), (two.inner, two.inner_scales, short))
    for rows, (reflectors, scales, width) in zip(problem.vectors, sides, strict=False):
        shape, label = (width, short), f"_{rows.memory.name}_"
        q = Reflections(work, reflectors, shape, line, blocked, scales, label).unitary()
        work.each(short, width, lambda j, i, rows=rows, q=q: rows.store(j, i, q.load(i, j)))
    going = OfTwo(work, band, line).run([*zip(problem.vectors, problem.shape, strict=False)])
    work.nest.store(problem.unfinished, 0, going)
    if problem.vectors:
        rows, one = problem.vectors[1], work.number(1)
        with work.nest.loop(work.kind, short) as j:
            end = words.binary("copysign", one, values.load(j, 0))
            with work.nest.loop(work.kind, short) as i:
                rows.store(j, i, words.binary("mul", rows.load(j, i), end))
    _scale_back(problem, scale)


def _scale_back(problem: Problem, scale: Scalar) -> None:
    """The values of the matrix before it was scaled, negative: so they are put in order."""
    work, words, values = problem.work, problem.work.words, problem.values

    def scaled(j: Dim, _: Dim) -> None:
        size = words.binary("mul", words.unary("abs", values.load(j, 0)), scale)
        values.store(j, 0, words.unary("neg", size))

    work.each(problem.shape[1], 1, scaled)


def _by_columns(problem: Problem) -> None:
    """The columns, which are rows in memory, become orthogonal, then sorted."""
    work, line, (m, n), values = problem.work, problem.line, problem.shape, problem.values
    nest, words = work.nest, work.words
    scale = problem.scaled(float(bound(work.dtype.numpy, ROOT)))
    first, second = problem.vectors or (
        room(work, name, line, (n, width)) for name, width in (("long", m), ("short", n))
    )
    work.each(n, m, lambda j, i: first.store(j, i, problem.x.load(i, j)))
    identity(work, second, n, n)
    _orthogonal(work, first, second, (m, n), problem.unfinished)
    with nest.loop("serial", n) as j:
        root = words.unary("sqrt", _dots(work, first, (j, j), m)[0])
        values.store(j, 0, words.unary("neg", root))
    in_order(work, values, n, (first, m), (second, n))
    _scale_back(problem, scale)
    if problem.vectors:
        _unit_columns(problem)


def _unit_columns(problem: Problem) -> None:
    """Rows of length 1, orthogonal to the last bits where some are zeros."""
    work, (m, n), rows = problem.work, problem.shape, problem.vectors[0]
    y = room(work, "unit_columns", problem.line, (m, n))
    work.each(m, n, lambda i, j: y.store(i, j, rows.load(j, i)))
    unitary = Reflections(work, y, (m, n), problem.line).unitary()
    with work.nest.loop("serial", n) as j:
        k = work.nest.named("row", j, m - 1)
        end = work.words.binary("copysign", work.number(1), y.load(k, j))
        with work.nest.loop(work.kind, m) as i:
            rows.store(j, i, work.words.binary("mul", unitary.load(i, j), end))


def _orthogonal(work: Work, x: Matrix, rows: Matrix, shape: tuple[Dim, Dim], again: Local) -> None:
    """Sweeps of rotations, for as long as a pair of rows was not orthogonal: ``again``."""
    nest, words, (m, n) = work.nest, work.words, shape
    nest.store(again, 0, words.constant(True, BOOL))
    root = words.unary("sqrt", words.cast(nest.size(m), work.dtype))
    limit = words.binary("mul", root, work.number(eps(work)))
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
    small, no_angle = (work.number(float(bound(work.dtype.numpy, root))) for root in (1, 2))
    roots = (words.unary("sqrt", words.binary("max", z, small)) for z in (a, b))
    sizes = words.binary("mul", *roots)
    none = words.binary("mul", no_angle, words.binary("max", a, b))
    none = words.binary("max", small, none)
    least = words.binary("max", words.binary("mul", limit, sizes), none)
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
