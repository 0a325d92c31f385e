"""Optimisers around an optimiser: several gradients for one step, and steps that are left out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from dlvm.base.errors import ArgumentError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.flow.control import cond
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten
from dlvm.dsl.words.namespace import xp
from dlvm.optim.combining import Transformation, check_transformation
from dlvm.optim.leaves import (
    cast,
    chosen,
    count,
    each,
    element_type,
    filled,
    increased,
    number,
    same,
    scalar,
    wide,
    zeros,
)


class AccumulateState(NamedTuple):
    """Gradients taken since the last step, steps, and the mean of these gradients."""

    mini_step: Any
    gradient_step: Any
    inner: Any
    mean: Any


class FiniteState(NamedTuple):
    """Steps left out in a row, whether the last was finite, and steps left out at all."""

    notfinite_count: Any
    last_finite: Any
    total_notfinite: Any
    inner: Any


class ScaleState(NamedTuple):
    """The factor of the loss, steps since it changed, and steps left out at all."""

    scale: Any
    good_steps: Any
    total_notfinite: Any
    inner: Any


@dataclass(frozen=True)
class Accumulate:
    """A step of the inner optimiser for every k gradients, by their mean."""

    inner: Transformation
    k: Any

    @computing
    def init(self, params: Any) -> Any:
        """No gradients taken."""
        return AccumulateState(count(), count(), self.inner.init(params), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Zeros, but at each k-th call."""
        taken = increased(state.mini_step)

        def leaf(g: Any, m: Any) -> tuple[Any, Any]:
            x = wide(g)
            m = m + (x - m) / scalar(taken, x)
            return cast(m, element_type(g)), m

        means, kept = each("update", leaf, 2, gradients=updates, state=state.mean)

        def step() -> Any:
            moved, inner = self.inner.update(means, state.inner, params, **extra)
            return moved, AccumulateState(
                count(), increased(state.gradient_step), inner, zeros(kept)
            )

        def wait() -> Any:
            return zeros(updates), AccumulateState(taken, state.gradient_step, state.inner, kept)

        return cond(taken >= number(self.k), step, wait)


@dataclass(frozen=True)
class ApplyIfFinite:
    """Leaves out a step whose gradient is not finite, unless too many were left out in a row."""

    inner: Transformation
    max_consecutive_errors: Any

    @computing
    def init(self, params: Any) -> Any:
        """Nothing left out."""
        return FiniteState(count(), xp.ones((), "bool"), count(), self.inner.init(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Zeros, and the inner state as it was, where a step is left out."""
        finite = all_finite(updates)
        missed = _where(finite, 0, state.notfinite_count + 1)
        takes = finite | (missed > number(self.max_consecutive_errors))
        moved, inner = taken_if(takes, self.inner, updates, state.inner, params, extra)
        total = increased(state.total_notfinite, _where(finite, 0, 1))
        return moved, FiniteState(missed, same(finite), total, inner)


@dataclass(frozen=True)
class LossScale:
    """Gradients of a loss times ``scale``, which grows until they overflow, and then shrinks."""

    inner: Transformation
    initial: Any
    interval: Any
    factor: Any

    @computing
    def init(self, params: Any) -> Any:
        """The initial scale, in f32."""
        scale = xp.full((), self.initial, dtype="f32")
        return ScaleState(scale, count(), count(), self.inner.init(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """A step by the gradients divided by the scale, or none where one is not finite."""

        def leaf(g: Any) -> tuple[Any]:
            return (wide(g) / scalar(state.scale, wide(g)),)

        (grads,) = each("update", leaf, gradients=updates)
        finite = all_finite(updates)
        moved, inner = taken_if(finite, self.inner, grads, state.inner, params, extra)
        good = _where(finite, state.good_steps + 1, 0)
        grows = good >= number(self.interval)
        larger = _where(grows, state.scale * scalar(self.factor, state.scale), state.scale)
        smaller = state.scale / scalar(self.factor, state.scale)
        scale = _where(finite, _where(xp.isfinite(larger), larger, state.scale), smaller)
        total = increased(state.total_notfinite, _where(finite, 0, 1))
        return moved, ScaleState(scale, _where(grows, 0, good), total, inner)


def _where(condition: Any, a: Any, b: Any) -> Any:
    return same(xp.where(condition, a, b))


def all_finite(tree: Any) -> Any:
    """Whether every element of every leaf is finite."""
    return reduce(
        xp.logical_and, (xp.all(xp.isfinite(x)) for x in flatten(tree)[0]), xp.asarray(True)
    )


def taken_if(
    takes: Any, inner: Transformation, grads: Any, state: Any, params: Any, extra: dict[str, Any]
) -> tuple[Any, Any]:
    """A step of the inner optimiser, or no updates and its state as it was.

    Gradients of a step that is left out are replaced by zeros first, so that no NaN is computed.
    """

    def kept(x: Any) -> tuple[Any]:
        return (_where(takes, x, 0),)

    (clean,) = each("update", kept, gradients=grads)
    moved, after = inner.update(clean, state, params, **extra)
    (moved,) = each("update", kept, gradients=moved)
    return moved, chosen(takes, after, state)


@facing_users
def accumulate(inner: Transformation, k: Any) -> Accumulate:
    """Takes a step of ``inner`` with the mean of every ``k`` gradients (MultiSteps in optax)."""
    check_transformation("accumulate", inner)
    if isinstance(k, int | float) and k < 1:
        raise ArgumentError(
            f"accumulate: k is a number of gradients from 1 on, found {k}",
            origin=user_origin(),
            remedy="take the mean of one gradient or more",
        )
    return Accumulate(inner, k)


@facing_users
def apply_if_finite(inner: Transformation, max_consecutive_errors: Any) -> ApplyIfFinite:
    """Applies ``inner``, and skips steps whose gradients are not finite.

    After more than ``max_consecutive_errors`` in a row a step is taken all the same, so that a run
    that has broken down shows it.
    """
    check_transformation("apply_if_finite", inner)
    return ApplyIfFinite(inner, max_consecutive_errors)


@facing_users
def loss_scale(
    inner: Transformation, initial: Any = 2.0**15, interval: Any = 2000, factor: Any = 2.0
) -> LossScale:
    """Applies ``inner`` to gradients of ``loss * state.scale``, which keeps f16 from underflow.

    ``update`` divides by the scale. A step whose gradients are not finite is skipped, and the scale
    is divided by ``factor``; after ``interval`` finite steps the scale is multiplied by ``factor``.
    """
    check_transformation("loss_scale", inner)
    return LossScale(inner, initial, interval, factor)
