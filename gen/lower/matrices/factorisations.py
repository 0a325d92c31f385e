"""Kernels of factorisations: plain steps for small matrices, panels and products for large ones.

The matrix is copied into scratch memory, in the type in which it is computed, and changed there.
In a plain step every row that is left takes in a multiple of one row, so that the innermost loops
go along rows, whose elements lie beside one another; elements take the steps of the operation's
reference in the same order, so both agree to the bit. Of more than 64 rows a panel is taken by
such steps, and the rest takes in the panel by a product (``blocks``). The number of threads and
lanes changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from dlvm.base.errors import CompilerError
from dlvm.gen.loops.statements import Buffer, Local, Operand, Scalar
from dlvm.gen.lower.elements import Pull
from dlvm.gen.lower.products import matrix_in_memory
from dlvm.ir import BOOL, I64, Dim, Function, Value
from dlvm.ir.sizes.dims import floordiv
from dlvm.ir.sizes.positions import Index
from dlvm.ops import LU, QR, Cholesky, Eigh, Factorisation, Schur, Svd, TriangularSolve

from .blocks import STEP, Factors, Span, Triangle, block, panels, solve, subtract, widths_for
from .eigenvalues import eigh
from .reflections import qr
from .schur import schur
from .singular_values import svd
from .small import fits, small_lu, small_qr
from .workspace import Matrix, Work

GROUPS = 32
"""Groups of rows that the lanes of a block search for a pivot."""
Found: TypeAlias = tuple[Scalar, Scalar]
"""A magnitude, and the row where it is."""
SQUARES = 128
"""Rows of a symmetric matrix that are updated together, the part below the diagonal as well."""


def factorise(pull: Pull, body: Function, targets: Mapping[Value, Buffer]) -> None:
    """The loops of the one factorisation or triangular solve of a body.

    Without ``panels`` or ``together`` only matrices are independent.
    """
    (op,) = (op for op in body.ops if isinstance(op, Factorisation))
    batch = op.operands[0].shape[:-2]
    blocked = pull.forms.take("panels")
    free = blocked or pull.forms.take("together")
    work = Work(pull, op, targets, "parallel" if free else "serial", blocked)
    with pull.nest.loops(batch, range(len(batch)), "parallel") as line:
        match op:
            case Cholesky():
                _cholesky(work, op, line)
            case TriangularSolve():
                _substitute(work, op, line)
            case LU() if fits(op):
                small_lu(work, op, line)
            case LU():
                _lu(work, op, line)
            case QR() if fits(op):
                small_qr(work, op, line)
            case QR():
                qr(work, op, line)
            case Eigh():
                eigh(work, op, line)
            case Schur():
                schur(work, op, line)
            case Svd():
                svd(work, op, line)
            case _:
                raise CompilerError(f"there are no loops for {op.name}")


# -- Cholesky --------------------------------------------------------------------------------------


def _cholesky(work: Work, op: Cholesky, line: Index) -> None:
    """``L'`` in the upper triangle, row by row; ``positive`` says whether all pivots were."""
    nest, words, n = work.nest, work.words, op.shape[-1]
    x = work.room("factor", line, (n, n), op.shape[:-2], work.dtype)
    work.each(n, n, lambda i, j: x.store(i, j, work.element(op.a, (*line, j, i))))
    positive = nest.local("positive", BOOL, 1)
    nest.store(positive, 0, words.constant(True, BOOL))
    widths = widths_for(work, n)
    _rows(work, x, Span(0, n), positive, widths[:-1] if len(widths) > 1 else widths)
    whole, nan = nest.load(positive, 0), work.number(float("nan"))

    def write(i: Dim, j: Dim) -> None:
        work.result(op, (*line, i, j), words.select(whole, x.load(j, i, i - j), nan))

    work.each(n, n, write)


