"""Linear equations whose unknown is a matrix between two matrices: those of Sylvester, Lyapunov
and Stein.

The method is that of Bartels and Stewart (Communications of the ACM 15, 1972): in the bases of the
Schur forms of both matrices the unknown is found row by row. Blocks of two rows are made triangular
with complex numbers, as pairs of real ones. An equation without a single solution gives NaN if a
divisor is exactly 0, and else large numbers, as ``solve`` does.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.arrays.factorisations import demand, matrices, schur_factors, stretched
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import broadcast_shapes, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.namespace import xp

from .parts import Parts, inverse, less, product, times

Form = tuple[Parts, Parts]
"""An upper triangle ``T`` and a unitary ``U`` with ``U T U*``."""


@exported("linalg.solve_sylvester")
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """``x`` with ``a @ x + x @ b = q``, for square ``a`` and ``b`` of any two sizes.

    There is a single solution unless an eigenvalue of ``a`` is minus one of ``b``. Leading axes are
    batches, which are broadcast. Derivatives of any order take no other Schur forms.
    """
    a, b, q = _operands("solve_sylvester", a, b, q)
    return _solved(a, b, q, _form(a), _form(b), False)


@exported("linalg.solve_continuous_lyapunov")
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """``x`` with ``a @ x + x @ a.T = q``: the steady covariance of ``dx = a x dt`` plus noise of
    the covariance ``-q``.

    There is a single solution unless two eigenvalues of ``a`` add up to zero.
    """
    a, turned, q = _operands("solve_continuous_lyapunov", a, None, q)
    form = _form(a)
    return _solved(a, turned, q, form, _turned(form), False)


@exported("linalg.solve_discrete_lyapunov")
def solve_discrete_lyapunov(a: Any, q: Any) -> Any:
    """``x`` with ``a @ x @ a.T - x + q = 0``: the steady covariance of ``x[t+1] = a x[t]`` plus
    noise of the covariance ``q``.

    There is a single solution unless the product of two eigenvalues of ``a`` is one.
    """
    a, turned, q = _operands("solve_discrete_lyapunov", a, None, q)
    form = _form(a)
    return _solved(a, turned, -q, form, _turned(form), True)


def _operands(name: str, a: Any, b: Any, q: Any) -> list[Tensor]:
    """Matrices of one batch; without ``b`` the transpose of ``a`` is in its place."""
    xs = matrices(name, a, *(() if b is None else (b,)), q)
    for x in xs[:-1]:
        demand(name, x)
    demand(name, xs[-1], square=False)
    right = xs[-1].type.shape[-2:]
    expected = xs[0].type.shape[-1], xs[-2].type.shape[-1]
    if right != expected:
        raise ShapeError(
            f"{name}: expected matrices of {shown_shape(expected)} as the right side, "
            f"found an array of the shape {shown_shape(xs[-1].type.shape)}",
            origin=user_origin(),
            remedy="give the right side the rows of the first matrix and the columns of the second",
            sides=next((x, y) for x, y in zip(right, expected, strict=True) if x != y),
        )
    batch = broadcast_shapes([x.type.shape[:-2] for x in xs])
    found = [stretched(x, batch, 2) for x in xs]
    return found if b is not None else [found[0], xp.matrix_transpose(found[0]), found[1]]


def _form(a: Tensor) -> Form:
    """The complex Schur form of matrices, which says how a solution is computed and not what it is.

    Blocks of two rows of the real form become triangular. The eigenvectors of
    ``[[a, b], [c, a]]`` with ``b c < 0`` are multiples of ``(cos, i sin)`` and its reflection, for
    ``tan = sqrt(-c / b)`` with the sign of b.
    """
    still = xp.stop_gradient(a)
    t, z = schur_factors(xp.astype(still, "f32") if a.dtype.itemsize == 2 else still)
    c, s = _rotations(t)
    straight, across = xp.matmul(t, c), xp.matmul(t, s)
    real = xp.matmul(c, straight) + xp.matmul(s, across)
    imaginary = xp.matmul(c, across) - xp.matmul(s, straight)
    return (xp.triu(real), xp.triu(imaginary)), (xp.matmul(z, c), xp.matmul(z, s))


def _rotations(t: Any) -> Parts:
    """The real and the imaginary part of the matrix that makes blocks of two rows triangular."""
    rows, columns = xp.arange(t.shape[-1])[:, None], xp.arange(t.shape[-1])
    lower = rows == columns + 1
    below = xp.sum(xp.where(lower, t, 0.0), axis=-2)
    above = xp.sum(xp.where(rows + 1 == columns, t, 0.0), axis=-1)
    paired = below != 0
    ratio = xp.sqrt(xp.abs(below)) / xp.sqrt(xp.where(paired, xp.abs(above), 1.0))
    cos = 1.0 / xp.sqrt(1.0 + ratio * ratio)
    sin = xp.where(paired, xp.copysign(ratio * cos, above), 0.0)
    cos = xp.where(xp.roll(paired, 1, axis=-1), xp.roll(cos, 1, axis=-1), cos)
    across = xp.where(lower, sin[..., None, :], 0.0)
    return xp.where(rows == columns, cos[..., None, :], 0.0), across + xp.matrix_transpose(across)


def _turned(form: Form) -> Form:
    """The form of the transpose: ``A' = (U J) (J T* J) (U J)*`` for the J that reverses."""
    (t, it), (u, iu) = form
    turn = xp.matrix_transpose
    both, columns = (-2, -1), -1
    t, it = xp.flip(turn(t), axis=both), -xp.flip(turn(it), axis=both)
    return (t, it), (xp.flip(u, axis=columns), xp.flip(iu, axis=columns))


