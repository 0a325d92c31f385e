"""The optimisers by name, each a chain of parts: direction, decay, learning rate.

Names, arguments and results are those of optax.
"""

from __future__ import annotations

from typing import Any

from dlvm.dsl.trace.facing import facing_users
from dlvm.optim.combining import Chain, Transformation
from dlvm.optim.moments.adam import scale_by_adam
from dlvm.optim.moments.momentum import scale_by_lion, trace
from dlvm.optim.moments.squares import scale_by_rms, scale_by_rss, scale_by_stddev
from dlvm.optim.updates.decay import add_decayed_weights
from dlvm.optim.updates.rates import downhill, scale_by_learning_rate


@facing_users
def sgd(learning_rate: Any, momentum: Any = None, nesterov: bool = False) -> Transformation:
    """Gradient descent: ``-learning_rate * g``, with momentum the decaying sum of g."""
    parts = () if momentum is None else (trace(momentum, nesterov),)
    return downhill(learning_rate, *parts)


@facing_users
def adam(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    *,
    nesterov: bool = False,
) -> Transformation:
    """Adam: decaying means of gradients and of their squares (Kingma and Ba, 2015).

    A step of training is::

        optimizer = dlvm.optim.adam(1e-3)
        state = optimizer.init(params)
        updates, state = optimizer.update(grads, state, params)
        params = dlvm.optim.apply(params, updates)
    """
    return downhill(learning_rate, scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov))


@facing_users
def adamw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    weight_decay: Any = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> Transformation:
    """Adam with weights that decay beside it, and not through it (Loshchilov and Hutter, 2019).

    ``mask`` says which parameters decay: a tree of True and False, or a function that gives one.
    """
    direction = scale_by_adam(b1, b2, eps, eps_root, nesterov=nesterov)
    decay = add_decayed_weights(weight_decay, mask)
    return downhill(learning_rate, direction, decay)


@facing_users
def lion(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.99,
    weight_decay: Any = 1e-3,
    mask: Any = None,
) -> Transformation:
    """Lion: steps of the size of the learning rate in each place (Chen et al., 2023)."""
    decay = add_decayed_weights(weight_decay, mask)
    return downhill(learning_rate, scale_by_lion(b1, b2), decay)


@facing_users
def rmsprop(
    learning_rate: Any,
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Any = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Transformation:
    """RMSProp (Hinton, 2012): gradients in units of the root of their decaying mean square."""
    by = scale_by_stddev if centered else scale_by_rms
    direction = by(decay, eps, initial_scale, eps_in_sqrt, bias_correction)
    rest = () if momentum is None else (trace(momentum, nesterov),)
    return Chain((direction, scale_by_learning_rate(learning_rate), *rest))


@facing_users
def adagrad(
    learning_rate: Any, initial_accumulator_value: Any = 0.1, eps: Any = 1e-7
) -> Transformation:
    """AdaGrad (Duchi et al., 2011): gradients in units of the root of all their squares."""
    return downhill(learning_rate, scale_by_rss(initial_accumulator_value, eps))
