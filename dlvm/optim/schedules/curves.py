"""Schedules: functions of the step, an integer from 0 on, that give a learning rate.

Each works on Python numbers, arrays and staged values. Names and arguments are those of optax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

Schedule = Callable[[Any], Any]


def check_steps(what: str, name: str, steps: Any) -> None:
    """Refuses a number of steps that is not above 0."""
    if isinstance(steps, int | float) and steps <= 0:
        raise ArgumentError(
            f"{what}: {name} is a number of steps above 0, found {steps}",
            origin=user_origin(),
            remedy=f"pass {name}=1 or more",
        )


@facing_users
def constant_schedule(value: Any) -> Schedule:
    """The same value at every step."""
    return lambda count: value


@facing_users
def polynomial_schedule(
    init_value: Any, end_value: Any, power: Any, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From one value to another with the ``power`` of the share of steps that is left."""
    check_steps("polynomial_schedule", "transition_steps", transition_steps)

    def schedule(count: Any) -> Any:
        share = xp.clip((count - transition_begin) / transition_steps, 0.0, 1.0)
        return (init_value - end_value) * (1 - share) ** power + end_value

    return schedule


@facing_users
def linear_schedule(
    init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From one value to another on a line."""
    check_steps("linear_schedule", "transition_steps", transition_steps)
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


@facing_users
def exponential_decay(
    init_value: Any,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """``init_value * decay_rate ** (count / transition_steps)``.

    In whole powers only with ``staircase``; never beyond ``end_value``.
    """
    check_steps("exponential_decay", "transition_steps", transition_steps)

    def schedule(count: Any) -> Any:
        share = xp.maximum(count - transition_begin, 0) / transition_steps
        value = init_value * decay_rate ** (xp.floor(share) if staircase else share)
        if end_value is None:
            return value
        lowest, highest = xp.maximum(value, end_value), xp.minimum(value, end_value)
        return xp.where(decay_rate < 1, lowest, highest)

    return schedule


@facing_users
def cosine_decay_schedule(
    init_value: Any, decay_steps: int, alpha: Any = 0.0, exponent: Any = 1.0
) -> Schedule:
    """Half a wave of a cosine from ``init_value`` to ``alpha * init_value``."""
    check_steps("cosine_decay_schedule", "decay_steps", decay_steps)

    def schedule(count: Any) -> Any:
        share = xp.minimum(count, decay_steps) / decay_steps
        wave = 0.5 * (1 + xp.cos(math.pi * share))
        return init_value * ((1 - alpha) * wave**exponent + alpha)

    return schedule


@facing_users
def warmup_cosine_decay_schedule(
    init_value: Any,
    peak_value: Any,
    warmup_steps: int,
    decay_steps: int,
    end_value: Any = 0.0,
    exponent: Any = 1.0,
) -> Schedule:
    """Goes on a line to ``peak_value``, then on a cosine to ``end_value`` at ``decay_steps``."""
    check_steps(
        "warmup_cosine_decay_schedule", "decay_steps - warmup_steps", decay_steps - warmup_steps
    )
    alpha = (
        0.0 if isinstance(peak_value, int | float) and not peak_value else end_value / peak_value
    )
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    if not warmup_steps:
        return fall
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    return join_schedules([rise, fall], [warmup_steps])


@facing_users
def piecewise_constant_schedule(
    init_value: Any, boundaries_and_scales: Mapping[int, Any] | None = None
) -> Schedule:
    """``init_value``, times the scale of each boundary that the step has reached."""
    scales = sorted((boundaries_and_scales or {}).items())

    def schedule(count: Any) -> Any:
        value = init_value
        for boundary, scale in scales:
            value = value * xp.where(count < boundary, 1.0, scale)
        return value

    return schedule


@facing_users
def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after another; each counts steps from the boundary where it begins."""
    if len(schedules) != len(boundaries) + 1:
        raise ArgumentError(
            f"join_schedules: {len(schedules)} schedules have {len(schedules) - 1} boundaries "
            f"between them, found {len(boundaries)}",
            origin=user_origin(),
            remedy="give one boundary fewer than schedules",
        )

    def joined(count: Any) -> Any:
        value = schedules[0](count)
        for begin, schedule in zip(boundaries, schedules[1:], strict=True):
            value = xp.where(count < begin, value, schedule(count - begin))
        return value

    return joined
