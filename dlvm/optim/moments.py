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
    """Steps taken, and decaying means of squares and, where they are centred, of gradients."""

    count: Any
    nu: Any
    mu: Any


class RssState(NamedTuple):
    """The sum of squares of all gradients."""

    sum_of_squares: Any


class LionState(NamedTuple):
    """The decaying mean of gradients."""

    mu: Any


def mean(decay: Any, old: Any, x: Any) -> Any:
    """``decay * old + (1 - decay) * x``."""
    return scalar(decay, x) * old + scalar(1 - number(decay), x) * x


def weight(decay: Any, steps: Any) -> Any:
    """``1 - decay ** steps``: the sum of the weights of a decaying mean that began at 0."""
    return 1 - number(decay) ** steps


class OneMoment(ABC):
    """A part that remembers one number for each element."""

    state: ClassVar[type[Any]]

    @abstractmethod
    def _leaf(self, x: Any, moment: Any) -> tuple[Any, Any]:
        """What one array of gradients becomes, and what is remembered of it."""

    def _first(self) -> Any:
        """What is remembered before the first step."""
        return 0.0

    @computing
    def init(self, params: Any) -> Any:
        """The first moment in each place."""
        return self.state(filled(params, self._first()))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """What gradients become, and the new moments."""

        def leaf(g: Any, moment: Any) -> tuple[Any, Any]:
            moved, moment = self._leaf(wide(g), moment)
            return cast(moved, element_type(g)), moment

        moved, moments = each("update", leaf, 2, gradients=updates, state=state[0])
        return moved, self.state(moments)


@dataclass(frozen=True)
class Trace(OneMoment):
    """``t = g + decay * t``, and by Nesterov ``g + decay * t`` once more."""

    decay: Any
    nesterov: bool
    state = TraceState

    def _leaf(self, x: Any, moment: Any) -> tuple[Any, Any]:
        decay = scalar(self.decay, x)
        moment = x + decay * moment
        return x + decay * moment if self.nesterov else moment, moment


@dataclass(frozen=True)
class ScaleByAdam:
    """``m / (sqrt(v) + eps)`` with decaying means m and v, each divided by its weight so far."""

    b1: Any
    b2: Any
    eps: Any
    eps_root: Any
    nesterov: bool

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        return AdamState(count(), filled(params), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The direction in which Adam goes, up to the learning rate."""
        steps = increased(state.count)
        first, second = weight(self.b1, steps), weight(self.b2, steps)
        ahead = weight(self.b1, steps + 1)

        def leaf(g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            x = wide(g)
            m, v = mean(self.b1, m, x), mean(self.b2, v, x * x)
            up = m / scalar(first, x)
            if self.nesterov:
                up = mean(self.b1, m / scalar(ahead, x), x / scalar(first, x))
            size = v / scalar(second, x)
            if type(self.eps_root) is not float or self.eps_root:
                size = size + scalar(self.eps_root, x)
            return cast(up / (root(size) + scalar(self.eps, x)), element_type(g)), m, v

        moved, mu, nu = each("update", leaf, 3, gradients=updates, state=state.mu, squares=state.nu)
        return moved, AdamState(steps, mu, nu)


@dataclass(frozen=True)
class ScaleByRms:
    """``g / sqrt(v + eps)`` with the decaying mean v of squares, or their variance if centred."""

    decay: Any
    eps: Any
    initial_scale: Any
    eps_in_sqrt: bool
    bias_correction: bool
    centered: bool

    @computing
    def init(self, params: Any) -> Any:
        """``initial_scale`` in each place."""
        mu = filled(params) if self.centered else None
        return RmsState(count(), filled(params, self.initial_scale), mu)

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Gradients in units of how large they have been."""
        steps = increased(state.count)
        known = weight(self.decay, steps) if self.bias_correction else 1.0

        def leaf(g: Any, v: Any, m: Any = None) -> tuple[Any, Any, Any]:
            x = wide(g)
            v = mean(self.decay, v, x * x)
            spread = v / scalar(known, x) if self.bias_correction else v
            if m is not None:
                m = mean(self.decay, m, x)
                centre = m / scalar(known, x) if self.bias_correction else m
                spread = xp.maximum(spread - centre * centre, 0)  # rounding may make it negative
            return cast(x / self._size(spread), element_type(g)), v, m

        means = {} if state.mu is None else {"means": state.mu}
        moved, nu, mu = each("update", leaf, 3, gradients=updates, state=state.nu, **means)
        return moved, RmsState(steps, nu, mu if self.centered else None)

    def _size(self, spread: Any) -> Any:
        eps = scalar(self.eps, spread)
        return root(spread + eps) if self.eps_in_sqrt else root(spread) + eps


@dataclass(frozen=True)
class ScaleByRss(OneMoment):
    """``g / sqrt(s + eps)`` with the sum s of all squares; 0 where that is 0."""

    initial: Any
    eps: Any
    state = RssState

    def _first(self) -> Any:
        return self.initial

    def _leaf(self, x: Any, moment: Any) -> tuple[Any, Any]:
        s = moment + x * x
        return xp.where(s == 0, 0, x / xp.sqrt(xp.where(s == 0, 1, s + scalar(self.eps, x)))), s


@dataclass(frozen=True)
class ScaleByLion(OneMoment):
    """The sign of a decaying mean that counts the newest gradient more than the one remembered."""

    b1: Any
    b2: Any
    state = LionState

    def _leaf(self, x: Any, moment: Any) -> tuple[Any, Any]:
        return xp.sign(mean(self.b1, moment, x)), mean(self.b2, moment, x)


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
    return ScaleByRms(decay, eps, initial_scale, eps_in_sqrt, bias_correction, False)


@facing_users
def scale_by_stddev(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> ScaleByRms:
    """Gradients divided by the root of their decaying variance."""
    return ScaleByRms(decay, eps, initial_scale, eps_in_sqrt, bias_correction, True)


@facing_users
def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> ScaleByRss:
    """Gradients divided by the root of the sum of all their squares."""
    return ScaleByRss(initial_accumulator_value, eps)


@facing_users
def scale_by_lion(b1: Any = 0.9, b2: Any = 0.99) -> ScaleByLion:
    """The sign of a decaying mean of gradients (Chen et al., 2023)."""
    return ScaleByLion(b1, b2)
