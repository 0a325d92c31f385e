"""LU and QR factors of matrices of a few rows, without loops inside of a matrix.

All elements are values, rows are exchanged by selecting, and nothing is kept in scratch memory. So
the loop over the matrices of a batch is the innermost one, and each of its lanes takes a matrix.
The steps are those of the operation's reference.
"""

from __future__ import annotations

from dlvm.gen.loops.statements import Scalar
from dlvm.ir.sizes.positions import Index
from dlvm.ops import Factorisation

from .workspace import Work

MOST = 4
"""Rows and columns up to which all steps are written out."""


def fits(op: Factorisation) -> bool:
    """Whether matrices are small enough, and their sizes known."""
    return all(isinstance(n, int) and n <= MOST for n in op.operands[0].shape[-2:])


def small_lu(work: Work, op: Factorisation, line: Index) -> None:
    """Both results of one matrix."""
    rows, columns = (range(int(size)) for size in op.operands[0].shape[-2:])
    x = [[work.element(op.operands[0], (*line, i, j)) for j in columns] for i in rows]
    order: list[Scalar] = [work.nest.size(i) for i in rows]
    for k in columns:
        _exchange(work, x, order, k)
        _eliminate(work, x, k)
    packed, places = op.results
    for i in rows:
        for j in columns if packed in work.targets else ():
            work.result(packed, (*line, i, j), x[i][j])
        if places in work.targets:
            work.result(places, (*line, i), order[i])


def _exchange(work: Work, x: list[list[Scalar]], order: list[Scalar], k: int) -> None:
    """Row k with the first one of the largest magnitude in column k; NaN only where it is k."""
    words = work.words
    most, rows = words.unary("abs", x[k][k]), range(k + 1, len(x))
    better: list[Scalar] = []
    for i in rows:
        size = words.unary("abs", x[i][k])
        better.append(words.binary("lt", most, size))
        most = words.select(better[-1], size, most)
    first, place = (*x[k], order[k]), (*x[k], order[k])
    later = None
    for i, larger in reversed(list(zip(rows, better, strict=True))):
        chosen = larger if later is None else words.binary("and", larger, words.unary("not", later))
        later = larger if later is None else words.binary("or", later, larger)
        row = (*x[i], order[i])
        place = tuple(words.select(chosen, a, b) for a, b in zip(row, place, strict=True))
        *x[i], order[i] = (words.select(chosen, a, b) for a, b in zip(first, row, strict=True))
    *x[k], order[k] = place


def _eliminate(work: Work, x: list[list[Scalar]], k: int) -> None:
    """The step with row k, for all rows below; a column of zeros stays as it is."""
    words, pivot = work.words, x[k][k]
    none = words.binary("eq", pivot, work.number(0))
    for row in x[k + 1 :]:
        row[k] = words.select(none, row[k], words.binary("div", row[k], pivot))
        for j in range(k + 1, len(row)):
            row[j] = work.minus(row[j], row[k], x[k][j])


def small_qr(work: Work, op: Factorisation, line: Index) -> None:
    """``R`` above the reflectors, and ``Q`` of these, from the last one on."""
    m, n = (int(size) for size in op.operands[0].shape[-2:])
    size, (q, r) = min(m, n), op.results
    x = [[work.element(op.operands[0], (*line, i, j)) for j in range(n)] for i in range(m)]
    scales = [_reflector(work, x, k) for k in range(size)]
    zero, one = work.number(0), work.number(1)
    for i in range(size if r in work.targets else 0):
        for j in range(n):
            work.result(r, (*line, i, j), x[i][j] if i <= j else zero)
    if q not in work.targets:
        return
    y = [[one if i == j else zero for j in range(size)] for i in range(m)]
    for k in reversed(range(size)):
        _reflect(work, y, [row[k] for row in x[k + 1 :]], scales[k], k, k)
    for i in range(m):
        for j in range(size):
            work.result(q, (*line, i, j), y[i][j])


def _reflector(work: Work, x: list[list[Scalar]], k: int) -> Scalar:
    """Reflect by column k, leave the reflector below the diagonal, and give its factor."""
    words, first = work.words, x[k][k]
    most = words.unary("abs", first)
    for row in x[k + 1 :]:
        most = words.binary("max", most, words.unary("abs", row[k]))
    zero, one = work.number(0), work.number(1)
    most = words.select(words.binary("eq", most, zero), one, most)
    below = zero
    for row in x[k + 1 :]:
        part = words.binary("div", row[k], most)
        below = words.binary("add", below, words.binary("mul", part, part))
    part = words.binary("div", first, most)
    square = words.binary("add", words.binary("mul", part, part), below)
    none = words.binary("eq", below, zero)
    end = words.unary("neg", words.binary("copysign", words.unary("sqrt", square), part))
    x[k][k] = words.select(none, first, words.binary("mul", most, end))
    apart = words.binary("sub", part, end)
    for row in x[k + 1 :]:
        behind = words.binary("div", words.binary("div", row[k], most), apart)
        row[k] = words.select(none, zero, behind)
    scale = words.binary("div", words.binary("sub", end, part), end)
    scale = words.select(none, zero, scale)
    _reflect(work, x, [row[k] for row in x[k + 1 :]], scale, k, k + 1)
    return scale


def _reflect(
    work: Work, x: list[list[Scalar]], v: list[Scalar], scale: Scalar, k: int, start: int
) -> None:
    """``X - t v (v' X)`` of the columns from ``start`` on."""
    words = work.words
    for j in range(start, len(x[0])):
        total = x[k][j]
        for factor, row in zip(v, x[k + 1 :], strict=True):
            total = words.binary("add", total, words.binary("mul", factor, row[j]))
        total = words.binary("mul", total, scale)
        x[k][j] = words.binary("sub", x[k][j], total)
        for factor, row in zip(v, x[k + 1 :], strict=True):
            row[j] = work.minus(row[j], factor, total)
