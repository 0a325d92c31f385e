"""A training step of a two-layer classifier and of a recurrent network, whole."""

from __future__ import annotations

import numpy as np

import dlvm


@dlvm.function
def loss(params, x, y):
    h = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(h @ params["w2"] + params["b2"], y).mean()


def parameters(seed=0):
    rng = np.random.default_rng(seed)
    shapes = {"w1": (5, 7), "b1": (7,), "w2": (7, 3), "b2": (3,)}
    return {k: rng.normal(size=s).astype(np.float32) * 0.5 for k, s in shapes.items()}


def batch(n, seed=1):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 5)).astype(np.float32), rng.integers(0, 3, n)


def by_hand(params, x, y):
    p = {k: v.astype(np.float64) for k, v in params.items()}
    h = np.tanh(x @ p["w1"] + p["b1"])
    z = h @ p["w2"] + p["b2"]
    return np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(y)), y])


def test_the_loss_is_what_numpy_gives():
    params, (x, y) = parameters(), batch(17)
    assert np.allclose(loss(params, x, y), by_hand(params, x, y), rtol=1e-5)


def test_the_gradient_agrees_with_finite_differences():
    params, (x, y) = parameters(), batch(17)
    value, grads = dlvm.value_and_grad(loss)(params, x, y)
    assert set(grads) == set(params)
    for name, g in grads.items():
        assert g.dtype == np.float32
        assert g.shape == params[name].shape
        direction = np.random.default_rng(5).normal(size=g.shape)
        up, down = ({**params, name: params[name] + s * 1e-4 * direction} for s in (1, -1))
        slope = (by_hand(up, x, y) - by_hand(down, x, y)) / 2e-4
        assert abs(slope) > 1e-3
        assert np.allclose((g * direction).sum(), slope, rtol=1e-3)
    assert np.allclose(value, by_hand(params, x, y), rtol=1e-5)


def test_a_step_with_an_open_batch_size_and_donated_parameters_trains():
    @dlvm.function(donate=("params",), dynamic={"x": "B,5", "y": "B"})
    def step(params, x, y):
        value, g = dlvm.value_and_grad(loss)(params, x, y)
        return dlvm.tree.map(lambda p, d: p - 0.5 * d, params, g), value

    params, (x, y) = parameters(), batch(17)
    start = by_hand(params, x, y)
    for _ in range(20):
        before = {k: p.ctypes.data for k, p in params.items()}
        params, value = step(params, x, y)
        assert all(params[k].ctypes.data == before[k] for k in params)
    assert value < 0.8 * start
    for n in (1, 5):
        params, value = step(params, *batch(n))
        assert np.isfinite(value)
    assert len(step.explain().compiles) == 1


def test_an_empty_batch_runs():
    @dlvm.function(dynamic={"x": "B,5", "y": "B"})
    def total(params, x, y):
        return dlvm.grad(lambda p: dlvm.nn.cross_entropy(x @ p["w1"], y).sum())(params)

    params = parameters()
    grads = total(params, *batch(0))
    assert not grads["w1"].any()
    assert not grads["b2"].any()


def test_a_recurrent_network_by_scan_with_captured_weights():
    rng = np.random.default_rng(3)
    w = rng.normal(size=(4, 4)).astype(np.float64) * 0.5
    u = rng.normal(size=(2, 4)).astype(np.float64)
    xs = rng.normal(size=(6, 2))

    @dlvm.function
    def rnn(h, xs):
        def step(h, x):
            h = dlvm.tanh(h @ w + x @ u)
            return h, h.sum()

        return dlvm.scan(step, h, xs)

    def plain(h, xs):
        sums = []
        for x in xs:
            h = np.tanh(h @ w + x @ u)
            sums.append(h.sum())
        return h, np.array(sums)

    h0 = np.zeros(4)
    for found, expected in zip(rnn(h0, xs), plain(h0, xs), strict=True):
        assert np.allclose(found, expected)
    assert [p.name for p in rnn.trace(h0, xs).main.params] == [
        "h",
        "xs",
        "captured_w",
        "captured_u",
    ]

    g = dlvm.grad(lambda h, xs: rnn(h, xs)[1].sum(), wrt="xs")(h0, xs)
    direction = rng.normal(size=xs.shape)
    slope = plain(h0, xs + 1e-5 * direction)[1].sum() - plain(h0, xs - 1e-5 * direction)[1].sum()
    assert np.allclose((g * direction).sum(), slope / 2e-5, rtol=1e-6)
