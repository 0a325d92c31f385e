"""Adam and its kin: RAdam, AMSGrad, AdaBelief, and Adamax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.words.namespace import xp
from dlvm.optim.leaves import number, root, scalar

from .base import Moments, mean, unbiased, weight


class AdamState(NamedTuple):
    """Steps taken, and decaying means of gradients and of their squares."""

    count: Any
    mu: Any
    nu: Any


class AmsgradState(NamedTuple):
    """Steps taken, the means of Adam, and the largest mean of squares so far."""

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


class Weights(NamedTuple):
    """What to divide both means by after this step, and the first after the next step."""

    first: Any
    second: Any
    ahead: Any


@dataclass(frozen=True)
class TwoMoments(Moments):
    """A part like Adam: decaying means of gradients, and of a measure of their size."""

    b1: Any
    b2: Any
    eps: Any
    eps_root: Any
    nesterov: bool
    state = AdamState

    def _shared(self, steps: Any) -> Any:
        first, second = weight(self.b1, steps), weight(self.b2, steps)
        return Weights(first, second, weight(self.b1, steps + 1))

    def _up(self, m: Any, x: Any, weights: Weights) -> Any:
        """The mean of gradients divided by its weight."""
        return unbiased(self.b1, m, x, (weights.first, weights.ahead), self.nesterov)

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
        return self._up(m, x, shared) / self._size(v / scalar(shared.second, x)), m, v


@dataclass(frozen=True)
class ScaleByRadam(TwoMoments):
    """Adam, whose second moment is used once its variance is small enough to be known."""

    threshold: Any

    def _shared(self, steps: Any) -> Any:
        """The weights, whether the second moment is used, and the factor of the step then."""
        weights = super()._shared(steps)
        longest = 2.0 / (1.0 - number(self.b2)) - 1.0
        known = longest - 2.0 * steps * (1.0 - weights.second) / weights.second
        enough = known >= number(self.threshold)
        safe = xp.where(enough, known, longest)  # the root of the other would be of a negative
        shape = (safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)
        return weights, enough, xp.sqrt(shape)

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        weights, enough, factor = shared
        m, v = mean(self.b1, moments[0], x), mean(self.b2, moments[1], x * x)
        up, size = self._up(m, x, weights), self._size(v / scalar(weights.second, x))
        return xp.where(enough, scalar(factor, x) * up / size, up), m, v


@dataclass(frozen=True)
class ScaleByAmsgrad(TwoMoments):
    """``m / (sqrt(w) + eps)`` with the largest mean of squares w that there has been."""

    corrects_mu: bool
    corrects_nu: bool
    state = AmsgradState

    def _shared(self, steps: Any) -> Any:
        first, second, ahead = super()._shared(steps)
        return Weights(
            first if self.corrects_mu else 1.0, second if self.corrects_nu else 1.0, ahead
        )

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        m, v = mean(self.b1, moments[0], x), mean(self.b2, moments[1], x * x)
        most = xp.maximum(moments[2], v / scalar(shared.second, x))
        return self._up(m, x, shared) / self._size(most), m, v, most


@dataclass(frozen=True)
class ScaleByBelief(TwoMoments):
    """``m / (sqrt(s) + eps)`` with the decaying mean s of ``(g - m) ** 2``."""

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        m = mean(self.b1, moments[0], x)
        s = mean(self.b2, moments[1], (x - m) * (x - m)) + scalar(self.eps_root, x)
        size = root(s / scalar(shared.second, x)) + scalar(self.eps, x)
        return self._up(m, x, shared) / size, m, s


@dataclass(frozen=True)
class ScaleByAdamax(Moments):
    """``m / u`` with the decaying mean m, and the decaying maximum u of ``abs(g) + eps``."""

    b1: Any
    b2: Any
    eps: Any
    state = AdamState

    def _shared(self, steps: Any) -> Any:
        return weight(self.b1, steps)

    def _leaf(self, x: Any, shared: Any, moments: tuple[Any, ...]) -> tuple[Any, ...]:
        m = mean(self.b1, moments[0], x)
        u = xp.maximum(xp.abs(x) + scalar(self.eps, x), scalar(self.b2, x) * moments[1])
        return m / scalar(shared, x) / u, m, u


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
def scale_by_radam(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    threshold: Any = 5.0,
    *,
    nesterov: bool = False,
) -> ScaleByRadam:
    """Adam with a rectified second moment, without a learning rate (Liu et al., 2020)."""
    return ScaleByRadam(b1, b2, eps, eps_root, nesterov, threshold)


@facing_users
def scale_by_amsgrad(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    *,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> ScaleByAmsgrad:
    """AMSGrad without a learning rate (Reddi et al., 2018)."""
    return ScaleByAmsgrad(b1, b2, eps, eps_root, False, bias_correction_mu, bias_correction_nu)


@facing_users
def scale_by_belief(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-16,
    eps_root: Any = 1e-16,
    *,
    nesterov: bool = False,
) -> ScaleByBelief:
    """AdaBelief without a learning rate (Zhuang et al., 2020)."""
    return ScaleByBelief(b1, b2, eps, eps_root, nesterov)


@facing_users
def scale_by_adamax(b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> ScaleByAdamax:
    """Adamax without a learning rate (Kingma and Ba, 2015)."""
    return ScaleByAdamax(b1, b2, eps)
