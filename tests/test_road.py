"""The whole road, one of each hard thing: compiled for this machine, equal to the interpreter.

Programs are written as a user writes them. Each runs as machine code and as a module in the
interpreter; gradients are checked against differences of the loss in f64.
"""

import numpy as np
import pytest

import dlvm

from .road import RNG, agree, differences, interpreted, normal

# -- a training step ---------------------------------------------------------------------------


def loss(params, x, y):
    hidden = dlvm.tanh(x @ params["w1"] + params["b1"])
    return dlvm.nn.cross_entropy(hidden @ params["w2"] + params["b2"], y).mean()


def make_step():
    @dlvm.function(donate=("params",), dynamic={"x": "B,12", "y": "B"})
    def step(params, x, y):
        value, gradient = dlvm.value_and_grad(loss)(params, x, y)
        return dlvm.tree.map(lambda p, d: p - 0.1 * d, params, gradient), value

    return step


def parameters():
    return {"w1": normal(12, 9), "b1": normal(9), "w2": normal(9, 5), "b2": normal(5)}


def test_a_training_step_is_compiled_once_for_every_batch():
    step, params = make_step(), parameters()
    module = dlvm.trace(step, params, dlvm.spec("f32[B,12]"), dlvm.spec("i32[B]"))
    for batch in (0, 1, 17):
        x, y = normal(batch, 12), RNG.integers(0, 5, batch).astype(np.int32)
        leaves = [np.array(p) for p in dlvm.tree.leaves(params)]
        expected = module.run("step", *leaves, x, y)
        given = [p.ctypes.data for p in dlvm.tree.leaves(params)]
        params, value = step(params, x, y)
        found = [*dlvm.tree.leaves(params), value]
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        assert [p.ctypes.data for p in dlvm.tree.leaves(params)] == given
        del found, a, b  # or others than the caller have the parameters
        if batch == 0:
            params = parameters()  # the mean over nothing is NaN, and so are its gradients
    assert str(step.explain()).count("compile 1") <= 1
    assert len(step.explain().compiles) == 1


def test_the_loss_falls():
    step, params = make_step(), parameters()
    x, y = normal(40, 12), RNG.integers(0, 5, 40).astype(np.int32)
    losses = []
    for _ in range(60):
        params, value = step(params, x, y)
        losses.append(float(value))
    assert losses[-1] < 0.7 * losses[0]


# -- loops and branches ------------------------------------------------------------------------


def rnn(w, u, h, xs):
    def step(h, x):
        h = dlvm.tanh(h @ w + x @ u)
        return h, h.sum()

    h, sums = dlvm.scan(step, h, xs)
    return (h * h).sum() + sums.sum()


@pytest.mark.parametrize("length", [0, 1, 6])
def test_an_rnn_and_its_gradient(length):
    args = [normal(*s, dtype=np.float64) for s in ((4, 4), (3, 4), (4,), (length, 3))]
    agree(dlvm.function(rnn), *args)
    gradients = agree(dlvm.function(dlvm.grad(rnn, wrt=(0, 1, 2, 3))), *args)
    for i, found in enumerate(gradients):
        rest = list(args)

        def along(a, i=i, rest=rest):
            return interpreted(rnn, *rest[:i], a, *rest[i + 1 :])[0]

        np.testing.assert_allclose(found, differences(along, args[i]), rtol=1e-6, atol=1e-7)


