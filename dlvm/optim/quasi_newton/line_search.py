"""A line search for the weak Wolfe conditions, by bracketing (Lewis and Overton, 2013).

On the way from x along d, with ``f(t)`` the value at ``x + t d`` and ``f'(t)`` its slope, a step t
has to satisfy

    f(t) <= f(0) + c1 t f'(0)        the value falls enough
    f'(t) >= c2 f'(0)                the slope has risen enough, so that curvature is positive

A step that is too long by the first is the new upper end of an interval, one that is too short by
the second the new lower end. The first interval is open: steps double. Beside a minimum, where
differences of values are rounding errors, slopes decide (Hager and Zhang, 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dlvm.dsl.flow.loops import while_loop
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import scalar

from .flat import dot

DECREASE, CURVATURE, FLAT = 1e-4, 0.9, 1e-6
"""c1, c2, and the relative change of a value below which slopes decide."""
INSIDE = 0.1
"""Share of an interval that a trial step keeps away from its ends."""
Evaluate = Callable[[Any], tuple[Any, Any]]
"""From a vector to the value there and the gradient."""


class Point(NamedTuple):
    """A step, and value, slope and gradient at its end."""

    t: Any
    value: Any
    slope: Any
    grad: Any


class Search(NamedTuple):
    """The best step so far, the upper end of the interval, and the next trial."""

    low: Point
    high: Any
    high_value: Any
    trial: Any
    done: Any
    tried: Any


def search(evaluate: Evaluate, x: Any, d: Any, start: Point, first: Any, trials: Any) -> Point:
    """A step along ``d`` that satisfies both conditions, or the longest that satisfies one.

    ``t`` is 0 where no step of ``trials`` was short enough.
    """

    def at(t: Any) -> Point:
        value, grad = evaluate(x + t * d)
        return Point(t, value, dot(grad, d), grad)

    def goes_on(s: Search) -> Any:
        return (s.tried < trials) & ~s.done

    def step(s: Search) -> Search:
        new = at(s.trial)
        falls = _falls(start, new)
        short = falls & (new.slope < scalar(CURVATURE, new.slope) * start.slope)
        low = Point(*(xp.where(falls, a, b) for a, b in zip(new, s.low, strict=True)))
        high = xp.where(falls, s.high, new.t)
        high_value = xp.where(falls, s.high_value, new.value)
        trial = _next(low, high, high_value)
        return Search(low, high, high_value, trial, falls & ~short, s.tried + 1)

    far = xp.full_like(start.t, float("inf"))
    begin = Search(start, far, far, first, xp.asarray(False), xp.zeros((), "i64"))
    return while_loop(goes_on, step, begin).low


def _falls(start: Point, new: Point) -> Any:
    """Whether a step is short enough; one to a value that is no number is not."""
    enough = new.value <= start.value + DECREASE * new.t * start.slope
    level = new.value <= start.value + FLAT * xp.abs(start.value)
    flat = level & (new.slope <= (2 * DECREASE - 1) * start.slope)
    return xp.isfinite(new.value) & (enough | flat)


def _next(low: Point, high: Any, high_value: Any) -> Any:
    """The minimum of a parabola through what is known, within the interval, or its middle."""
    width = high - low.t
    bend = high_value - low.value - low.slope * width
    share = xp.clip(-low.slope * width / (2 * bend), INSIDE, 1 - INSIDE)
    share = xp.where(xp.isfinite(share) & xp.isfinite(high_value) & (bend > 0), share, 0.5)
    return xp.where(xp.isfinite(high), low.t + share * width, 2 * low.t)
