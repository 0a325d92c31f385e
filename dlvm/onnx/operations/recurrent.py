"""Recurrent networks: RNN, GRU and LSTM in one and both directions, as scans over time.

A step of padding keeps the state, and its output is 0: a sequence that is read backwards starts
with its padding. Weights are (directions, gates * H, in), as the file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm.dsl.flow.loops import scan
from dlvm.dsl.words.namespace import xp
from dlvm.nn import softplus, softsign
from dlvm.onnx.graphs import concrete
from dlvm.onnx.table import Call, operation

from .operands import kind, shape

State = tuple[Any, ...]
Step = Callable[[Any, State], State]
"""From the input's share of all gates and the state: the next state, the output in front."""
Activation = Callable[[Any, float, float], Any]
ACTIVATIONS: dict[str, tuple[Activation, float, float]] = {
    "sigmoid": (lambda x, a, b: xp.sigmoid(x), 0, 0),
    "tanh": (lambda x, a, b: xp.tanh(x), 0, 0),
    "relu": (lambda x, a, b: xp.maximum(x, 0), 0, 0),
    "softsign": (lambda x, a, b: softsign(x), 0, 0),
    "softplus": (lambda x, a, b: softplus(x), 0, 0),
    "affine": (lambda x, a, b: a * x + b, 1, 0),
    "leakyrelu": (lambda x, a, b: xp.where(x < 0, a * x, x), 0.01, 0),
    "thresholdedrelu": (lambda x, a, b: xp.where(x > a, x, xp.zeros_like(x)), 1, 0),
    "scaledtanh": (lambda x, a, b: a * xp.tanh(b * x), 1, 1),
    "hardsigmoid": (lambda x, a, b: xp.clip(a * x + b, 0, 1), 0.2, 0.5),
    "elu": (lambda x, a, b: xp.where(x < 0, a * xp.expm1(xp.minimum(x, 0)), x), 1, 0),
}
"""Activations with the values of alpha and beta that they have by default."""
WITH_ALPHA = ("affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu")
WITH_BETA = ("affine", "scaledtanh", "hardsigmoid")


def _activations(call: Call, defaults: Sequence[str], direction: int) -> list[Any]:
    """The activations of one direction; alphas and betas are taken in the order of their use."""
    given: Sequence[str] = call.get("activations") or [*defaults, *defaults]
    names = [n.lower() for n in given]
    alphas = iter(call.get("activation_alpha") or ())
    betas = iter(call.get("activation_beta") or ())
    activations: list[Any] = []
    for name in names:
        if name not in ACTIVATIONS:
            raise call.unsupported(
                f"it has the activation {name}", f"use one of {', '.join(ACTIVATIONS)}"
            )
        fn, a, b = ACTIVATIONS[name]
        a = next(alphas, a) if name in WITH_ALPHA else a
        b = next(betas, b) if name in WITH_BETA else b
        activations.append(_clipped(fn, a, b, call.get("clip")))
    count = len(defaults)
    return activations[direction * count : (direction + 1) * count] or activations[:count]


def _clipped(fn: Activation, a: float, b: float, edge: float | None) -> Callable[[Any], Any]:
    return lambda x: fn(x if not edge else xp.clip(x, -edge, edge), a, b)


def _run(
    call: Call, x: Any, lengths: Any, starts: Sequence[Any], part: Callable[[int], tuple[Any, Step]]
) -> Any:
    """All outputs and the last states of every direction.

    ``part`` gives the input's share of the gates over all steps, and the step, of a direction.
    """
    batch_first = bool(call.get("layout", 0))
    way = call.get("direction", "forward")
    runs = [_direction(d, way, lengths, starts, part) for d in range(1 + (way == "bidirectional"))]
    outputs = xp.stack([rows for rows, _ in runs], axis=1)
    finals = [xp.stack(states) for states in zip(*(last for _, last in runs), strict=True)]
    if batch_first:
        outputs = xp.permute_dims(outputs, (2, 0, 1, 3))
        finals = [xp.permute_dims(s, (1, 0, 2)) for s in finals]
    return outputs, *finals


