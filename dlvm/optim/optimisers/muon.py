"""Muon by name: matrices by nearly orthogonal updates, and all other parameters by Adam."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import plain, shape_of
from dlvm.dsl.trace.trees import flatten_with_none, unflatten
from dlvm.optim.combining import Transformation
from dlvm.optim.moments.orthogonal import COEFFICIENTS, Coefficients, ScaleByShape, scale_by_muon
from dlvm.optim.updates.decay import add_decayed_weights
from dlvm.optim.updates.rates import downhill
from dlvm.optim.wrapping.grouping import partition

from .usual import adamw


def _kinds(params: Any) -> Any:
    """The label of each parameter."""
    leaves, spec = flatten_with_none(params)
    kinds = ["muon" if x is not None and len(shape_of(plain(x))) == 2 else "adam" for x in leaves]
    return unflatten(spec, kinds)


@facing_users
def muon(
    learning_rate: Any,
    ns_coeffs: Coefficients = COEFFICIENTS,
    ns_steps: int = 5,
    beta: Any = 0.95,
    eps: Any = 1e-8,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    adam_b1: Any = 0.9,
    adam_b2: Any = 0.999,
    adam_eps_root: Any = 0.0,
    adam_weight_decay: Any = 0.0,
    adam_learning_rate: Any = None,
    consistent_rms: Any = None,
) -> Transformation:
    """Muon for matrices, Adam for all other parameters (Jordan et al., 2024).

    For other groups, such as an embedding by Adam, write ``partition`` of ``muon`` and ``adamw``.
    """
    other_rate = learning_rate if adam_learning_rate is None else adam_learning_rate
    direction = scale_by_muon(ns_coeffs, ns_steps, beta, eps, nesterov=nesterov, adaptive=adaptive)
    decay = add_decayed_weights(weight_decay, weight_decay_mask)
    matrices = downhill(learning_rate, direction, ScaleByShape(consistent_rms), decay)
    others = adamw(
        other_rate, adam_b1, adam_b2, eps, adam_eps_root, adam_weight_decay, nesterov=nesterov
    )
    return partition({"muon": matrices, "adam": others}, _kinds)
