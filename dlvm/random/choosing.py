"""``choice``: elements of an array, or numbers below a whole number, drawn at random."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.elements.reductions import axes_of
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape, staged
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Expr

from .distributions import drawn


@exported("random.choice")
def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0
) -> Any:
    """Slices of an array along an axis, or numbers below a whole number, drawn at random.

    ``p`` is the probability of each, of which the sum may be any number; all are equally probable
    without it. With ``replace=False`` none is drawn twice.

    >>> sorted(dlvm.random.choice(dlvm.random.key(0), 3, (3,), replace=False).tolist())
    [0, 1, 2]
    """
    given = plain(a)
    whole = isinstance(given, int | Expr) and not isinstance(given, bool)
    if not whole and (isinstance(given, bool | float) or not shape_of(given)):
        raise UserError(
            f"choice: expected a whole number or an array with axes, found {a!r:.40}",
            origin=user_origin(),
            remedy="give an array of what is to be drawn",
        )
    along = 0 if whole else axes_of(staged(a), axis)[0]
    size = given if whole else shape_of(given)[along]
    places = _with(key, size, shape, p) if replace else _without(key, size, shape, p)
    return places if whole else xp.take(a, places, axis=along)


def _with(key: Any, size: Any, shape: Any, p: Any) -> Any:
    """Places that may be drawn more than once."""
    if p is None:
        return drawn("randint")(key, shape, 0, size)
    sums = xp.cumsum(_probabilities(p, size))
    at = sums[-1] * (1 - drawn("uniform")(key, shape, sums.dtype))
    return xp.searchsorted(sums, at)


def _without(key: Any, size: Any, shape: Any, p: Any) -> Any:
    """Places of which none is drawn twice; with probabilities by Gumbel's trick."""
    count = 1
    for length in shape:
        count = count * length
    if isinstance(count, int) and isinstance(size, int) and count > size:
        raise ShapeError(
            f"choice: replace=False: {count} of {size} elements can't be drawn",
            origin=user_origin(),
            remedy=f"give a shape of at most {size} elements, or draw with replacement",
        )
    if p is None:
        return xp.reshape(drawn("permutation")(key, size)[:count], shape)
    chances = _probabilities(p, size)
    score = drawn("gumbel")(key, (size,), chances.dtype) + xp.log(chances)
    return xp.reshape(xp.argsort(-score)[:count], shape)


def _probabilities(p: Any, size: Any) -> Any:
    found = xp.asarray(p)
    found = found if found.dtype.kind == "f" else xp.astype(found, "f64")
    if shape_of(found) != (size,):
        raise ShapeError(
            f"choice: expected one probability for each of {size} elements, found the shape "
            f"{shown_shape(shape_of(found))}",
            origin=user_origin(),
            remedy="give as many probabilities as there are elements along the axis",
        )
    return found
