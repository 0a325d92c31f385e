"""Poisson numbers: by inversion for small rates, by Hörmann's rejection (1993) for others."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import DTypeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.flow.loops import while_loop
from dlvm.dsl.trace.operands import known_dtype, shape_of
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .distributions import any_open, drawn, parameters

SMALL = 10.0
"""The rate from which the rejection is valid."""
MOST = 100
"""Counts at which the inversion ends; a rate below ``SMALL`` reaches 60 once in 10 ** 25 draws."""


@exported("random.poisson")
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = "i64") -> Any:
    """How often something happens that happens ``lam`` times on average; -1 unless ``lam >= 0``.

    Counts have no derivative with respect to ``lam``.

    >>> dlvm.random.poisson(dlvm.random.key(0), 4.0, (3,)).dtype.name
    'int64'
    """
    target = known_dtype(dtype)
    if not target.is_integer:
        raise DTypeError(
            f"poisson: elements are integers, found {target}",
            origin=user_origin(),
            remedy="give a type of integers, and convert the result",
        )
    shape, (rate,) = parameters("poisson", None, shape, lam)
    wide = xp.astype(xp.stop_gradient(rate), known_dtype(rate.dtype).compute)
    rate = xp.broadcast_to(wide, shape)
    keys = drawn("split")(key)
    few = _inverted(keys[0], xp.where((rate >= 0) & (rate < SMALL), rate, 0))
    many = _rejected(keys[1], xp.where(rate >= SMALL, rate, SMALL), rate >= SMALL)
    found = xp.where(rate < SMALL, few, many)
    return xp.astype(xp.where(rate >= 0, found, -1), target)


def _inverted(key: Any, rate: Any) -> Any:
    """The least count up to which the probabilities exceed a uniform number."""
    level = drawn("uniform")(key, shape_of(rate), rate.dtype)
    first = xp.exp(-rate)

    def goes_on(state: Any) -> Any:
        count, _, total, _ = state
        return (count < MOST) & xp.any(level >= total)

    def step(state: Any) -> Any:
        count, term, total, found = state
        count, term = count + 1, term * rate / (count + 1)
        return count, term, total + term, xp.where(level >= total, count, found)

    start = (xp.zeros((), rate.dtype), first, first, xp.zeros_like(rate))
    return while_loop(goes_on, step, start)[3]


def _rejected(key: Any, rate: Any, wanted: Any) -> Any:
    """Hörmann's transformed rejection with squeeze, of a rate from 10 on."""
    b = 0.931 + 2.53 * xp.sqrt(rate)
    a = 0.02483 * b - 0.059
    scale, enough = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)

    def step(state: Any) -> Any:
        turn, found, open_ = state
        keys = drawn("split")(drawn("fold_in")(key, turn))
        u, level = (drawn("uniform")(keys[i], shape_of(rate), rate.dtype) for i in (0, 1))
        u = u - 0.5
        near = 0.5 - xp.abs(u)
        count = xp.floor((2 * a / near + b) * u + rate + 0.43)
        quick = (near >= 0.07) & (level <= enough)
        never = (count < 0) | ((near < 0.013) & (level > near))
        bound = xp.log(level * scale / (a / (near * near) + b))
        exact = bound <= count * xp.log(rate) - rate - xp.lgamma(xp.maximum(count, 0) + 1)
        good = quick | (~never & exact)
        return turn + 1, xp.where(open_ & good, count, found), open_ & ~good

    start = (xp.zeros((), "i64"), xp.zeros_like(rate), wanted)
    return while_loop(any_open, step, start)[1]
