"""Optimisers of parameters in trees: pure functions, in staged functions and outside of them.

Names and signatures are those of optax: ``optimizer.init(params)`` gives a state,
``optimizer.update(grads, state, params)`` the updates and the next state, and ``apply`` adds them.
"""

from typing import TYPE_CHECKING

from dlvm.dsl.trace.suggestions import reader

from .combining import apply, chain
from .moments.adam import (
    scale_by_adam,
    scale_by_adamax,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_radam,
)
from .moments.factored import scale_by_factored_rms
from .moments.momentum import ema, scale_by_lion, trace
from .moments.orthogonal import scale_by_muon
from .moments.squares import scale_by_adadelta, scale_by_rms, scale_by_rss, scale_by_stddev
from .optimisers.muon import muon
from .optimisers.usual import adagrad, adam, adamw, lion, rmsprop, sgd
from .optimisers.variants import (
    adabelief,
    adadelta,
    adafactor,
    adamax,
    adamaxw,
    amsgrad,
    lamb,
    lars,
    radam,
)
from .quasi_newton.lbfgs import lbfgs
from .quasi_newton.minimizing import minimize
from .schedules.curves import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from .schedules.cycles import (
    cosine_onecycle_schedule,
    linear_onecycle_schedule,
    piecewise_interpolate_schedule,
    sgdr_schedule,
    warmup_constant_schedule,
    warmup_exponential_decay_schedule,
)
from .updates.bounds import clip, clip_by_global_norm, global_norm
from .updates.decay import add_decayed_weights
from .updates.plateau import reduce_on_plateau
from .updates.rates import scale, scale_by_learning_rate, scale_by_schedule
from .updates.ratios import (
    adaptive_grad_clip,
    clip_by_block_rms,
    scale_by_param_block_rms,
    scale_by_trust_ratio,
)
from .wrapping.grouping import freeze, masked, partition, set_to_zero
from .wrapping.injecting import inject_hyperparams
from .wrapping.steps import accumulate, apply_if_finite, loss_scale

__all__ = [
    "accumulate",
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamaxw",
    "adamw",
    "adaptive_grad_clip",
    "add_decayed_weights",
    "amsgrad",
    "apply",
    "apply_if_finite",
    "chain",
    "clip",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_onecycle_schedule",
    "ema",
    "exponential_decay",
    "freeze",
    "global_norm",
    "inject_hyperparams",
    "join_schedules",
    "lamb",
    "lars",
    "lbfgs",
    "linear_onecycle_schedule",
    "linear_schedule",
    "lion",
    "loss_scale",
    "masked",
    "minimize",
    "muon",
    "partition",
    "piecewise_constant_schedule",
    "piecewise_interpolate_schedule",
    "polynomial_schedule",
    "radam",
    "reduce_on_plateau",
    "rmsprop",
    "scale",
    "scale_by_adadelta",
    "scale_by_adam",
    "scale_by_adamax",
    "scale_by_amsgrad",
    "scale_by_belief",
    "scale_by_factored_rms",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_muon",
    "scale_by_param_block_rms",
    "scale_by_radam",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "scale_by_trust_ratio",
    "set_to_zero",
    "sgd",
    "sgdr_schedule",
    "trace",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = reader(__name__, __all__)
