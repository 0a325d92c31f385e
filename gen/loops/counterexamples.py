"""Values of variables for which facts hold: a claim that is false for them has no proof.

A search for a proof takes longest where there is none, and most claims without a proof are false
for ordinary values. Which values are tried is drawn from one seed, so that it is always the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import TypeAlias

from dlvm.base.errors import DlvmError
from dlvm.ir import Dim, Expr
from dlvm.ir.sizes.dims import evaluate, symbol, symbols

from .index import step_of

Known: TypeAlias = tuple[tuple[tuple[str, Dim], ...], tuple[Dim, ...]]
"""Variables with their highest value, innermost last, and sizes >= 0."""
Point: TypeAlias = Mapping[str, int]

SIZES = (1, 2, 3, 7, 50, 100, 300)
TRIES, ENOUGH = 32, 8


def is_false(d: Dim, known: Known) -> bool:
    """Whether there are values for which the facts hold and ``d >= 0`` does not."""
    free = dict.fromkeys(symbols(d), SIZES[2])  # no fact says anything of these
    return any(_holds(-1 - d, {**free, **point}) for point in points(known))


def _holds(f: Dim, point: Point) -> bool:
    found = _value(f, point)
    return found is not None and found >= 0


def _value(d: Dim, point: Point) -> int | None:
    """The number that a size is, if nothing in it is divided by zero."""
    try:
        return evaluate(d, point)
    except (DlvmError, ZeroDivisionError):
        return None


@lru_cache(1024)
def points(known: Known) -> Sequence[Point]:
    """Some values for which the facts hold; none if none were found."""
    rng, found = Random(0), list[Point]()
    for _ in range(TRIES):
        if (point := _drawn(known, rng)) is not None and point not in found:
            found.append(point)
        if len(found) == ENOUGH:
            break
    return found


def _drawn(known: Known, rng: Random) -> Point | None:
    """Values of all sizes and variables, if the facts hold for them."""
    variables, holds = known
    names = {name for name, _ in variables}
    dims = (*(high for _, high in variables), *holds)
    sizes = sorted({s for d in dims for s in symbols(d)} - names)
    point = {name: rng.choice(SIZES) for name in sizes}
    for name, high in variables:
        low, top = _ends(name, high, holds, point)
        if low > top:
            return None
        point[name] = rng.choice((low, top, rng.randint(low, top)))
    bounds = (high - symbol(name) for name, high in variables)
    return point if all(_holds(f, point) for f in (*bounds, *holds)) else None


def _ends(name: str, high: Dim, holds: Sequence[Dim], point: Point) -> tuple[int, int]:
    """Between which values a variable lies, as far as those before it say."""
    lows, tops = [0], [_value(high, point)]
    for f in holds:
        if isinstance(f, Expr) and name in symbols(f) and abs(side := _side(f, name)) == 1:
            bound = _value(symbol(name) - f if side == 1 else f + symbol(name), point)
            if bound is not None:
                (lows if side == 1 else tops).append(bound)
    return max(lows), min((top for top in tops if top is not None), default=0)


def _side(f: Expr, name: str) -> int:
    """1 for a bound from below, -1 for one from above, 0 for neither."""
    step = step_of(f, name)
    return step if isinstance(step, int) else 0
