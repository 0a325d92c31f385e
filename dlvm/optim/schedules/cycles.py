"""Schedules that rise and fall: one cycle, warm restarts, and warm-ups before another schedule.

Names and arguments are those of optax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp

from .curves import (
    Schedule,
    check_steps,
    exponential_decay,
    join_schedules,
    linear_schedule,
    warmup_cosine_decay_schedule,
)


def _on_a_line(start: Any, end: Any, share: Any) -> Any:
    return start + (end - start) * share


def _on_a_cosine(start: Any, end: Any, share: Any) -> Any:
    return end + (start - end) / 2.0 * (xp.cos(math.pi * share) + 1)


PATHS: dict[str, Callable[..., Any]] = {"linear": _on_a_line, "cosine": _on_a_cosine}
"""How a value goes from one boundary to the next."""


@facing_users
def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: Any,
    boundaries_and_scales: Mapping[int, Any] | None = None,
) -> Schedule:
    """Goes from ``init_value`` to its product with the scale of each boundary in turn.

    ``interpolate_type`` is ``"linear"`` or ``"cosine"``. After the last boundary the value stays.
    """
    if interpolate_type not in PATHS:
        raise ArgumentError(
            f"piecewise_interpolate_schedule: expected 'linear' or 'cosine', found "
            f"{interpolate_type!r}",
            origin=user_origin(),
            remedy="pass interpolate_type='linear'",
        )
    path, scales = PATHS[interpolate_type], sorted((boundaries_and_scales or {}).items())

    def schedule(count: Any) -> Any:
        value = start = init_value
        begin = 0
        for boundary, scale in scales:
            end = start * scale
            share = xp.clip((count - begin) / max(boundary - begin, 1), 0.0, 1.0)
            value = xp.where(count < begin, value, path(start, end, share))
            start, begin = end, boundary
        return xp.where(count < begin, value, start)

    return schedule


@facing_users
def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: Any,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """One cycle of two half waves: up to ``peak_value``, and far down (Smith and Topin, 2018).

    It begins at ``peak_value / div_factor``, and is ``final_div_factor`` times below that at the
    end.
    """
    check_steps("cosine_onecycle_schedule", "transition_steps", transition_steps)
    scales = {
        int(pct_start * transition_steps): div_factor,
        int(transition_steps): 1.0 / (div_factor * final_div_factor),
    }
    return piecewise_interpolate_schedule("cosine", peak_value / div_factor, scales)


@facing_users
def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: Any,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Schedule:
    """One cycle of three lines: up to ``peak_value``, down as far, and far below at the end."""
    check_steps("linear_onecycle_schedule", "transition_steps", transition_steps)
    scales = {
        int(pct_start * transition_steps): div_factor,
        int(pct_final * transition_steps): 1.0 / div_factor,
        int(transition_steps): 1.0 / final_div_factor,
    }
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, scales)


@facing_users
def sgdr_schedule(cosine_kwargs: Iterable[Mapping[str, Any]]) -> Schedule:
    """Joins cosines, each a warm restart (Loshchilov and Hutter, 2017).

    Each mapping has the arguments of one ``warmup_cosine_decay_schedule``.
    """
    cycles = [dict(arguments) for arguments in cosine_kwargs]
    if not cycles:
        raise ArgumentError(
            "sgdr_schedule: expected the arguments of one cycle or more, found none",
            origin=user_origin(),
            remedy="pass a list of dictionaries with the arguments of warmup_cosine_decay_schedule",
        )
    ends, step = list[int](), 0
    for cycle in cycles:
        step += cycle["decay_steps"]
        ends.append(step)
    return join_schedules([warmup_cosine_decay_schedule(**cycle) for cycle in cycles], ends[:-1])


@facing_users
def warmup_constant_schedule(init_value: Any, peak_value: Any, warmup_steps: int) -> Schedule:
    """Goes on a line to ``peak_value`` and stays there."""
    return linear_schedule(init_value, peak_value, warmup_steps)


@facing_users
def warmup_exponential_decay_schedule(
    init_value: Any,
    peak_value: Any,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """Goes on a line to ``peak_value``, then by ``exponential_decay`` from there."""
    fall = exponential_decay(
        peak_value, transition_steps, decay_rate, transition_begin, staircase, end_value
    )
    if not warmup_steps:
        return fall
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    return join_schedules([rise, fall], [warmup_steps])