def _rows(work: Work, x: Matrix, rows: Span, positive: Local, widths: tuple[int, ...]) -> None:
    """Some rows of the factor; what is done is taken from those that are left, to the last column.

    Of these only the upper triangle counts.
    """
    n = x.columns
    if not widths:
        _roots(work, x, rows, positive)
        if rows.size != n:
            solve(work, Triangle(block(x, 0, 0, True), False, True), x, rows, rows.to(n), (STEP,))
        return
    with panels(work, rows, widths[0]) as here:
        _rows(work, x, here, positive, widths[1:])
        with panels(work, here.to(rows.end), SQUARES) as some:
            columns = Span(some.start, n - some.start)
            u, v = block(x, here.start, some.start, True), block(x, here.start, some.start)
            subtract(work, x, some, columns, Factors(u, v, here.size))


def _roots(work: Work, x: Matrix, rows: Span, positive: Local) -> None:
    """The factor of a block on the diagonal."""
    nest, words = work.nest, work.words
    with nest.loop("serial", rows.size, "k") as turn:
        k, left = rows.start + turn, rows.size - 1 - turn
        pivot = x.load(k, k)
        ok = words.binary("lt", work.number(0), pivot)
        nest.store(positive, 0, words.binary("and", nest.load(positive, 0), ok))
        root = words.unary("sqrt", pivot)
        x.store(k, k, root)
        with nest.loop(work.kind, left) as j:
            x.store(k, k + 1 + j, words.binary("div", x.load(k, k + 1 + j), root))
        with nest.loop(work.kind, left) as i:
            row, factor = k + 1 + i, x.load(k, k + 1 + i)
            with nest.loop(work.kind, left - i) as j:
                new = work.minus(x.load(row, row + j), factor, x.load(k, row + j))
                x.store(row, row + j, new)


# -- substitution ----------------------------------------------------------------------------------


def _substitute(work: Work, op: TriangularSolve, line: Index) -> None:
    """A copy of the right sides becomes the solution."""
    n, columns = op.shape[-2:]
    x = work.room("solution", line, (n, columns), op.shape[:-2], work.dtype)
    work.each(n, columns, lambda i, j: x.store(i, j, work.element(op.b, (*line, i, j))))
    memory = _in_memory(work, op.t, line)
    memory = memory.turned() if op.transposed else memory
    triangle = Triangle(memory, op.unit, op.lower != op.transposed)
    solve(work, triangle, x, Span(0, n), Span(0, columns), widths_for(work, n))
    work.each(n, columns, lambda i, j: work.result(op, (*line, i, j), x.load(i, j)))


def _in_memory(work: Work, t: Value, line: Index) -> Operand:
    """A square matrix as a factor of products: where it lies, or a copy in the computed type."""
    found = matrix_in_memory(work.pull, t, line)
    if found is not None and found.buffer.dtype == work.dtype:
        return found
    copy, n = work.room("triangle", line, t.shape[-2:], t.shape[:-2], work.dtype), t.shape[-1]
    work.each(n, n, lambda i, j: copy.store(i, j, work.element(t, (*line, i, j))))
    return block(copy, 0, 0)


# -- LU --------------------------------------------------------------------------------------------


def _lu(work: Work, op: LU, line: Index) -> None:
    """Find the pivot, exchange two rows, take multiples of one row from all below it."""
    nest, (m, n), batch = work.nest, op.a.shape[-2:], op.a.shape[:-2]
    x = work.room("factors", line, (m, n), batch, work.dtype)
    order = work.room("places", line, (m, 1), batch, I64)
    work.each(m, n, lambda i, j: x.store(i, j, work.element(op.a, (*line, i, j))))
    work.each(m, 1, lambda i, j: order.store(i, j, nest.size(i)))
    _factors(work, x, order, m, Span(0, n), widths_for(work, n))
    packed, places = op.results
    if packed in work.targets:
        work.each(m, n, lambda i, j: work.result(packed, (*line, i, j), x.load(i, j)))
    if places in work.targets:
        work.each(m, 1, lambda i, j: work.result(places, (*line, i), order.load(i, j)))


