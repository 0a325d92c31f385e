"""Learning rates: a number, an array, or a schedule, which is a function of the step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.optim.combining import Chain, Transformation
from dlvm.optim.leaves import count, increased, moved, number, scalar


class RateState(NamedTuple):
    """The number of steps that were taken."""

    count: Any


@dataclass(frozen=True)
class Scale:
    """Multiplies updates by a factor, which may be a schedule."""

    factor: Any
    sign: float = 1.0

    @computing
    def init(self, params: Any) -> Any:
        """No steps taken."""
        return RateState(count())

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The first step, like ``init``, has number 0."""
        factor = at_step(self.factor, state.count)

        def scaled(x: Any) -> Any:
            return x * (self.sign * scalar(factor, x))

        return moved(scaled, updates), RateState(increased(state.count))


def at_step(rate: Any, step: Any) -> Any:
    """A rate at a step; it is one number."""
    found = number(rate(step) if callable(rate) else rate)
    shape = shape_of(plain(found))
    if shape:
        raise ShapeError(
            f"a learning rate is one number, found the shape {shown_shape(shape)}",
            origin=user_origin(),
            remedy="give a number, an array without axes, or a function of the step that returns "
            "one",
        )
    return found


def check_rate(what: str, rate: Any) -> None:
    """Refuses what can't be a learning rate."""
    if isinstance(rate, bool | str | list | tuple | dict | set) or rate is None:
        raise ArgumentError(
            f"{what}: the learning rate is a number, an array without axes or a function of the "
            f"step, found {rate!r}",
            origin=user_origin(),
            remedy="pass a small number above 0, or a schedule",
        )
    if not callable(rate):
        at_step(rate, 0)


def downhill(learning_rate: Any, *parts: Transformation) -> Chain:
    """Parts one after another, and then a step downhill by the learning rate."""
    return Chain((*parts, scale_by_learning_rate(learning_rate)))


@facing_users
def scale(step_size: Any) -> Scale:
    """Multiplies updates by a number."""
    check_rate("scale", step_size)
    return Scale(step_size)


@facing_users
def scale_by_schedule(step_size_fn: Any) -> Scale:
    """Multiplies updates by what a function of the step returns."""
    check_rate("scale_by_schedule", step_size_fn)
    return Scale(step_size_fn)


@facing_users
def scale_by_learning_rate(learning_rate: Any) -> Scale:
    """Multiplies updates by ``-learning_rate``, so that a step goes downhill."""
    check_rate("scale_by_learning_rate", learning_rate)
    return Scale(learning_rate, -1.0)
