"""Gamma numbers by Marsaglia and Tsang (2000), and the distributions that are made of them.

Of ``d = a - 1/3`` and ``c = 1 / sqrt(9 d)`` a normal number z is accepted so that
``x = d * (1 + c * z) ** 3`` is a gamma number of the shape a >= 1; for others
``x(a) = x(a + 1) * u ** (1 / a)``. The derivative with respect to the shape is implicit (Figurnov,
Mohamed and Mnih, 2018): the accepted z has the density h(z; a) and the distribution H(z; a), and
``dz/da = -(dH/da) / h``, where ``log h = (a - 1/2) log d + 3 d log w - d w ** 3 - lgamma(a)`` of
``w = 1 + c z``. The integral for ``dH/da`` is Gauss's sum: h is smooth, and nearly normal.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.accidents import of_default
from dlvm.dsl.trace.operands import known_dtype, shape_of
from dlvm.dsl.words.namespace import xp

from .distributions import any_open, drawn, has_type, parameters

NODES = 40
"""Places at which the integral for a derivative is evaluated."""
REACH = 9.0
"""How far from z, in standard deviations, the density counts for the integral."""


@exported("random.gamma")
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the density ``x ** (a - 1) * exp(-x) / gamma(a)``; NaN unless ``a > 0``.

    The derivative with respect to ``a`` is implicit, and exact but for rounding.

    >>> dlvm.random.gamma(dlvm.random.key(0), 2.0, (3,)).shape
    (3,)
    """
    return of_default("gamma", _known(dtype, a), xp.exp(_logarithms("gamma", key, a, shape, dtype)))


@exported("random.loggamma")
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Logarithms of gamma numbers, which are finite where those are too small for a float.

    >>> bool(np.isfinite(dlvm.random.loggamma(dlvm.random.key(0), 1e-5, (9,))).all())
    True
    """
    found = _logarithms("loggamma", key, a, shape, dtype)
    return of_default("loggamma", _known(dtype, a), found)


@exported("random.beta")
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Numbers of the density ``x ** (a - 1) * (1 - x) ** (b - 1) / beta(a, b)``, from 0 to 1.

    >>> dlvm.random.beta(dlvm.random.key(0), 2.0, 3.0, (3,)).shape
    (3,)
    """
    shape, (first, second) = parameters("beta", dtype, shape, a, b)
    keys = drawn("split")(key)
    ours, theirs = (
        _logarithms("beta", keys[i], x, shape, x.dtype) for i, x in enumerate((first, second))
    )
    return of_default("beta", _known(dtype, a, b), xp.sigmoid(ours - theirs))


@exported("random.dirichlet")
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Probabilities of N classes, along a new last axis, of the concentrations (..., N).

    ``shape`` is that of the batch, and has no axis for N.

    >>> float(dlvm.random.dirichlet(dlvm.random.key(0), np.ones(3)).sum().round(6))
    1.0
    """
    _, (alpha_,) = parameters("dirichlet", dtype, (), alpha)
    *batch, count = shape_of(alpha_)
    size = (*(batch if shape is None else shape), count)
    logs = _logarithms("dirichlet", key, alpha_, size, alpha_.dtype)
    shares = xp.exp(logs - xp.stop_gradient(xp.max(logs, axis=-1, keepdims=True)))
    found = shares / xp.sum(shares, axis=-1, keepdims=True)
    return of_default("dirichlet", _known(dtype, alpha), found)


@exported("random.t")
def t(key: Any, df: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers of Student's t-distribution with ``df`` degrees of freedom.

    >>> dlvm.random.t(dlvm.random.key(0), 5.0, (3,)).shape
    (3,)
    """
    shape, (degrees,) = parameters("t", dtype, shape, df)
    keys = drawn("split")(key)
    normal = drawn("normal")(keys[0], shape, degrees.dtype)
    logs = _logarithms("t", keys[1], degrees / 2, shape, degrees.dtype)
    return of_default("t", _known(dtype, df), normal * xp.sqrt(degrees / 2) * xp.exp(-logs / 2))


