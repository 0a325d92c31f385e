"""Parts that remember how large gradients have been: RMSProp, AdaGrad, and AdaDelta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import root, scalar

from .base import Moments, mean, weight


class RmsState(NamedTuple):
    """Steps taken, and the decaying mean of squares."""

    count: Any
    nu: Any


class StddevState(NamedTuple):
    """Steps taken, and decaying means of squares and of gradients."""

    count: Any
    nu: Any
    mu: Any


class RssState(NamedTuple):
    """The sum of squares of all gradients."""

    sum_of_squares: Any


class AdaDeltaState(NamedTuple):
    """Decaying means of the squares of gradients, and of updates."""

    e_g: Any
    e_x: Any


@dataclass(frozen=True)
class ScaleByRms(Moments):
    """``g / sqrt(v + eps)`` with the decaying mean v of squares."""

    decay: Any
    eps: Any
    initial_scale: Any
    eps_in_sqrt: bool
    bias_correction: bool
    state = RmsState

    def _first(self, name: str) -> Any:
        return self.initial_scale if name == "nu" else 0.0

    def _shared(self, steps: Any) -> Any:
        return weight(self.decay, steps) if self.bias_correction else None

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        v = mean(self.decay, moments[0], x * x)
        return x / self._size(self._unbiased(v, shared)), v

    def _unbiased(self, moment: Any, shared: Any) -> Any:
        return moment if shared is None else moment / scalar(shared, moment)

    def _size(self, square: Any) -> Any:
        eps = scalar(self.eps, square)
        return root(square + eps) if self.eps_in_sqrt else root(square) + eps


@dataclass(frozen=True)
class ScaleByStddev(ScaleByRms):
    """``g / sqrt(v - m ** 2 + eps)`` with decaying means v of squares and m of gradients."""

    state = StddevState

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        v, m = mean(self.decay, moments[0], x * x), mean(self.decay, moments[1], x)
        centre = self._unbiased(m, shared)
        variance = self._unbiased(v, shared) - centre * centre
        return x / self._size(xp.maximum(variance, 0)), v, m  # rounding may make it negative


@dataclass(frozen=True)
class ScaleByRss(Moments):
    """``g / sqrt(s + eps)`` with the sum s of all squares; 0 where that is 0."""

    initial: Any
    eps: Any
    state = RssState

    def _first(self, name: str) -> Any:
        return self.initial

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        s = moments[0] + x * x
        return xp.where(s == 0, 0, x / xp.sqrt(xp.where(s == 0, 1, s + scalar(self.eps, x)))), s


@dataclass(frozen=True)
class ScaleByAdaDelta(Moments):
    """``g * sqrt(e_x + eps) / sqrt(e_g + eps)``: in the units of the parameters."""

    rho: Any
    eps: Any
    state = AdaDeltaState

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        eps, squares = scalar(self.eps, x), mean(self.rho, moments[0], x * x)
        moved = x * (root(moments[1] + eps) / root(squares + eps))
        return moved, squares, mean(self.rho, moments[1], moved * moved)


@facing_users
def scale_by_rms(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> ScaleByRms:
    """Divides gradients by the root of the decaying mean of their squares."""
    return ScaleByRms(decay, eps, initial_scale, eps_in_sqrt, bias_correction)


@facing_users
def scale_by_stddev(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> ScaleByStddev:
    """Divides gradients by the root of their decaying variance."""
    return ScaleByStddev(decay, eps, initial_scale, eps_in_sqrt, bias_correction)


@facing_users
def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> ScaleByRss:
    """Divides gradients by the root of the sum of all their squares."""
    return ScaleByRss(initial_accumulator_value, eps)


@facing_users
def scale_by_adadelta(rho: Any = 0.9, eps: Any = 1e-6) -> ScaleByAdaDelta:
    """AdaDelta without a learning rate (Zeiler, 2012)."""
    return ScaleByAdaDelta(rho, eps)
