"""The loops of eigenvalues of symmetric matrices: three diagonals, and rotations of few rows."""

from __future__ import annotations

from dlvm.gen.loops.statements import Scalar
from dlvm.ir import BOOL, I64, Dim
from dlvm.ir.sizes.positions import Index
from dlvm.ops import Eigh
from dlvm.ops.factorisations.eigh import ROTATED
from dlvm.ops.factorisations.rotations import SWEEPS
from dlvm.ops.factorisations.tridiagonal import bound

from .reflections import Reflections, identity
from .rotations import angle, in_order, largest, pairs, rotate, sign
from .spectra import ANY, APART, Problem, eps, room, ways
from .sweeps import OfThree, chosen
from .tridiagonal import Tridiagonal
from .workspace import Matrix, Work


def eigh(work: Work, op: Eigh, line: Index) -> None:
    """By rotations or, of more than ``ROTATED`` rows, by three diagonals; an open size has both.

    If it is accurate, it is by rotations for any number of rows.
    """
    n = op.a.shape[-1]
    x = room(work, "full", line, (n, n + APART))
    with work.nest.loop("serial", n, "i") as i, work.nest.loop("serial", i + 1) as j:
        found = work.element(op.a, (*line, i, j))
        x.store(i, j, found)
        x.store(j, i, found)
    values = room(work, "values", line, (n + 1, 1))
    vectors = (room(work, "rows", line, (n, n)),) if op.results[1] in work.targets else ()
    problem = Problem.of(work, line, x, (n, n), values, vectors)
    few, some, many = ways(work, n, ANY if op.accurate else ROTATED)
    if few is not False:
        with chosen(work, few):
            (_rotated_to_all_digits if op.accurate else _rotated)(problem)
    for blocked, condition in ((False, some), (True, many)):
        if condition is not False:
            with chosen(work, condition):
                _reduced(problem, blocked)
    in_order(work, values, n, *((rows, n) for rows in vectors))
    _write(problem, op)


def _write(problem: Problem, op: Eigh) -> None:
    """The values, and the vectors with their signs."""
    work, line, (n, _) = problem.work, problem.line, problem.shape
    nest, words, nan, (w, v) = work.nest, work.words, work.number(float("nan")), op.results
    solved = problem.is_solved()
    if w in work.targets:
        with nest.loop(work.kind, n) as i:
            found = words.select(solved, problem.values.load(i, 0), nan)
            work.result(w, (*line, i), found)
    for rows in problem.vectors:
        with nest.loop(work.kind, n) as j:
            turned = sign(work, lambda i, rows=rows, j=j: rows.load(j, i), n)
            with nest.loop("serial", n) as i:
                element = words.binary("mul", rows.load(j, i), turned)
                work.result(v, (*line, i, j), words.select(solved, element, nan))


def _reduced(problem: Problem, blocked: bool) -> None:
    """Three diagonals, and then rotations of the vectors of their reflections."""
    work, line, (n, _), values = problem.work, problem.line, problem.shape, problem.values
    band, scale = problem.band()
    three = Tridiagonal(work, problem.x, band, line)
    (three.by_panels if blocked else three.by_steps)()
    for rows in problem.vectors:
        _unitary(work, three, blocked, rows, line)
    going = OfThree(work, band, line).run([(rows, n) for rows in problem.vectors])
    work.nest.store(problem.unfinished, 0, going)
    binary = work.words.binary
    work.each(n, 1, lambda i, _: values.store(i, 0, binary("mul", values.load(i, 0), scale)))


def _unitary(work: Work, three: Tridiagonal, blocked: bool, rows: Matrix, line: Index) -> None:
    """The transpose of the product of the reflections."""
    n, scales = three.n, three.scales
    q = Reflections(work, three.reflectors, (n, n), line, blocked, scales).unitary()
    work.each(n, n, lambda i, j: rows.store(i, j, q.load(j, i)))


def _rotated(problem: Problem) -> None:
    """The matrix becomes diagonal; the transposed vectors take the rotations of its rows."""
    work, x, (n, _), values = problem.work, problem.x, problem.shape, problem.values
    nest, words = work.nest, work.words
    for rows in problem.vectors:
        identity(work, rows, n, n)
    limit = words.binary("mul", largest(work, (n, n), x.load), work.number(eps(work)))
    again = problem.unfinished
    nest.store(again, 0, words.constant(True, BOOL))
    with nest.loop("serial", SWEEPS, "sweep"):
        active = words.binary("lt", limit, _beside(work, x, n, nest.load(again, 0)))
        nest.store(again, 0, active)
        with pairs(work, active, n) as pair:
            _turn(problem, pair, x.load(*pair))
    work.each(n, 1, lambda i, _: values.store(i, 0, x.load(i, i)))


def _rotated_to_all_digits(problem: Problem) -> None:
    """The same, by sweeps until each element is small beside two of the diagonal."""
    work, x, (n, _), values = problem.work, problem.x, problem.shape, problem.values
    nest, words, again = work.nest, work.words, problem.unfinished
    scale = problem.scaled(float(bound(work.dtype.numpy)))
    for rows in problem.vectors:
        identity(work, rows, n, n)
    nest.store(again, 0, words.constant(True, BOOL))
    with nest.loop("serial", SWEEPS, "sweep"):
        active = nest.load(again, 0)
        nest.store(again, 0, words.constant(False, BOOL))
        with pairs(work, active, n) as pair:
            turns = _is_large(work, x, pair)
            nest.store(again, 0, words.binary("or", nest.load(again, 0), turns))
            _turn(problem, pair, words.select(turns, x.load(*pair), work.number(0)))
    work.each(n, 1, lambda i, _: values.store(i, 0, words.binary("mul", x.load(i, i), scale)))


def _is_large(work: Work, x: Matrix, pair: tuple[Dim, Dim]) -> Scalar:
    """Whether an element counts beside those of the diagonal in its row and in its column."""
    words = work.words
    roots = (words.unary("sqrt", words.unary("abs", x.load(i, i))) for i in pair)
    least = words.binary("mul", words.binary("mul", *roots), work.number(eps(work)))
    least = words.binary("max", least, work.number(float(bound(work.dtype.numpy, 1))))
    return words.binary("lt", least, words.unary("abs", x.load(*pair)))


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


def _turn(problem: Problem, pair: tuple[Dim, Dim], c: Scalar) -> None:
    """Rotate two rows and columns, whose common element ``c`` becomes zero, and the vectors."""
    work, x, (n, _) = problem.work, problem.x, problem.shape
    nest, (p, q) = work.nest, pair
    cosine, sine, first, second = angle(work, x.load(p, p), x.load(q, q), c, True)
    rotate(work, x, pair, cosine, sine, n)
    with nest.loop("serial", n) as k:
        x.store(k, p, x.load(p, k))
        x.store(k, q, x.load(q, k))
    x.store(p, p, first)
    x.store(q, q, second)
    x.store(p, q, work.number(0))
    x.store(q, p, work.number(0))
    for rows in problem.vectors:
        rotate(work, rows, pair, cosine, sine, n)
