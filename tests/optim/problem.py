"""The problem that optimisers are compared on, and the optimisers, by what they are called here.

``stored`` writes what optax makes of it into ``optax.json``, which the tests read. It needs optax
and jax, which the tests don't, and is run by hand::

    pip install optax jax && PYTHONPATH=. python -m tests.optim.stored
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 50
SHAPES = {"w": (3, 4), "b": (4,), "v": (4, 2), "c": ()}


def arrays(dtype: Any = np.float64) -> dict[str, Any]:
    """Parameters and data, the same on every machine: a lattice of fractions, with no generator."""
    sizes = {**SHAPES, "x": (6, 3), "y": (6, 2)}
    made: dict[str, Any] = {}
    for k, (name, shape) in enumerate(sizes.items()):
        places = np.arange(np.prod(shape, dtype=int)) + 7 * k + 1
        made[name] = (2 * ((places * 0.6180339887498949) % 1.0) - 1).reshape(shape).astype(dtype)
    return made


def loss(p: Any, x: Any, y: Any, np: Any) -> Any:
    """A small network with a scalar factor; ``np`` is jax.numpy or dlvm."""
    hidden = np.tanh(x @ p["w"] + p["b"])
    return ((p["c"] * (hidden @ p["v"]) - y) ** 2).mean() + 0.01 * (p["w"] ** 2).sum()


def optimisers(o: Any, mask: Any, accumulate: Any, exact: Any = lambda s: s) -> dict[str, Any]:
    """Each optimiser, made by optax or by dlvm.optim; ``exact`` makes a schedule compute in f64."""
    muon = o.contrib.muon if hasattr(o, "contrib") else o.muon
    warm = exact(o.warmup_cosine_decay_schedule(0.0, 0.05, 10, 40, 0.001))
    return {
        "sgd": o.sgd(0.1),
        "momentum": o.sgd(0.05, momentum=0.9),
        "nesterov": o.sgd(0.05, momentum=0.9, nesterov=True),
        "adam": o.adam(0.02),
        "adam with eps_root": o.adam(0.02, b1=0.8, b2=0.99, eps=1e-6, eps_root=1e-7),
        "nadam": o.adam(0.02, nesterov=True),
        "adamw": o.adamw(0.02, weight_decay=0.1),
        "adamw with a mask": o.adamw(0.02, weight_decay=0.1, mask=mask),
        "lion": o.lion(0.01, weight_decay=0.01),
        "rmsprop": o.rmsprop(0.01),
        "rmsprop with all": o.rmsprop(
            0.01, decay=0.8, eps_in_sqrt=False, momentum=0.5, bias_correction=True
        ),
        "centred": o.rmsprop(0.01, eps=1e-4, centered=True, momentum=0.5, nesterov=True),
        "adagrad": o.adagrad(0.2),
        "clipped": o.chain(o.clip_by_global_norm(0.3), o.sgd(0.5, momentum=0.5)),
        "limited": o.chain(o.clip(0.02), o.adam(0.02)),
        "scheduled": o.adamw(warm, weight_decay=0.01),
        "exponential": o.sgd(exact(o.exponential_decay(0.2, 10, 0.5))),
        "accumulated": accumulate(o.adam(0.05), 3),
        "accumulated sgd": accumulate(o.sgd(0.2, momentum=0.9), 4),
        "radam of Nesterov": o.radam(0.02, b2=0.95, eps_root=1e-6, threshold=4.5, nesterov=True),
        "adamax": o.adamaxw(0.02),
        "amsgrad": o.amsgrad(0.02, b2=0.9, bias_correction_mu=False),
        "adadelta": o.adadelta(1.0, weight_decay=0.01),
        "adabelief": o.adabelief(0.02, nesterov=True),
        "lamb": o.lamb(0.02, weight_decay=0.01),
        "lars": o.lars(0.5, 0.01, mask, 0.1, trust_ratio_mask=mask),
        "adafactor": o.adafactor(0.02, min_dim_size_to_factor=2),
        "adafactor with all": o.adafactor(
            warm, 3, 0.9, clipping_threshold=0.5, momentum=0.5, weight_decay_rate=0.01
        ),
        "muon": muon(0.02),
        "muon with all": muon(
            0.02, ns_steps=3, weight_decay=0.1, nesterov=False, adaptive=True, consistent_rms=0.2
        ),
        "smoothed": o.chain(o.adaptive_grad_clip(0.02), o.ema(0.5), o.sgd(0.1)),
        "groups": o.partition(
            {"a": o.adam(0.02), "b": o.sgd(0.1), "c": o.set_to_zero()},
            {"w": "a", "b": "b", "v": "a", "c": "c"},
        ),
        "parts": o.chain(
            o.add_decayed_weights(0.01, mask),
            o.trace(0.5),
            o.scale_by_schedule(exact(o.linear_schedule(1.0, 0.1, 30))),
            o.scale(-0.1),
        ),
    }


def schedules(o: Any) -> dict[str, Any]:
    """Each schedule with some of its options."""
    return {
        "constant": o.constant_schedule(0.1),
        "linear": o.linear_schedule(1.0, 0.1, 20, 5),
        "polynomial": o.polynomial_schedule(1.0, 0.1, 2, 20),
        "exponential": o.exponential_decay(0.5, 7, 0.3),
        "staircase": o.exponential_decay(0.5, 7, 0.3, 3, True),
        "bounded": o.exponential_decay(0.5, 7, 0.3, end_value=0.1),
        "growing": o.exponential_decay(0.5, 7, 1.3, end_value=2.0),
        "cosine": o.cosine_decay_schedule(0.5, 30, 0.1, 1.5),
        "warm": o.warmup_cosine_decay_schedule(0.1, 0.5, 10, 35, 0.05),
        "cold": o.warmup_cosine_decay_schedule(0.1, 0.5, 0, 35),
        "pieces": o.piecewise_constant_schedule(1.0, {10: 0.5, 30: 0.1}),
        "onecycle": o.cosine_onecycle_schedule(40, 0.5),
        "onecycle with all": o.cosine_onecycle_schedule(40, 0.5, 0.25, 10.0, 100.0),
        "onecycle of lines": o.linear_onecycle_schedule(40, 0.5, 0.3, 0.8),
        "onecycle that begins at its peak": o.linear_onecycle_schedule(40, 0.5, 0.0),
        "interpolated": o.piecewise_interpolate_schedule("cosine", 1.0, {10: 0.5, 30: 2.0}),
        "interpolated on lines": o.piecewise_interpolate_schedule("linear", 1.0, {20: 0.25}),
        "restarts": o.sgdr_schedule(
            [
                {"init_value": 0.1, "peak_value": p, "warmup_steps": 3, "decay_steps": d}
                for p, d in ((0.5, 10), (0.3, 20), (0.2, 10))
            ]
        ),
        "warm constant": o.warmup_constant_schedule(0.1, 0.5, 10),
        "warm exponential": o.warmup_exponential_decay_schedule(
            0.1, 0.5, 10, 7, 0.3, 2, True, end_value=0.05
        ),
        "joined": o.join_schedules([o.constant_schedule(1.0), o.linear_schedule(0.5, 0.1, 9)], [8]),
    }
