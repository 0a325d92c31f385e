"""Parts that vary Adam and AdaGrad: RAdam, Adamax, AMSGrad, AdaDelta, AdaBelief, and ``ema``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.words.namespace import xp

from .leaves import cast, count, each, element_type, filled, increased, number, root, scalar, wide
from .moments import AdamState, mean, weight


class AmsgradState(NamedTuple):
    """Steps taken, the means of Adam, and the largest mean of squares so far."""

    count: Any
    mu: Any
    nu: Any
    nu_max: Any


class AdaDeltaState(NamedTuple):
    """Decaying means of the squares of gradients, and of updates."""

    e_g: Any
    e_x: Any


class EmaState(NamedTuple):
    """Steps taken, and the decaying mean."""

    count: Any
    ema: Any


@dataclass(frozen=True)
class ScaleByRadam:
    """Adam, whose second moment is used once its variance is small enough to be known."""

    b1: Any
    b2: Any
    eps: Any
    eps_root: Any
    threshold: Any
    nesterov: bool

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        return AdamState(count(), filled(params), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The direction of RAdam, up to the learning rate."""
        steps = increased(state.count)
        first, second = weight(self.b1, steps), weight(self.b2, steps)
        ahead = weight(self.b1, steps + 1)
        longest = 2.0 / (1.0 - number(self.b2)) - 1.0
        known = longest - 2.0 * steps * (1.0 - second) / second
        enough = known >= number(self.threshold)
        safe = xp.where(enough, known, longest)  # the root of the other would be of a negative
        shape = (safe - 4) * (safe - 2) * longest / ((longest - 4) * (longest - 2) * safe)

        def leaf(g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
            x = wide(g)
            m, v = mean(self.b1, m, x), mean(self.b2, v, x * x)
            up = m / scalar(first, x)
            if self.nesterov:
                up = mean(self.b1, m / scalar(ahead, x), x / scalar(first, x))
            size = root(v / scalar(second, x) + scalar(self.eps_root, x)) + scalar(self.eps, x)
            moved = xp.where(enough, scalar(xp.sqrt(shape), x) * up / size, up)
            return cast(moved, element_type(g)), m, v

        moved, mu, nu = each("update", leaf, 3, gradients=updates, state=state.mu, squares=state.nu)
        return moved, AdamState(steps, mu, nu)


@dataclass(frozen=True)
class ScaleByAdamax:
    """``m / u`` with the decaying mean m, and the decaying maximum u of ``abs(g) + eps``."""

    b1: Any
    b2: Any
    eps: Any

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        return AdamState(count(), filled(params), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The direction of Adamax, up to the learning rate."""
        steps = increased(state.count)
        first = weight(self.b1, steps)

        def leaf(g: Any, m: Any, u: Any) -> tuple[Any, Any, Any]:
            x = wide(g)
            m = mean(self.b1, m, x)
            u = xp.maximum(xp.abs(x) + scalar(self.eps, x), scalar(self.b2, x) * u)
            return cast(m / scalar(first, x) / u, element_type(g)), m, u

        moved, mu, nu = each("update", leaf, 3, gradients=updates, state=state.mu, maxima=state.nu)
        return moved, AdamState(steps, mu, nu)


@dataclass(frozen=True)
class ScaleByAmsgrad:
    """``m / (sqrt(w) + eps)`` with the largest mean of squares w that there has been."""

    b1: Any
    b2: Any
    eps: Any
    eps_root: Any
    corrects_mu: bool
    corrects_nu: bool

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        return AmsgradState(count(), filled(params), filled(params), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The direction of AMSGrad, up to the learning rate."""
        steps = increased(state.count)
        first = weight(self.b1, steps) if self.corrects_mu else 1.0
        second = weight(self.b2, steps) if self.corrects_nu else 1.0

        def leaf(g: Any, m: Any, v: Any, most: Any) -> tuple[Any, Any, Any, Any]:
            x = wide(g)
            m, v = mean(self.b1, m, x), mean(self.b2, v, x * x)
            most = xp.maximum(most, v / scalar(second, x))
            size = root(most + scalar(self.eps_root, x)) + scalar(self.eps, x)
            return cast(m / scalar(first, x) / size, element_type(g)), m, v, most

        places = {"state": state.mu, "squares": state.nu, "largest": state.nu_max}
        moved, mu, nu, most = each("update", leaf, 4, gradients=updates, **places)
        return moved, AmsgradState(steps, mu, nu, most)


@dataclass(frozen=True)
class ScaleByAdaDelta:
    """``g * sqrt(e_x + eps) / sqrt(e_g + eps)``: in the units of the parameters."""

    rho: Any
    eps: Any

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        return AdaDeltaState(filled(params), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Gradients times the ratio of how large updates and gradients have been."""

        def leaf(g: Any, squares: Any, moves: Any) -> tuple[Any, Any, Any]:
            x = wide(g)
            eps, squares = scalar(self.eps, x), mean(self.rho, squares, x * x)
            moved = x * (root(moves + eps) / root(squares + eps))
            return cast(moved, element_type(g)), squares, mean(self.rho, moves, moved * moved)

        places = {"state": state.e_g, "moves": state.e_x}
        moved, e_g, e_x = each("update", leaf, 3, gradients=updates, **places)
        return moved, AdaDeltaState(e_g, e_x)


@dataclass(frozen=True)
class ScaleByBelief:
    """``m / (sqrt(s) + eps)`` with the decaying mean s of ``(g - m) ** 2``."""

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
        """The direction of AdaBelief, up to the learning rate."""
        steps = increased(state.count)
        first, second = weight(self.b1, steps), weight(self.b2, steps)
        ahead = weight(self.b1, steps + 1)

        def leaf(g: Any, m: Any, s: Any) -> tuple[Any, Any, Any]:
            x = wide(g)
            m = mean(self.b1, m, x)
            s = mean(self.b2, s, (x - m) * (x - m)) + scalar(self.eps_root, x)
            up = m / scalar(first, x)
            if self.nesterov:
                up = mean(self.b1, m / scalar(ahead, x), x / scalar(first, x))
            size = root(s / scalar(second, x)) + scalar(self.eps, x)
            return cast(up / size, element_type(g)), m, s

        moved, mu, nu = each("update", leaf, 3, gradients=updates, state=state.mu, squares=state.nu)
        return moved, AdamState(steps, mu, nu)


@dataclass(frozen=True)
class Ema:
    """The decaying mean of updates."""

    decay: Any
    debias: bool

    @computing
    def init(self, params: Any) -> Any:
        """Zeros."""
        return EmaState(count(), filled(params))

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """The mean, and with ``debias`` divided by its weight so far."""
        steps = increased(state.count)
        known = weight(self.decay, steps) if self.debias else 1.0

        def leaf(g: Any, m: Any) -> tuple[Any, Any]:
            x = wide(g)
            m = mean(self.decay, m, x)
            return cast(m / scalar(known, x) if self.debias else m, element_type(g)), m

        moved, ema = each("update", leaf, 2, gradients=updates, state=state.ema)
        return moved, EmaState(steps, ema)


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
    return ScaleByRadam(b1, b2, eps, eps_root, threshold, nesterov)


@facing_users
def scale_by_adamax(b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> ScaleByAdamax:
    """Adamax without a learning rate (Kingma and Ba, 2015)."""
    return ScaleByAdamax(b1, b2, eps)


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
    return ScaleByAmsgrad(b1, b2, eps, eps_root, bias_correction_mu, bias_correction_nu)


@facing_users
def scale_by_adadelta(rho: Any = 0.9, eps: Any = 1e-6) -> ScaleByAdaDelta:
    """AdaDelta without a learning rate (Zeiler, 2012)."""
    return ScaleByAdaDelta(rho, eps)


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
def ema(decay: Any, debias: bool = True) -> Ema:
    """The decaying mean of updates, corrected for its start at 0 with ``debias``."""
    return Ema(decay, debias)
