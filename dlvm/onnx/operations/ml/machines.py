"""Support vector machines, and the probabilities of several classes from those of pairs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from dlvm.dsl.flow.loops import while_loop
from dlvm.dsl.words.namespace import xp
from dlvm.onnx.operations.operands import shape
from dlvm.onnx.table import Call, operation

from .scores import choose, classes, floats, single, transformed, two_columns

NEAREST = 1e-7
"""How near to 0 and 1 the probability of a pair may be."""
ROUNDS = 100
"""Rounds of the iteration for the probabilities of several classes."""


def _kernel(call: Call, x: Any, vectors: Any) -> Any:
    """The kernel of each row with each vector, (rows, vectors)."""
    gamma, coef0, degree = call.get("kernel_params") or (0.0, 0.0, 0.0)
    name = call.get("kernel_type", "LINEAR")
    if name == "RBF":
        off = xp.expand_dims(x, 1) - vectors
        return xp.exp(-gamma * xp.sum(off * off, axis=-1))
    product = xp.matmul(x, vectors.T)
    if name == "LINEAR":
        return product
    scaled = gamma * product + coef0
    return xp.tanh(scaled) if name == "SIGMOID" else scaled**degree


@operation("ai.onnx.ml::SVMRegressor")
def _regressor(call: Call, x: Any) -> Any:
    x, weights = single(x), floats(call, "coefficients")
    count = call.get("n_supports", 0)
    if count:
        vectors = floats(call, "support_vectors").reshape(count, -1)
        found = xp.matmul(_kernel(call, x, vectors), weights.reshape(count, 1))
    else:
        found = xp.matmul(x, weights.reshape(-1, 1))
    found = found + floats(call, "rho")[0]
    if call.get("one_class", 0):
        return xp.where(found > 0, xp.ones_like(found), -xp.ones_like(found))
    return transformed(call, found)


@operation("ai.onnx.ml::SVMClassifier")
def _classifier(call: Call, x: Any) -> Any:
    counts = call.get("vectors_per_class")
    if not counts:
        return _linear(call, single(x))
    scores = _pairs(call, single(x), counts)
    pairs = [*combinations(range(len(counts)), 2)]
    labels = choose(call, _votes(scores, pairs, len(counts)))
    if call.get("prob_a"):
        return labels, _probabilities(call, scores, pairs, len(counts))
    if len(counts) > 2:
        return labels, transformed(call, scores)
    return labels, two_columns(call, scores, positive=False)


def _linear(call: Call, x: Any) -> Any:
    """A machine without vectors: one product."""
    count = classes(call)
    weights = floats(call, "coefficients").reshape(count, -1)
    scores = xp.matmul(x, weights.T) + floats(call, "rho")[0]
    return choose(call, scores), transformed(call, scores)


def _pairs(call: Call, x: Any, counts: list[int]) -> Any:
    """The decision of each pair of classes: above 0 it is for the first, (rows, pairs)."""
    total, several = sum(counts), len(counts)
    vectors = floats(call, "support_vectors").reshape(total, -1)
    weights = floats(call, "coefficients").reshape(several - 1, total)
    ends = np.cumsum(counts)
    table = np.zeros((total, several * (several - 1) // 2), np.float32)
    for p, (i, j) in enumerate(combinations(range(several), 2)):
        first, second = (slice(ends[k] - counts[k], ends[k]) for k in (i, j))
        table[first, p] = weights[j - 1, first]
        table[second, p] = weights[i, second]
    return xp.matmul(_kernel(call, x, vectors), table) + floats(call, "rho")


def _votes(scores: Any, pairs: list[tuple[int, int]], several: int) -> Any:
    """The number of pairs that each class wins."""
    first = np.array([[i == k for k in range(several)] for i, _ in pairs], np.float32)
    second = np.array([[j == k for k in range(several)] for _, j in pairs], np.float32)
    won = xp.astype(scores > 0, np.float32)
    return xp.matmul(won, first) + xp.matmul(1 - won, second)


def _probabilities(call: Call, scores: Any, pairs: list[tuple[int, int]], several: int) -> Any:
    """The probability of each class from those of pairs.

    Wu, Lin and Weng (2004), "Probability estimates for multi-class classification by pairwise
    coupling": the minimum of a quadratic form, by the iteration of their second method. A row
    stops where it has converged.
    """
    of_pair = xp.sigmoid(-(scores * floats(call, "prob_a") + floats(call, "prob_b")))
    of_pair = xp.clip(of_pair, NEAREST, 1 - NEAREST)
    form = _form(of_pair, pairs, several)

    def product(p: Any) -> Any:
        return xp.sum(form * xp.expand_dims(p, 1), axis=2)

    def open_rows(p: Any) -> Any:
        moved = product(p)
        value = xp.sum(p * moved, axis=1, keepdims=True)
        return xp.max(xp.abs(moved - value), axis=1, keepdims=True) >= 0.005 / several

    def goes_on(carry: Any) -> Any:
        k, p = carry
        return xp.logical_and(k < ROUNDS, xp.any(open_rows(p)))

    def step(carry: Any) -> Any:
        k, p = carry
        return k + 1, xp.where(open_rows(p), _round(form, p, several), p)

    start = xp.full((shape(of_pair)[0], several), 1 / several, dtype=np.float32)
    return while_loop(goes_on, step, (np.asarray(0), start))[1]


def _form(of_pair: Any, pairs: list[tuple[int, int]], several: int) -> Any:
    """The quadratic form of each row: ``q_ii = sum r_ji²``, ``q_ij = -r_ji r_ij``."""
    other = {(i, j): of_pair[:, p] for p, (i, j) in enumerate(pairs)}
    other |= {(j, i): 1 - r for (i, j), r in list(other.items())}

    def entry(i: int, j: int) -> Any:
        if i != j:
            return -other[j, i] * other[i, j]
        return sum(other[k, i] * other[k, i] for k in range(several) if k != i)

    lines = [xp.stack([entry(i, j) for j in range(several)], axis=1) for i in range(several)]
    return xp.stack(lines, axis=1)


def _round(form: Any, p: Any, several: int) -> Any:
    """One round: each probability in turn takes the value that is best for it."""
    moved = xp.sum(form * xp.expand_dims(p, 1), axis=2)
    value = xp.sum(p * moved, axis=1)
    for t in range(several):
        own = form[:, t, t]
        change = (value - moved[:, t]) / own
        scale = 1 + change
        value = (value + change * (change * own + 2 * moved[:, t])) / (scale * scale)
        unit = np.eye(several, dtype=np.float32)[t]
        across = xp.expand_dims(change, 1)
        moved = (moved + across * form[:, t, :]) / xp.expand_dims(scale, 1)
        p = (p + across * unit) / xp.expand_dims(scale, 1)
    return p