def _known(dtype: Any, *given: Any) -> Any:
    """What says the element type; None where that is the default."""
    return next((x.dtype for x in given if has_type(x)), None) if dtype is None else dtype


# -- the numbers -----------------------------------------------------------------------------------


def _logarithms(name: str, key: Any, a: Any, shape: Any, dtype: Any) -> Any:
    """Logarithms of gamma numbers; of 16 bits they are computed in f32."""
    shape, (a,) = parameters(name, dtype, shape, a)
    kind = known_dtype(a.dtype)
    a = xp.broadcast_to(xp.astype(a, kind.compute), shape)
    keys = drawn("split")(key)
    raised = xp.where(a < 1, a + 1, a)
    z = _following()(raised, _accepted(keys[0], xp.stop_gradient(raised)))
    d = raised - 1 / 3
    evenly = drawn("uniform")(keys[1], shape, a.dtype)
    less = xp.where(a < 1, xp.log1p(-evenly) / xp.where(a < 1, a, 1), 0)
    found = xp.log(d) + 3 * xp.log1p(z / xp.sqrt(9 * d)) + less
    return xp.astype(xp.where(a > 0, found, np.nan), kind)


def _accepted(key: Any, a: Any) -> Any:
    """For each element the first normal number that is accepted; zero where a is no number >= 1."""
    from dlvm.dsl.flow.loops import while_loop  # not loaded by those who draw nothing of it

    d = a - 1 / 3

    def again(state: Any) -> Any:
        turn, z, open_ = state
        keys = drawn("split")(drawn("fold_in")(key, turn))
        tried = drawn("normal")(keys[0], shape_of(a), a.dtype)
        level = xp.log1p(-drawn("uniform")(keys[1], shape_of(a), a.dtype))
        w = 1 + tried / xp.sqrt(9 * d)
        logs = xp.log(xp.where(w > 0, w, 1))
        good = (w > 0) & (level < tried * tried / 2 + d * (1 - w * w * w + 3 * logs))
        return turn + 1, xp.where(open_ & good, tried, z), open_ & ~good

    start = (xp.zeros((), "i64"), xp.zeros_like(a), a >= 1)
    return while_loop(any_open, again, start)[1]


@functools.cache
def _following() -> Any:
    """The function of a and z that is z, and whose derivative with respect to a is ``dz/da``."""
    from dlvm.dsl.derive.custom import custom_jvp  # not loaded by those who draw nothing of it

    def following(a: Any, z: Any) -> Any:
        return z + 0 * a

    follow: Any = custom_jvp(following, surrogate=True)

    @follow.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        a, z = primals[0], follow(*primals)
        return z, tangents[1] + _slope(a, z) * tangents[0]

    return follow


@functools.cache
def _quadrature() -> tuple[list[float], list[float]]:
    """Gauss's nodes and weights, as numbers: a rule that calls itself may capture no new array."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    return nodes.tolist(), weights.tolist()


def _slope(a: Any, z: Any) -> Any:
    """``dz/da``: minus the integral of dh/da up to z, from the nearer end, over h(z)."""
    nodes, weights = (xp.stack([xp.astype(v, a.dtype) for v in x]) for x in _quadrature())
    a, z = a[..., None], z[..., None]
    d = a - 1 / 3
    c = 1 / xp.sqrt(9 * d)
    end = xp.where(z > 0, z + REACH, xp.maximum(z - REACH, -1 / c))
    half = (z - end) / 2
    at, w = 1 + c * (end + half * (1 + nodes)), 1 + c * z
    density = xp.exp(d * (3 * (xp.log(at) - xp.log(w)) - at * at * at + w * w * w))
    change = (
        (xp.log(d) + (a - 0.5) / d - xp.digamma(a))
        + (3 * xp.log(at) - at * at * at)
        + 1.5 * (at - 1) * (at * at - 1 / at)
    )
    return -xp.sum(half * weights * density * change, axis=-1)