def _direction(
    d: int, way: str, lengths: Any, starts: Sequence[Any], part: Callable[[int], tuple[Any, Step]]
) -> tuple[Any, State]:
    shares, step = part(d)
    back = way == "reverse" or d == 1
    times = xp.arange(shape(shares)[0])
    if back:
        shares, times = xp.flip(shares, axis=0), xp.flip(times, axis=0)

    def body(state: State, given: Any) -> tuple[State, Any]:
        share, time = given
        found = step(share, state)
        if lengths is None:
            return found, found[0]
        inside = xp.expand_dims(time < lengths, 1)
        kept = tuple(xp.where(inside, a, b) for a, b in zip(found, state, strict=True))
        return kept, xp.where(inside, found[0], xp.zeros_like(found[0]))

    last, rows = scan(body, tuple(concrete(s[d]) for s in starts), (shares, times))
    return (xp.flip(rows, axis=0) if back else rows), last


def _prepared(call: Call, x: Any, r: Any, *states: Any) -> tuple[Any, list[Any]]:
    """The sequences (time, batch, in), and the first states, which are zero by default."""
    if call.get("layout", 0):
        x = xp.swapaxes(x, 0, 1)
        states = tuple(None if s is None else xp.swapaxes(s, 0, 1) for s in states)
    zeros = xp.zeros((shape(r)[0], shape(x)[1], shape(r)[2]), dtype=kind(x))
    return x, [zeros if s is None else s for s in states]


def _weights(w: Any, r: Any, b: Any, d: int, x: Any) -> tuple[Any, Any, Any]:
    """The input's share of the gates without biases, the recurrent weights, both biases."""
    gates = shape(w)[1]
    zeros = np.zeros(2 * gates, kind(x)) if b is None else b[d]
    return (
        xp.matmul(x, xp.matrix_transpose(w[d])) + zeros[:gates],
        xp.matrix_transpose(r[d]),
        zeros[gates:],
    )


def _gates(x: Any, count: int) -> list[Any]:
    size = shape(x)[-1] // count
    return [x[..., k * size : (k + 1) * size] for k in range(count)]


@operation("RNN")
def _rnn(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None
) -> Any:
    x, starts = _prepared(call, x, r, h)

    def part(d: int) -> tuple[Any, Step]:
        shares, inner, bias = _weights(w, r, b, d, x)
        (f,) = _activations(call, ["Tanh"], d)
        return shares, lambda share, state: (f(share + xp.matmul(state[0], inner) + bias),)

    return _run(call, x, lengths, starts, part)


@operation("GRU")
def _gru(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None
) -> Any:
    x, starts = _prepared(call, x, r, h)
    early = bool(call.get("linear_before_reset", 0))

    def part(d: int) -> tuple[Any, Step]:
        shares, inner, bias = _weights(w, r, b, d, x)
        f, g = _activations(call, ["Sigmoid", "Tanh"], d)
        size = shape(r)[2]
        inner_h, bias_h = inner[:, 2 * size :], bias[2 * size :]

        def step(share: Any, state: State) -> State:
            (before,) = state
            xz, xr, xh = _gates(share, 3)
            hz, hr = _gates(xp.matmul(before, inner[:, : 2 * size]) + bias[: 2 * size], 2)
            z, reset = f(xz + hz), f(xr + hr)
            if early:
                new = g(xh + reset * (xp.matmul(before, inner_h) + bias_h))
            else:
                new = g(xh + xp.matmul(reset * before, inner_h) + bias_h)
            return ((1 - z) * new + z * before,)

        return shares, step

    return _run(call, x, lengths, starts, part)


@operation("LSTM")
def _lstm(
    call: Call,
    x: Any,
    w: Any,
    r: Any,
    b: Any = None,
    lengths: Any = None,
    h: Any = None,
    c: Any = None,
    peepholes: Any = None,
) -> Any:
    x, starts = _prepared(call, x, r, h, c)

    def part(d: int) -> tuple[Any, Step]:
        shares, inner, bias = _weights(w, r, b, d, x)
        f, g, out = _activations(call, ["Sigmoid", "Tanh", "Tanh"], d)
        size = shape(r)[2]
        p = np.zeros(3 * size, kind(x)) if peepholes is None else peepholes[d]
        pi, po, pf = _gates(p, 3)

        def step(share: Any, state: State) -> State:
            before, cell = state
            xi, xo, xf, xc = _gates(share + xp.matmul(before, inner) + bias, 4)
            i = f(xi + pi * cell)
            forget = 1 - i if call.get("input_forget", 0) else f(xf + pf * cell)
            new = forget * cell + i * g(xc)
            return f(xo + po * new) * out(new), new

        return shares, step

    return _run(call, x, lengths, starts, part)
