"""Recurrent layers of several layers, of two directions and of sequences of several lengths."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import ArgumentError, ShapeError

KEY = dlvm.random.key(6)
XS = np.random.default_rng(3).normal(size=(3, 5, 2))
LENGTHS = np.array([5, 2, 0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def rnn_step(x, h, w, u, b, c):
    return np.tanh(x @ w + b + h @ u + c)


def gru_step(x, h, w, u, b, c):
    xr, xz, xn = np.split(x @ w + b, 3)
    hr, hz, hn = np.split(h @ u + c, 3)
    z = sigmoid(xz + hz)
    return (1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h


def lstm_step(x, state, w, u, b, c):
    i, f, g, o = np.split(x @ w + b + state[0] @ u + c, 4)
    cell = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def one_way(step, xs, start, weights, reverse):
    """All h of one sequence, and its last state."""
    state, found = start, [None] * len(xs)
    for t in reversed(range(len(xs))) if reverse else range(len(xs)):
        state = step(xs[t], state, *weights)
        found[t] = state[0] if isinstance(state, tuple) else state
    hidden = (start[0] if isinstance(start, tuple) else start).shape
    return np.array(found).reshape(len(xs), *hidden), state


def by_loops(step, layer, xs, hidden):
    """All h and the last states of one sequence, layer by layer."""
    last, ways = [], 1 + layer.bidirectional
    parts = list(zip(*layer.weights, strict=True))
    zero = np.zeros(hidden)
    start = (zero, zero) if step is lstm_step else zero
    for first in range(0, len(parts), ways):
        pairs = [one_way(step, xs, start, parts[first + w], w == 1) for w in range(ways)]
        xs = np.concatenate([h for h, _ in pairs], -1)
        last += [end for _, end in pairs]
    return xs, last


@pytest.mark.parametrize("layers, both", [(2, False), (1, True), (2, True)])
@pytest.mark.parametrize(
    "cls, step", [(nn.RNN, rnn_step), (nn.GRU, gru_step), (nn.LSTM, lstm_step)]
)
def test_layers_and_directions_are_loops_over_what_counts(cls, step, layers, both):
    layer = cls(KEY, 2, 3, layers, bidirectional=both, dtype="f64")
    run = dlvm.function(lambda layer, xs, n: layer(xs, lengths=n))
    for ys, last in (run(layer, XS, LENGTHS), layer(XS, lengths=LENGTHS)):
        for k, n in enumerate(LENGTHS):
            expected, states = by_loops(step, layer, XS[k, :n], 3)
            np.testing.assert_allclose(ys[k, :n], expected, rtol=1e-11, atol=1e-13)
            assert not ys[k, n:].any()
            ends = [np.array(s)[..., k, :] for s in last]
            np.testing.assert_allclose(ends, np.array(states), rtol=1e-11, atol=1e-13)


def test_lengths_that_are_full_change_nothing_and_padding_has_no_slope():
    layer = nn.GRU(KEY, 2, 3, dtype="f64")
    plain, full = layer(XS), layer(XS, lengths=np.full(3, 5))
    np.testing.assert_allclose(full[0], plain[0], rtol=1e-12)
    slope = dlvm.grad(lambda xs: (layer(xs, lengths=LENGTHS)[0] ** 2).sum())(XS)
    assert slope[0].all() and slope[1, :2].all() and not slope[1, 2:].any() and not slope[2].any()


def test_states_go_on_where_they_ended():
    layer = nn.LSTM(KEY, 2, 3, 2, dtype="f64")
    whole, end = layer(XS)
    first, state = layer(XS[:, :2])
    second, last = layer(XS[:, 2:], state)
    np.testing.assert_allclose(np.concatenate([first, second], 1), whole, rtol=1e-12)
    np.testing.assert_allclose(last, end, rtol=1e-12)


def test_sequences_without_a_batch_and_batches_without_a_sequence():
    layer = nn.GRU(KEY, 2, 3, 2, bidirectional=True)
    assert layer(XS[0].astype("f4"))[0].shape == (5, 6)
    assert layer(XS[:0].astype("f4"), lengths=LENGTHS[:0])[0].shape == (0, 5, 6)
    halved = dlvm.tree.map(lambda p: p.astype("f2"), layer)
    assert halved(XS.astype("f2"))[0].dtype == np.float16
    found = dlvm.vmap(lambda xs, n: layer(xs, lengths=n)[0])(XS, LENGTHS)
    np.testing.assert_allclose(found, layer(XS, lengths=LENGTHS)[0], rtol=1e-6, atol=1e-7)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="one for each sequence"):
        nn.GRU(KEY, 2, 3)(XS, lengths=LENGTHS[:2])
    with pytest.raises(ArgumentError, match="num_layers of 1 or more"):
        nn.GRU(KEY, 2, 3, False)
    with pytest.raises(ArgumentError, match="a tuple of 2 states"):
        nn.GRU(KEY, 2, 3, 2)(XS, np.zeros((3, 3)))