def _factors(
    work: Work, x: Matrix, order: Matrix, rows: Dim, columns: Span, widths: tuple[int, ...]
) -> None:
    """The factors of some columns, from their first row on; rows are exchanged as a whole.

    The columns that are left of a panel's right take in the panel at once.
    """
    if not widths:
        _steps(work, x, order, rows, columns)
        return
    with panels(work, columns, widths[0]) as here:
        _factors(work, x, order, rows, here, widths[1:])
        right, below = here.to(columns.end), here.to(rows)
        fine = widths[1:] or ((STEP,) if widths[0] > STEP else ())
        solve(work, Triangle(block(x, 0, 0), True, True), x, here, right, fine)
        u, v = block(x, below.start, here.start), block(x, here.start, right.start)
        subtract(work, x, below, right, Factors(u, v, here.size))


def _steps(work: Work, x: Matrix, order: Matrix, count: Dim, columns: Span) -> None:
    """Step by step; what is right of the columns only has its rows exchanged."""
    nest = work.nest
    with nest.loop("serial", columns.size, "k") as turn:
        k = columns.start + turn
        p = _pivot(work, x, k, count)
        for rows, width in ((x, x.columns), (order, 1)):
            with nest.loop("parallel" if work.together else "serial", width) as j:
                here, there = rows.load(k, j), rows.load(p, j)
                rows.store(k, j, there)
                rows.store(p, j, here)
        _eliminate(work, x, k, count, columns.end)


def _pivot(work: Work, x: Matrix, k: Dim, rows: Dim) -> Dim:
    """The first row from k on with the largest magnitude in column k; NaN only where it is k.

    Lanes search groups of rows, and all of them the groups.
    """
    nest, words, count = work.nest, work.words, rows - 1 - k
    first, here = words.unary("abs", x.load(k, k)), nest.size(k)

    def below(i: Dim, *where: Dim) -> Found:
        return words.unary("abs", x.load(k + 1 + i, k, *where)), nest.size(k + 1 + i)

    if not work.together or (isinstance(rows, int) and rows <= GROUPS):
        _, place = _largest(work, (first, here), count, below)
        return nest.bind("pivot", place, rows - 1)
    sizes, places = nest.local("sizes", work.dtype, GROUPS), nest.local("places", I64, GROUPS)
    each = floordiv(count + (GROUPS - 1), GROUPS)
    with nest.loop(work.kind, GROUPS) as group:
        start = group * each  # a zero is no pivot, so that what is not there is none
        size, place = _largest(
            work, (work.number(0), here), each, lambda s: below(start + s, count - 1 - start - s)
        )
        nest.store(sizes, group, size)
        nest.store(places, group, place)
    _, place = _largest(
        work, (first, here), GROUPS, lambda g: (nest.load(sizes, g), nest.load(places, g))
    )
    return nest.bind("pivot", place, rows - 1)


def _largest(work: Work, start: Found, count: Dim, candidate: Callable[[Dim], Found]) -> Found:
    """The first of the largest magnitudes, where ``start`` is the first of all."""
    nest, words = work.nest, work.words
    place = nest.local("place", I64, 1)
    nest.store(place, 0, start[1])

    def larger(most: Scalar, i: Dim) -> Scalar:
        size, here = candidate(i)
        better = words.binary("lt", most, size)
        nest.store(place, 0, words.select(better, here, nest.load(place, 0)))
        return words.select(better, size, most)

    return work.folded(count, start[0], larger), nest.load(place, 0)


def _eliminate(work: Work, x: Matrix, k: Dim, rows: Dim, end: Dim) -> None:
    """The step with row k, for all rows below and the columns up to ``end``.

    A column of zeros stays as it is.
    """
    nest, words = work.nest, work.words
    pivot = x.load(k, k)
    none = words.binary("eq", pivot, work.number(0))
    with nest.loop(work.kind, rows - 1 - k) as i:
        row, old = k + 1 + i, x.load(k + 1 + i, k)
        factor = words.select(none, old, words.binary("div", old, pivot))
        x.store(row, k, factor)
        with nest.loop(work.kind, end - 1 - k) as j:
            column = k + 1 + j
            x.store(row, column, work.minus(x.load(row, column), factor, x.load(k, column)))
