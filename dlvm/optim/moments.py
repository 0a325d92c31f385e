"""Parts that remember moments of past gradients: momentum, Adam, RMSProp, AdaGrad, Lion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.words.namespace import xp

from .leaves import cast, count, each, element_type, filled, increased, number, root, scalar, wide


class TraceState(NamedTuple):
    """The decaying sum of past gradients."""

    trace: Any


class AdamState(NamedTuple):
    """Steps taken, and decaying means of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


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


class LionState(NamedTuple):
    """The decaying mean of gradients."""

    mu: Any


class EmaState(NamedTuple):
    """Steps taken, and the decaying mean."""

    count: Any
    ema: Any


def mean(decay: Any, old: Any, x: Any) -> Any:
    """``decay * old + (1 - decay) * x``."""
    return scalar(decay, x) * old + scalar(1 - number(decay), x) * x


def weight(decay: Any, steps: Any) -> Any:
    """``1 - decay ** steps``: the sum of the weights of a decaying mean that began at 0."""
    return 1 - number(decay) ** steps


def unbiased(decay: Any, m: Any, x: Any, weights: tuple[Any, Any], nesterov: bool) -> Any:
    """A decaying mean divided by its weight so far.

    By Nesterov it is the mean after one more step with the same gradient. ``weights`` are those
    after this step and after the next.
    """
    now, ahead = weights
    up = m / scalar(now, x)
    return mean(decay, m / scalar(ahead, x), x / scalar(now, x)) if nesterov else up


class Moments(ABC):
    """A part that remembers numbers for each element: its moments.

    ``state`` is a named tuple with a tree for each moment, in their order, after a ``count`` of
    steps if it has this field.
    """

    state: ClassVar[type[Any]]

    @abstractmethod
    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        """What one array of gradients becomes, and its new moments."""

    def _first(self, name: str) -> Any:
        """A moment before the first step."""
        return 0.0

    def _shared(self, steps: Any) -> Any:
        """What all leaves of a step share, computed of the steps taken with this one."""
        return None

    def _names(self) -> list[str]:
        return [name for name in self.state._fields if name != "count"]

    @computing
    def init(self, params: Any) -> Any:
        """The first moments in each place."""
        steps = {"count": count()} if "count" in self.state._fields else {}
        return self.state(**steps, **{k: filled(params, self._first(k)) for k in self._names()})

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """What gradients become, and the new moments."""
        steps = {"count": increased(state.count)} if "count" in self.state._fields else {}
        shared, names = self._shared(steps.get("count")), self._names()

        def leaf(g: Any, *moments: Any) -> tuple[Any, ...]:
            moved, *after = self._leaf(wide(g), shared, moments)
            return cast(moved, element_type(g)), *after

        trees = {f"state.{name}": getattr(state, name) for name in names}
        moved, *after = each("update", leaf, 1 + len(names), gradients=updates, **trees)
        return moved, self.state(**steps, **dict(zip(names, after, strict=True)))


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
class TwoMoments(Moments):
    """A part like Adam, of two decaying means: of gradients, and of what says how large they are.

    Leaves share the weights of both means, and the weight of the first mean after the next step.
    """

    b1: Any
    b2: Any
    eps: Any
    eps_root: Any
    nesterov: bool
    state = AdamState

    def _shared(self, steps: Any) -> Any:
        return weight(self.b1, steps), weight(self.b2, steps), weight(self.b1, steps + 1)

    def _up(self, m: Any, x: Any, shared: Any) -> Any:
        """The mean of gradients divided by its weight."""
        return unbiased(self.b1, m, x, (shared[0], shared[2]), self.nesterov)

    def _size(self, square: Any) -> Any:
        """``sqrt(square + eps_root) + eps``."""
        if type(self.eps_root) is not float or self.eps_root:
            square = square + scalar(self.eps_root, square)
        return root(square) + scalar(self.eps, square)


@dataclass(frozen=True)
class ScaleByAdam(TwoMoments):
    """``m / (sqrt(v) + eps)`` with decaying means m and v, each divided by its weight so far."""

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        m, v = mean(self.b1, moments[0], x), mean(self.b2, moments[1], x * x)
        return self._up(m, x, shared) / self._size(v / scalar(shared[1], x)), m, v


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
    """Momentum: the sum of past gradients, each step ``decay`` times as heavy."""
    return Trace(decay, nesterov)


@facing_users
def scale_by_adam(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    *,
    nesterov: bool = False,
) -> ScaleByAdam:
    """Adam without a learning rate (Kingma and Ba, 2015; with ``nesterov`` Dozat, 2016)."""
    return ScaleByAdam(b1, b2, eps, eps_root, nesterov)


@facing_users
def scale_by_rms(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> ScaleByRms:
    """Gradients divided by the root of the decaying mean of their squares."""
    return ScaleByRms(decay, eps, initial_scale, eps_in_sqrt, bias_correction)


@facing_users
def scale_by_stddev(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> ScaleByStddev:
    """Gradients divided by the root of their decaying variance."""
    return ScaleByStddev(decay, eps, initial_scale, eps_in_sqrt, bias_correction)


@facing_users
def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> ScaleByRss:
    """Gradients divided by the root of the sum of all their squares."""
    return ScaleByRss(initial_accumulator_value, eps)


@facing_users
def scale_by_lion(b1: Any = 0.9, b2: Any = 0.99) -> ScaleByLion:
    """The sign of a decaying mean of gradients (Chen et al., 2023)."""
    return ScaleByLion(b1, b2)


@facing_users
def ema(decay: Any, debias: bool = True) -> Ema:
    """The decaying mean of updates, corrected for its start at 0 with ``debias``."""
    return Ema(decay, debias)
