"""Eigenvalues and eigenvectors of matrices that are not symmetric, as pairs of real numbers.

Both come from real Schur forms. What holds an infinity or NaN gives NaN.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dlvm.dsl.arrays.factorisations import matrix, schur_factors, with_eigenpairs
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp

from .parts import Parts, less, over, times

BIG = 2.0**30
"""From here on a vector is divided by its size while it is computed."""
LARGE = 0.75
"""A component is called large from this part of the largest magnitude on."""


class Pairs(NamedTuple):
    """The real and the imaginary parts of complex numbers."""

    real: Any
    imag: Any


class EigPairs(NamedTuple):
    """Eigenvalues, and eigenvectors as columns, each as real and imaginary parts."""

    eigenvalues: Pairs
    eigenvectors: Pairs


@exported("linalg.eigvals_pairs")
def eigvals_pairs(x: Any) -> Pairs:
    """The eigenvalues of square matrices, as real and imaginary parts.

    They stand in the order of the Schur form, pairs beside one another with the positive imaginary
    part first. An eigenvalue that is no multiple one has a derivative::

        real, imag = dlvm.linalg.eigvals_pairs(np.array([[0.0, 2.0], [-2.0, 0.0]]))
    """
    return _rows(_solved(matrix("eigvals_pairs", x))[0])


@exported("linalg.eig_pairs")
def eig_pairs(x: Any) -> EigPairs:
    """Eigenvalues and eigenvectors of square matrices, as real and imaginary parts.

    Each vector has the length 1, and of its components the first of at least 3/4 of the largest
    magnitude is real and positive. Vectors of equal eigenvalues are no function of the matrix, and
    their derivative is NaN. No derivative exists of a matrix that lacks eigenvectors.
    """
    w, v = _solved(matrix("eig_pairs", x))
    n = v.shape[-1]
    return EigPairs(_rows(w), Pairs(*_normal(v[..., :n, :], v[..., n:, :])))


def _rows(w: Tensor) -> Pairs:
    """The real and the imaginary parts of values."""
    return Pairs(w[..., 0, :], w[..., 1, :])


def _solved(a: Tensor) -> tuple[Tensor, Tensor]:
    """Values, and vectors of any length, with both parts in one array."""
    t, z = schur_factors(a)
    vectors = [xp.matmul(z, part) for part in _vectors(t)]
    values = xp.stack(_values(t), axis=-2)
    return with_eigenpairs(a, values, xp.concat(vectors, axis=-2))


def _normal(real: Any, imaginary: Any) -> Parts:
    """Vectors of length 1, of which the first large component is real and positive."""
    square = real * real + imaginary * imaginary
    length = xp.sqrt(xp.sum(square, axis=-2, keepdims=True))
    real, imaginary = real / length, imaginary / length
    still = xp.stop_gradient(square)
    large = still >= LARGE * LARGE * xp.max(still, axis=-2, keepdims=True)
    place = xp.argmax(large, axis=-2, keepdims=True)
    c, s = (xp.take_along_axis(part, place, axis=-2) for part in (real, imaginary))
    size = xp.sqrt(c * c + s * s)
    c, s = c / size, s / size
    return real * c + imaginary * s, imaginary * c - real * s


def _beside(t: Any) -> Parts:
    """The elements below and right of each one of the diagonal; of the last one zeros."""
    rows = xp.arange(t.shape[-1])[:, None]
    columns = xp.arange(t.shape[-1])
    below = xp.sum(xp.where(rows == columns + 1, t, 0.0), axis=-2)
    return below, xp.sum(xp.where(rows + 1 == columns, t, 0.0), axis=-1)


def _behind(x: Any) -> Any:
    """Each element in the place of the next, where the last one is zero."""
    return xp.roll(x, 1, axis=-1)


def _values(t: Any) -> Parts:
    """The eigenvalues of a real Schur form."""
    below, above = map(xp.abs, _beside(t))
    first = xp.where(below > 0, xp.sqrt(below) * xp.sqrt(above), 0.0)
    return xp.diagonal(t, axis1=-2, axis2=-1), first - _behind(first)


def _vectors(t: Any) -> Parts:
    """The eigenvectors of a real Schur form, by substitution from the last row on."""
    from dlvm.dsl.flow.loops import fori_loop  # not loaded by those who call nothing of it

    n = t.shape[-1]
    most = xp.max(xp.abs(t), axis=(-2, -1), keepdims=True, initial=0.0)
    t = t / xp.where(most > 0, most, 1.0)
    w, below = _values(t), _beside(t)[0]

    def step(turn: Any, x: Parts) -> Parts:
        return _row(t, w, below, n - 1 - turn, x)

    return fori_loop(0, n, step, _begun(t, w[1]))


def _begun(t: Any, imaginary: Any) -> Parts:
    """What vectors have in the rows of their own blocks."""
    n = t.shape[-1]
    below, above = _beside(t)
    first, second = below != 0, _behind(below) != 0
    b, c = (xp.where(second, _behind(x), x) for x in (above, below))
    paired = first | second
    b, w = xp.where(paired, b, 1.0), xp.where(paired, imaginary, 1.0)
    wide = xp.logical_not(paired) | (xp.abs(b) >= xp.abs(c))
    rows = xp.arange(n)[:, None]
    own = xp.arange(n) - xp.astype(second, "i64")
    real = xp.where(wide, 1.0, b / w)[..., None, :]
    other = xp.where(paired, xp.where(wide, w / b, 1.0), 0.0)[..., None, :]
    own = own[..., None, :]
    return xp.where(rows == own, real, 0.0), xp.where(rows == own + 1, other, 0.0)


def _row(t: Any, w: Parts, below: Any, i: Any, x: Parts) -> Parts:
    """Row i of the vectors of all later blocks, or both rows of a block if it is the second."""
    n = t.shape[-1]
    columns, before = xp.arange(n), xp.maximum(i - 1, 0)
    later = columns > i
    above, rest = (
        [-xp.matmul(xp.where(later, t[..., r, :], 0.0)[..., None, :], y)[..., 0, :] for y in x]
        for r in (before, i)
    )
    apart = t[..., i, i][..., None] - w[0], -w[1]
    alone = over((rest[0], rest[1]), _away(apart))
    first = (below[..., i] != 0)[..., None]
    second = ((below[..., before] != 0) & (before < i))[..., None]
    b, c = t[..., before, i][..., None], t[..., i, before][..., None]
    both = _pair(apart, xp.where(second, b, 0.0), xp.where(second, c, 0.0), above, rest)
    single = later & xp.logical_not(first | second)
    factor = _factor([*alone, *both[0], *both[1]], [single] * 2 + [later & second] * 4)
    found: list[Any] = []
    for y, one, upper, lower in zip(x, alone, *both, strict=True):
        here = xp.where(later & second, lower, xp.where(single, one, y[..., i, :]))
        y = y.at[..., i, :].set(here)
        there = xp.where(later & second, upper, y[..., before, :])
        found.append(y.at[..., before, :].set(there) * factor[..., None, :])
    return found[0], found[1]


def _factor(parts: list[Any], used: list[Any]) -> Any:
    """What each vector is multiplied by, so that its size stays in bounds."""
    sizes = [xp.where(u, xp.abs(p), 0.0) for p, u in zip(parts, used, strict=True)]
    size = sizes[0]
    for other in sizes[1:]:
        size = xp.maximum(size, other)
    return xp.where(size > BIG, 1.0 / size, 1.0)


def _away(x: Parts) -> Parts:
    """The number, or one that is as large as a rounding error of the largest, which is 1."""
    eps = xp.finfo(x[0].dtype).eps
    small = xp.abs(x[0]) + xp.abs(x[1]) < eps
    return xp.where(small, eps, x[0]), xp.where(small, 0.0, x[1])


def _where(mask: Any, x: Parts, y: Parts) -> Parts:
    return xp.where(mask, x[0], y[0]), xp.where(mask, x[1], y[1])


def _pair(a: Parts, b: Any, c: Any, above: Any, rest: Any) -> tuple[Parts, Parts]:
    """``[[a, b], [c, a]] [x, y] = [above, rest]`` by elimination, with the larger pivot."""
    zero = xp.zeros_like(a[0])
    b, c = (b + zero, zero), (c + zero, zero)
    swapped = xp.abs(c[0]) > xp.abs(a[0]) + xp.abs(a[1])
    pivot, other = _where(swapped, c, a), _where(swapped, a, c)
    beside, last = _where(swapped, a, b), _where(swapped, b, a)
    right, left = _where(swapped, rest, above), _where(swapped, above, rest)
    pivot = _away(pivot)
    factor = over(other, pivot)
    y = over(less(left, times(factor, right)), _away(less(last, times(factor, beside))))
    return over(less(right, times(beside, y)), pivot), y
