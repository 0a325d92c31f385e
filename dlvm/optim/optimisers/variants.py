"""More optimisers by name: RAdam, Adamax, AMSGrad, AdaDelta, AdaBelief, LAMB, LARS, Adafactor.

Names, arguments and results are those of optax.
"""

from __future__ import annotations

from typing import Any

from dlvm.dsl.trace.facing import facing_users
from dlvm.optim.combining import Chain, Transformation
from dlvm.optim.moments.adam import (
    scale_by_adam,
    scale_by_adamax,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_radam,
)
from dlvm.optim.moments.factored import scale_by_factored_rms
from dlvm.optim.moments.momentum import ema, trace
from dlvm.optim.moments.squares import scale_by_adadelta
from dlvm.optim.updates.decay import add_decayed_weights
from dlvm.optim.updates.rates import downhill, scale, scale_by_learning_rate, scale_by_schedule
from dlvm.optim.updates.ratios import (
    clip_by_block_rms,
    scale_by_param_block_rms,
    scale_by_trust_ratio,
)
from dlvm.optim.wrapping.grouping import masked


@facing_users
def radam(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    threshold: Any = 5.0,
    *,
    nesterov: bool = False,
) -> Transformation:
    """RAdam: momentum until squares are known well enough, then Adam (Liu et al., 2020)."""
    direction = scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov)
    return downhill(learning_rate, direction)


@facing_users
def adamax(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Transformation:
    """Adamax: Adam with the decaying maximum of gradients (Kingma and Ba, 2015)."""
    return downhill(learning_rate, scale_by_adamax(b1, b2, eps))


@facing_users
def adamaxw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    weight_decay: Any = 1e-4,
    mask: Any = None,
) -> Transformation:
    """Adamax with weights that decay beside it, as in ``adamw``."""
    decay = add_decayed_weights(weight_decay, mask)
    return downhill(learning_rate, scale_by_adamax(b1, b2, eps), decay)


@facing_users
def amsgrad(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    *,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> Transformation:
    """AMSGrad: Adam whose steps never grow (Reddi et al., 2018)."""
    direction = scale_by_amsgrad(
        b1,
        b2,
        eps,
        eps_root,
        bias_correction_mu=bias_correction_mu,
        bias_correction_nu=bias_correction_nu,
    )
    return downhill(learning_rate, direction)


@facing_users
def adadelta(
    learning_rate: Any = None,
    rho: Any = 0.9,
    eps: Any = 1e-6,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any = None,
) -> Transformation:
    """AdaDelta: steps in the units of the parameters (Zeiler, 2012); the rate is 1 if left out."""
    rate = 1.0 if learning_rate is None else learning_rate
    decay = add_decayed_weights(weight_decay, weight_decay_mask)
    return downhill(rate, decay, scale_by_adadelta(rho, eps))


@facing_users
def adabelief(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-16,
    eps_root: Any = 1e-16,
    *,
    nesterov: bool = False,
) -> Transformation:
    """AdaBelief: Adam by the variance about the mean of gradients (Zhuang et al., 2020)."""
    direction = scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov)
    return downhill(learning_rate, direction)


@facing_users
def lamb(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-6,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
    mask: Any = None,
) -> Transformation:
    """LAMB: steps of Adam, in each array as large as its parameters (You et al., 2020)."""
    direction, decay = scale_by_adam(b1, b2, eps, eps_root), add_decayed_weights(weight_decay, mask)
    return downhill(learning_rate, direction, decay, scale_by_trust_ratio())


@facing_users
def lars(
    learning_rate: Any,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any = True,
    trust_coefficient: Any = 0.001,
    eps: Any = 0.0,
    trust_ratio_mask: Any = True,
    momentum: Any = 0.9,
    nesterov: bool = False,
) -> Transformation:
    """LARS: gradients scaled to the norm of each array, with momentum (You et al., 2017)."""
    ratio = scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps)
    decay = add_decayed_weights(weight_decay, weight_decay_mask)
    step = scale_by_learning_rate(learning_rate)
    return Chain((decay, masked(ratio, trust_ratio_mask), step, trace(momentum, nesterov)))


@facing_users
def adafactor(
    learning_rate: Any = None,
    min_dim_size_to_factor: int = 128,
    decay_rate: Any = 0.8,
    decay_offset: Any = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: Any = 1.0,
    momentum: Any = None,
    *,
    weight_decay_rate: Any = None,
    eps: Any = 1e-30,
    factored: bool = True,
    weight_decay_mask: Any = None,
) -> Transformation:
    """Adafactor: means of squares of matrices as rows and columns (Shazeer and Stern, 2018)."""
    parts: list[Transformation] = [
        scale_by_factored_rms(factored, decay_rate, decay_offset, min_dim_size_to_factor, eps)
    ]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        by = scale_by_schedule if callable(learning_rate) else scale
        parts.append(by(learning_rate))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return Chain((*parts, scale(-1.0)))
