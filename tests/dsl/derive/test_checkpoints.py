"""Checkpoints: same numbers, less memory, and what their policies keep."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

RNG = np.random.default_rng(0)
N = 32
W = RNG.normal(size=(6, N, N)) / np.sqrt(N)
X = RNG.normal(size=(N, N))
POLICIES = ["nothing", "everything", "products", dlvm.save_names("hidden")]


def layer(x, w):
    h = dlvm.sin(dlvm.checkpoint_name(x @ w, "hidden"))
    return dlvm.tanh(dlvm.exp(h) @ w)


def network(policy):
    block = layer if policy is None else dlvm.checkpoint(layer, policy=policy)

    def loss(x, ws):
        for i in range(len(W)):
            x = block(x, ws[i])
        return (x * x).sum()

    return loss


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_gradients_to_second_order(policy):
    plain, again = (lambda x, ws, p=p: network(p)(x, ws) for p in (None, policy))
    for f, g in zip(dlvm.grad(plain, (0, 1))(X, W), dlvm.grad(again, (0, 1))(X, W), strict=True):
        assert np.allclose(f, g, rtol=1e-10, atol=1e-12)
    push = [dlvm.jvp(dlvm.grad(f), (X, W), (X, W))[1] for f in (plain, again)]
    assert np.allclose(*push, rtol=1e-9, atol=1e-10)
    rows = [dlvm.vmap(dlvm.grad(f), (0, None))(np.stack([X, 2 * X]), W) for f in (plain, again)]
    assert np.allclose(*rows, rtol=1e-9, atol=1e-10)


def report(policy):
    return dlvm.grad(network(policy), (0, 1)).compile(X, W).report


def test_policies_trade_memory_for_work():
    plain, nothing = report(None), report("nothing")
    everything, products = report("everything"), report("products")
    named = report(dlvm.save_names("hidden"))
    assert nothing.peak_bytes < 0.75 * plain.peak_bytes
    assert everything.peak_bytes <= plain.peak_bytes
    assert nothing.peak_bytes < named.peak_bytes < plain.peak_bytes
    assert nothing.peak_bytes < products.peak_bytes
    once = 2 * N**3
    assert nothing.flops - plain.flops > 10 * once  # two products of each layer again, but one
    assert everything.flops == plain.flops
    assert products.flops - plain.flops < once  # no product again
    assert 5 * once < named.flops - plain.flops < 9 * once  # one product of each layer again


def test_a_name_is_nothing_else():
    assert dlvm.checkpoint_name({"x": X}, "a")["x"] is X
    assert np.array_equal(dlvm.function(lambda x: dlvm.checkpoint_name(x, "a"))(X), X)
    assert "named" in dlvm.trace(lambda x: dlvm.checkpoint_name(x, "a"), X).__str__()
    assert "named" not in dlvm.function(lambda x: dlvm.checkpoint_name(x, "a")).compile(X).text(
        "optimized"
    )


def test_what_is_no_policy():
    with pytest.raises(dlvm.UserError, match=r"policy='dots'(.|\n)*'products'"):
        dlvm.checkpoint(layer, policy="dots")
    with pytest.raises(dlvm.UserError, match="can't be a name"):
        dlvm.checkpoint_name(X, "a,b")


def test_products_in_functions_that_a_checkpoint_calls_are_kept():
    inner = dlvm.function(lambda x, w: x @ w)

    def outer(x, ws):
        block = dlvm.checkpoint(lambda x, w: dlvm.exp(-(inner(x, w) ** 2)), policy="products")
        for i in range(len(W)):
            x = block(x, ws[i])
        return x.sum()

    kept = dlvm.grad(outer, (0, 1)).compile(X, W).report.flops

    def plain(x, ws):
        for i in range(len(W)):
            x = dlvm.exp(-((x @ ws[i]) ** 2))
        return x.sum()

    assert kept - dlvm.grad(plain, (0, 1)).compile(X, W).report.flops < N**3


def counted(x, ws):
    def step(c, w):
        return dlvm.cond(c[0, 0] > 9, lambda c: c * 1.5, lambda c: layer(c, w), c), None

    return dlvm.scan(step, x, ws)[0]


def doubly(x, ws):
    return dlvm.scan(lambda c, w: (counted(c, dlvm.stack([w, w * 0.5])), c[0]), x, ws)[0]


def either(x, ws):
    def halved(x):
        return dlvm.switch(0, [lambda x: layer(x, ws[0]), lambda x: dlvm.exp(x)], x) * 0.5

    return dlvm.cond(x.sum() < 0, lambda x: layer(layer(x, ws[0]), ws[-1]), halved, x)


def unbounded(x, ws):
    def more(s):
        return s[0] + 1, layer(s[1], ws[0])

    return dlvm.while_loop(lambda s: s[0] < 2, more, (0, counted(x, ws)))[1]


def squared(f, policy):
    f = f if policy is None else dlvm.checkpoint(f, policy=policy)
    return lambda x, ws: (f(x, ws) ** 2).sum() * 0.5


def interpreted(f, *args):
    module = dlvm.trace(f, *args).expanded()
    return module.run(module.main.name, *args)


@pytest.mark.parametrize("policy", POLICIES[2:])
@pytest.mark.parametrize("f", [counted, doubly, either, unbounded], ids=lambda f: f.__name__)
def test_policies_in_loops_and_branches_keep_every_derivative(f, policy):
    x, ws = X[:3, :3] * 0.3, W[:2, :3, :3]
    plain, again = squared(f, None), squared(f, policy)

    def every(loss, x, ws):
        first = dlvm.grad(loss, (0, 1))
        lanes = dlvm.vmap(first, (0, None))(dlvm.stack([x, -x]), ws)
        return first(x, ws), dlvm.jvp(first, (x, ws), (x, ws))[1], lanes

    found = interpreted(lambda x, ws: every(again, x, ws), x, ws)
    for a, b in zip(found, interpreted(lambda x, ws: every(plain, x, ws), x, ws), strict=True):
        assert np.allclose(a, b, rtol=1e-9, atol=1e-12)
    h = 1e-6
    slope = (plain(x + h * x, ws) - plain(x - h * x, ws)) / (2 * h)
    assert np.allclose((found[0] * x).sum(), slope, rtol=1e-6)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_policies_in_loops_of_open_length(steps):
    found = [
        dlvm.function(
            lambda x, ws, p=policy: dlvm.grad(squared(counted, p), (0, 1))(x, ws),
            dynamic={"ws": "T,3,3"},
        )(X[:3, :3], W[:steps, :3, :3])
        for policy in (None, "products")
    ]
    for a, b in zip(*found, strict=True):
        assert np.allclose(a, b, rtol=1e-10, atol=1e-13)


def test_what_is_saved_of_a_loop_is_kept_for_each_trip_and_the_rest_computed_again():
    def stages(x, ws, policy):
        for _ in range(4):
            x = (counted if policy is None else dlvm.checkpoint(counted, policy=policy))(x, ws)
        return (x * x).sum()

    def cost(policy):
        return dlvm.grad(lambda x, ws: stages(x, ws, policy), (0, 1)).compile(X, W).report

    plain, nothing, products = cost(None), cost("nothing"), cost("products")
    named = cost(dlvm.save_names("hidden"))
    once = 2 * N**3 * len(W)  # one product in each trip of a loop, of which there are four
    assert products.flops - plain.flops < once
    assert nothing.flops - plain.flops > 6 * once
    assert 2 * once < named.flops - plain.flops < 5 * once
    assert nothing.peak_bytes < named.peak_bytes < products.peak_bytes < plain.peak_bytes


@pytest.mark.parametrize("depth", [1, 4])
def test_chains_of_elements_need_no_more_memory_for_a_checkpoint(depth):
    def chain(f):
        def loss(x):
            for _ in range(depth):
                x = f(x)
            return x.sum()

        return dlvm.grad(loss)

    def elements(x):
        return dlvm.tanh(x) * dlvm.exp(x)

    x = RNG.uniform(-0.5, 0.2, 20000)
    plain, again = chain(elements), chain(dlvm.checkpoint(elements))
    assert again.compile(x).report.peak_bytes == plain.compile(x).report.peak_bytes
    assert again.compile(x).report.flops == plain.compile(x).report.flops
    assert np.array_equal(again(x), plain(x))


def test_chains_between_products_are_still_computed_again():
    def loss(f):
        def inside(x, ws):
            for i in range(len(W)):
                x = f(x @ ws[i])
            return (x * x).sum()

        return dlvm.grad(inside, (0, 1))

    def elements(x):
        return dlvm.tanh(dlvm.exp(dlvm.sin(x)))

    plain = loss(elements).compile(X, W).report.peak_bytes
    assert loss(dlvm.checkpoint(elements)).compile(X, W).report.peak_bytes < 0.8 * plain


# -- loops -----------------------------------------------------------------------------------------


def step(carry, a):
    return dlvm.tanh(carry * a[0] + dlvm.sin(carry)), carry.sum() * a


def summed(scan):
    def loss(x, xs):
        last, stacked = scan(step, x, xs)
        return (last * last).sum() + stacked.sum()

    return loss


@pytest.mark.parametrize("steps", [0, 1, 7, 16, 23])
def test_a_scan_in_stretches_is_the_scan(steps):
    x, xs = RNG.normal(size=5), RNG.normal(size=(steps, 2))
    for scan in (dlvm.checkpoint_scan, lambda *a: dlvm.checkpoint_scan(*a, every=4)):
        for again, plain in zip(
            dlvm.value_and_grad(summed(scan), (0, 1))(x, xs)[1],
            dlvm.value_and_grad(summed(dlvm.scan), (0, 1))(x, xs)[1],
            strict=True,
        ):
            assert np.allclose(again, plain, rtol=1e-12)
        last, stacked = dlvm.function(lambda x, xs, scan=scan: scan(step, x, xs))(x, xs)
        expected = dlvm.scan(step, x, xs)
        assert np.allclose(last, expected[0]) and np.allclose(stacked, expected[1])


def test_a_scan_in_stretches_of_open_length():
    gradient = dlvm.function(
        lambda x, xs: dlvm.grad(summed(dlvm.checkpoint_scan))(x, xs), dynamic={"xs": "T,2"}
    )
    for steps in (0, 31, 32, 70):
        x, xs = RNG.normal(size=5), RNG.normal(size=(steps, 2)) * 0.3
        assert np.allclose(gradient(x, xs), dlvm.grad(summed(dlvm.scan))(x, xs))
    assert len(gradient.explain().compiles) == 1


def test_the_memory_of_a_gradient_grows_with_the_root_of_the_steps():
    def peak(scan, steps):
        def loss(x):
            return (scan(lambda c, _: (dlvm.tanh(dlvm.sin(c)), None), x, None, steps)[0] ** 2).sum()

        return dlvm.grad(loss).compile(np.ones(256)).report.peak_bytes

    plain = [peak(dlvm.scan, steps) for steps in (64, 1024)]
    roots = [peak(dlvm.checkpoint_scan, steps) for steps in (64, 1024)]
    assert plain[1] > 15 * plain[0]
    assert roots[1] < 4.5 * roots[0]
    assert roots[1] < plain[1] / 8