def _solved(a: Any, b: Any, q: Any, first: Form, second: Form, stein: bool) -> Any:
    """``X`` with ``A X + X B = Q``, or with ``stein`` ``A X B - X = Q``, with its derivatives."""
    return _equation()(a, b, q, first, second, stein)


@cache
def _equation() -> Any:
    from dlvm.dsl.derive.custom import custom_vjp  # not loaded by those who call nothing of it

    found = custom_vjp(_sylvester, nondiff_args=("stein",))

    def forward(a: Any, b: Any, q: Any, first: Form, second: Form, stein: bool) -> Any:
        x = found(a, b, q, first, second, stein)
        return x, (a, b, x, first, second)

    found.defvjp(forward, _cotangents)
    return found


def _cotangents(stein: bool, kept: Any, g: Any) -> Any:
    """Y of the same equation with both matrices transposed, for the right side. For the matrices
    ``-Y X'`` and ``-X' Y``, with ``stein`` ``-Y (X B)'`` and ``-(A X)' Y``.
    """
    a, b, x, first, second = kept
    turn = xp.matrix_transpose
    y = _solved(turn(a), turn(b), g, _turned(first), _turned(second), stein)
    right, left = (xp.matmul(x, b), xp.matmul(a, x)) if stein else (x, x)
    return -xp.matmul(y, turn(right)), -xp.matmul(turn(left), y), y, None, None


def _sylvester(a: Any, b: Any, q: Any, first: Form, second: Form, stein: bool) -> Any:
    """The solution in the bases of the triangles, and back."""
    (t, (u, iu)), (s, (v, iv)) = first, second
    f, turn = xp.astype(q, u.dtype), xp.matrix_transpose
    f = xp.matmul(turn(u), f), -xp.matmul(turn(iu), f)
    y, iy = product(_rows(t, s, product(f, (v, iv)), stein), (turn(v), -turn(iv)))
    return xp.astype(xp.matmul(u, y) - xp.matmul(iu, iy), q.dtype)


def _rows(t: Parts, s: Parts, f: Parts, stein: bool) -> Parts:
    """``T Y + Y S = F``, or ``T Y S - Y = F``, for upper triangles, from the last row on."""
    from dlvm.dsl.flow.loops import fori_loop  # not loaded by those who call nothing of it

    m = f[0].shape[-2]
    places = xp.arange(m)
    diagonal = xp.diagonal(s[0], axis1=-2, axis2=-1), xp.diagonal(s[1], axis1=-2, axis2=-1)
    above = xp.triu(s[0], 1), xp.triu(s[1], 1)

    def step(turn: Any, y: Parts) -> Parts:
        i = m - 1 - turn
        row = t[0][..., i, :], t[1][..., i, :]
        later = [xp.where(places > i, part, 0.0)[..., None, :] for part in row]
        known = product((later[0], later[1]), y)
        known = product(known, s) if stein else known
        rest = less((y[0][..., i, :], y[1][..., i, :]), (known[0][..., 0, :], known[1][..., 0, :]))
        here = row[0][..., i][..., None], row[1][..., i][..., None]
        found = _row(here, diagonal, above, rest, stein)
        return y[0].at[..., i, :].set(found[0]), y[1].at[..., i, :].set(found[1])

    return fori_loop(0, m, step, f)


def _row(here: Parts, diagonal: Parts, above: Parts, rest: Parts, stein: bool) -> Parts:
    """``t y + y S = f``, or ``t y S - y = f``, for a number t of each matrix of the batch."""
    from dlvm.dsl.flow.loops import fori_loop  # not loaded by those who call nothing of it

    if stein:
        real, imaginary = times(here, diagonal)
        factors = inverse((real - 1.0, imaginary))
        above = times((here[0][..., None], here[1][..., None]), above)
    else:
        factors = inverse((here[0] + diagonal[0], here[1] + diagonal[1]))

    def step(j: Any, y: Parts) -> Parts:
        factor = factors[0][..., j], factors[1][..., j]
        found = times((y[0][..., j], y[1][..., j]), factor)
        wide = found[0][..., None], found[1][..., None]
        y = less(y, times(wide, (above[0][..., j, :], above[1][..., j, :])))
        return y[0].at[..., j].set(found[0]), y[1].at[..., j].set(found[1])

    return fori_loop(0, rest[0].shape[-1], step, rest)
