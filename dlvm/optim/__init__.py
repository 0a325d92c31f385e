"""Optimisers of parameters in trees: pure functions, in staged functions and outside of them.

Names and signatures are those of optax: ``optimizer.init(params)`` gives a state,
``optimizer.update(grads, state, params)`` the updates and the next state, and ``apply`` adds them.
"""

from dlvm.dsl.trace.suggestions import reader

from .bounds import clip, clip_by_global_norm, global_norm
from .combining import apply, chain
from .cycles import (
    cosine_onecycle_schedule,
    linear_onecycle_schedule,
    piecewise_interpolate_schedule,
    sgdr_schedule,
    warmup_constant_schedule,
    warmup_exponential_decay_schedule,
)
from .decay import add_decayed_weights
from .grouping import freeze, masked, partition, set_to_zero
from .minimizing import minimize
from .moments import (
    scale_by_adam,
    scale_by_lion,
    scale_by_rms,
    scale_by_rss,
    scale_by_stddev,
    trace,
)
from .optimisers import adagrad, adam, adamw, lion, rmsprop, sgd
from .quasi_newton import lbfgs
from .rates import scale, scale_by_learning_rate, scale_by_schedule
from .schedules import (
    constant_schedule,
    cosine_decay_schedule,
    exponential_decay,
    join_schedules,
    linear_schedule,
    piecewise_constant_schedule,
    polynomial_schedule,
    warmup_cosine_decay_schedule,
)
from .wrapping import accumulate, apply_if_finite, loss_scale

__all__ = [
    "accumulate",
    "adagrad",
    "adam",
    "adamw",
    "add_decayed_weights",
    "apply",
    "apply_if_finite",
    "chain",
    "clip",
    "clip_by_global_norm",
    "constant_schedule",
    "cosine_decay_schedule",
    "cosine_onecycle_schedule",
    "exponential_decay",
    "freeze",
    "global_norm",
    "join_schedules",
    "lbfgs",
    "linear_onecycle_schedule",
    "linear_schedule",
    "lion",
    "loss_scale",
    "masked",
    "minimize",
    "partition",
    "piecewise_constant_schedule",
    "piecewise_interpolate_schedule",
    "polynomial_schedule",
    "rmsprop",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_rms",
    "scale_by_rss",
    "scale_by_schedule",
    "scale_by_stddev",
    "set_to_zero",
    "sgd",
    "sgdr_schedule",
    "trace",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
]

__getattr__ = reader(__name__, __all__)
