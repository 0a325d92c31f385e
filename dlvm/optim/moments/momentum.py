"""Parts that remember one mean of gradients: momentum, Lion, and ``ema``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import scalar

from .base import Moments, mean, weight


class TraceState(NamedTuple):
    """The decaying sum of past gradients."""

    trace: Any


class LionState(NamedTuple):
    """The decaying mean of gradients."""

    mu: Any


class EmaState(NamedTuple):
    """Steps taken, and the decaying mean."""

    count: Any
    ema: Any


@dataclass(frozen=True)
class Trace(Moments):
    """``t = g + decay * t``, and by Nesterov ``g + decay * t`` once more."""

    decay: Any
    nesterov: bool
    state = TraceState

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        decay = scalar(self.decay, x)
        t = x + decay * moments[0]
        return x + decay * t if self.nesterov else t, t


@dataclass(frozen=True)
class ScaleByLion(Moments):
    """The sign of a decaying mean that counts the newest gradient more than the one remembered."""

    b1: Any
    b2: Any
    state = LionState

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        return xp.sign(mean(self.b1, moments[0], x)), mean(self.b2, moments[0], x)


@dataclass(frozen=True)
class Ema(Moments):
    """The decaying mean of updates."""

    decay: Any
    debias: bool
    state = EmaState

    def _shared(self, steps: Any) -> Any:
        return weight(self.decay, steps) if self.debias else None

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        m = mean(self.decay, moments[0], x)
        return m if shared is None else m / scalar(shared, x), m


@facing_users
def trace(decay: Any, nesterov: bool = False) -> Trace:
    """Momentum: adds to each gradient ``decay`` times the sum of those before it."""
    return Trace(decay, nesterov)


@facing_users
def scale_by_lion(b1: Any = 0.9, b2: Any = 0.99) -> ScaleByLion:
    """The sign of a decaying mean of gradients (Chen et al., 2023)."""
    return ScaleByLion(b1, b2)


@facing_users
def ema(decay: Any, debias: bool = True) -> Ema:
    """Replaces updates by their decaying mean, which ``debias`` corrects for its start at 0."""
    return Ema(decay, debias)