def test_the_tangent_of_a_scan_keeps_no_tape():
    args = [normal(*s, dtype=np.float64) for s in ((4, 4), (3, 4), (4,), (5, 3))]
    directions = [normal(*a.shape, dtype=np.float64) for a in args]

    @dlvm.function
    def tangent(args, directions):
        return dlvm.jvp(rnn, tuple(args), tuple(directions))

    _, slope = agree(tangent, args, directions)
    gradients = dlvm.grad(rnn, wrt=(0, 1, 2, 3))(*args)
    expected = sum(float(np.vdot(g, d)) for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(slope, expected, rtol=1e-10)
    text = str(dlvm.trace(tangent, args, directions).expanded())
    assert "push" not in text and "tape" not in text


def newton(x, a):
    def unfinished(state):
        return state[0] < a

    def step(state):
        i, r = state
        return i + 1, 0.5 * (r + x / r)

    return dlvm.while_loop(unfinished, step, (0, x))[1]


@pytest.mark.parametrize("trips", [0, 1, 7, 1000])
def test_a_while_loop_backwards(trips):
    @dlvm.function
    def gradient(x, a):
        return dlvm.grad(newton)(x, a)

    x = np.float64(2.7)
    found = agree(gradient, x, np.int64(trips), rtol=1e-9)
    exact = 1.0 if trips == 0 else 0.5 * 2.7**-0.5 if trips > 5 else None
    if exact is None:
        exact = differences(lambda v: interpreted(newton, v, np.int64(trips))[0], np.array(x))
    np.testing.assert_allclose(found, exact, rtol=1e-6)


def test_a_long_loop_fills_chunks_of_tape():
    def powers(x, n):
        def step(state):
            i, y = state
            return i + 1, dlvm.tanh(y * x)

        return dlvm.while_loop(lambda s: s[0] < n, step, (0, x))[1].sum()

    x = normal(64, dtype=np.float64) + 1.5  # 512 bytes a trip and more: several chunks
    found = agree(dlvm.function(dlvm.grad(powers)), x, np.int64(1000), rtol=1e-9)
    expected = differences(lambda v: interpreted(powers, v, np.int64(1000))[0], x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("x", [0.7, -0.7])
def test_branches_keep_different_residuals(x):
    def f(x):
        return dlvm.cond(
            x > 0,
            lambda x: dlvm.exp(x) * dlvm.tanh(x * x),
            lambda x: dlvm.log(1 - x) / (2 - x),
            x,
        )

    x = np.float64(x)
    found = agree(dlvm.function(dlvm.value_and_grad(f)), x, rtol=1e-12)
    expected = differences(lambda v: interpreted(f, v)[0], np.array(x))
    np.testing.assert_allclose(found[1], expected, rtol=1e-6)
    second = agree(dlvm.function(dlvm.grad(dlvm.grad(f))), x, rtol=1e-10)
    slope = dlvm.grad(f)
    np.testing.assert_allclose(second, differences(slope, np.array(x)), rtol=1e-6)


def test_a_chain_of_calls_costs_no_more_than_five_times_its_primal():
    w = normal(8, 8, dtype=np.float64) / 3

    @dlvm.function
    def layer(x, w):
        return dlvm.tanh(x @ w)

    def chain(x, w):
        for _ in range(50):
            x = layer(x, w)
        return x.sum()

    x = normal(4, 8, dtype=np.float64)
    agree(dlvm.function(dlvm.grad(chain, wrt=(0, 1))), x, w, rtol=1e-9)
    primal = dlvm.function(chain).compile(x, w).report.flops
    gradient = dlvm.function(dlvm.grad(chain, wrt=(0, 1))).compile(x, w).report.flops
    assert 2 <= gradient / primal <= 5


def test_updates_of_one_array_cost_as_much_as_they_write():
    def updated(w, v, where):
        def step(w, iv):
            i, x = iv
            return dlvm.at(w, i).set(w[i] * x), None

        w, _ = dlvm.scan(step, w, (where, v))
        return (w * w).sum()

    gradient = dlvm.function(dlvm.grad(updated, wrt=(0, 1)))
    w, v, where = normal(9, dtype=np.float64), normal(20, dtype=np.float64), np.arange(20) * 7 % 9
    found = agree(gradient, w, v, where, rtol=1e-10)
    expected = differences(lambda a: interpreted(updated, a, v, where)[0], w)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-7)

    def cost(n, steps):
        zeros = np.zeros(n), np.zeros(steps), np.zeros(steps, np.int64)
        report = gradient.compile(*zeros).report
        return report.flops, report.bytes

    # linear in n + T: doubling both doubles, and no term n * T appears
    for small, large in zip(cost(2000, 1000), cost(4000, 2000), strict=True):
        assert small > 3000
        assert large <= 2.1 * small


# -- transformations ---------------------------------------------------------------------------


def test_batching_of_an_element_wise_operation_and_of_a_product():
    xs, w = normal(5, 3), normal(3, 4)
    rows = agree(dlvm.function(dlvm.vmap(dlvm.tanh)), xs)
    np.testing.assert_allclose(rows, np.tanh(xs), rtol=1e-5)
    many = normal(5, 2, 3)
    both = agree(dlvm.function(dlvm.vmap(dlvm.matmul, in_axes=(0, None))), many, w)
    np.testing.assert_allclose(both, many @ w, rtol=1e-5, atol=1e-5)


def deep(x, w, wrapped):
    layer = dlvm.checkpoint(block) if wrapped else block
    for _ in range(4):
        x = layer(x, w)
    return x.sum()


def block(x, w):
    for _ in range(3):
        x = dlvm.tanh(x @ w)
    return x


def test_a_checkpoint_lowers_the_planned_peak():
    x, w = normal(64, 16), normal(16, 16) / 4
    plain = dlvm.function(dlvm.grad(lambda x, w: deep(x, w, False), wrt=1))
    saved = dlvm.function(dlvm.grad(lambda x, w: deep(x, w, True), wrt=1))
    found, expected = (agree(f, x, w, rtol=1e-4, atol=1e-4) for f in (saved, plain))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    before, after = (f.compile(x, w).report for f in (plain, saved))
    assert after.peak_bytes < 0.75 * before.peak_bytes
    assert before.flops < after.flops <= 1.5 * before.flops
