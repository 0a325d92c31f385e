"""A rate that is lowered when a loss has stopped falling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError, CallError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import (
    cast,
    count,
    element_type,
    increased,
    moved,
    number,
    same,
    scalar,
    widest,
)


class PlateauState(NamedTuple):
    """The factor of updates, the best value, counts, and the mean of values since the last test."""

    scale: Any
    best_value: Any
    plateau_count: Any
    cooldown_count: Any
    count: Any
    avg_value: Any


@dataclass(frozen=True)
class ReduceOnPlateau:
    """Multiplies updates by a factor, which shrinks after ``patience`` values without progress."""

    factor: Any
    patience: Any
    rtol: Any
    atol: Any
    cooldown: Any
    accumulation_size: Any
    min_scale: Any

    @computing
    def init(self, params: Any) -> Any:
        """A factor of 1, and an infinite best value, in the widest type of the parameters."""
        kind = widest(flatten(params)[0])
        best = xp.full((), float("inf"), dtype=kind)
        return PlateauState(xp.ones((), kind), best, count(), count(), count(), xp.zeros((), kind))

    @computing
    def update(
        self, updates: Any, state: Any, params: Any = None, *, value: Any = None, **extra: Any
    ) -> tuple[Any, Any]:
        """Updates times the factor, after ``value``, such as the loss, has been looked at."""
        if value is None:
            raise CallError(
                "update: reduce_on_plateau needs the value of the loss",
                origin=user_origin(),
                remedy="call update(grads, state, params, value=loss)",
            )
        after = self._after(state, cast(number(value), element_type(state.avg_value)))

        def scaled(x: Any) -> Any:
            return x * scalar(after.scale, x)

        return moved(scaled, updates), after

    def _after(self, state: PlateauState, value: Any) -> PlateauState:
        """The state after one more value, by selections: each of them is one number."""
        taken = increased(state.count)
        mean = state.avg_value + (value - state.avg_value) / cast(taken, element_type(value))
        looks = taken == number(self.accumulation_size)
        better = mean < (1 - number(self.rtol)) * state.best_value - number(self.atol)
        waited = xp.where(better, 0, state.plateau_count + 1)
        cooling = state.cooldown_count > 0
        cuts = looks & ~cooling & (waited == number(self.patience))
        lower = xp.maximum(state.scale * scalar(self.factor, value), scalar(self.min_scale, value))
        rests = xp.where(
            cooling, state.cooldown_count - 1, xp.where(cuts, number(self.cooldown), 0)
        )
        found = PlateauState(
            xp.where(cuts, lower, state.scale),
            xp.where(looks & better, mean, state.best_value),
            xp.where(looks, xp.where(cooling | cuts, 0, waited), state.plateau_count),
            xp.where(looks, rests, state.cooldown_count),
            xp.where(looks, 0, taken),
            xp.where(looks, 0, mean),
        )
        kept = (cast(same(x), element_type(y)) for x, y in zip(found, state, strict=True))
        return PlateauState(*kept)


@facing_users
def reduce_on_plateau(
    factor: Any = 0.1,
    patience: Any = 10,
    rtol: Any = 1e-4,
    atol: Any = 0.0,
    cooldown: Any = 0,
    accumulation_size: Any = 1,
    min_scale: Any = 0.0,
) -> ReduceOnPlateau:
    """Multiplies updates by a scale, which shrinks by ``factor`` when a loss stops falling.

    It stands last in a ``chain``, and ``update`` takes the loss: ``update(grads, state, params,
    value=loss)``. A loss is better if it is below ``(1 - rtol) * best - atol``. After ``patience``
    losses that are not better, the scale is multiplied by ``factor``, but never below
    ``min_scale``, and the next ``cooldown`` losses are not compared. With ``accumulation_size`` the
    mean of that number of losses is compared as one.
    """
    _check(
        isinstance(factor, int | float) and not 0 < factor < 1, "a factor between 0 and 1", factor
    )
    _check(isinstance(rtol, int | float) and not 0 <= rtol <= 1, "an rtol from 0 to 1", rtol)
    _check(isinstance(atol, int | float) and atol < 0, "an atol of 0 or more", atol)
    return ReduceOnPlateau(factor, patience, rtol, atol, cooldown, accumulation_size, min_scale)


def _check(wrong: bool, expected: str, found: Any) -> None:
    if wrong:
        raise ArgumentError(
            f"reduce_on_plateau: expected {expected}, found {found}",
            origin=user_origin(),
            remedy="leave it out: every option has a default",
        )
