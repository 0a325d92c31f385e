"""Values that cross from one scope into another: captured as they are at that moment."""

from __future__ import annotations

import numpy as np

import dlvm

X = np.random.default_rng(0).normal(size=(4, 3))
GAIN = np.ones(3) * 2


def numerical(f, x, h=1e-6):
    g = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        e = np.zeros_like(x)
        e[i] = h
        g[i] = (f(x + e) - f(x - e)) / (2 * h)
    return g


def same(f, *args):
    staged, plain = dlvm.function(f)(*args), f(*args)
    for a, b in zip(dlvm.tree.leaves(staged), dlvm.tree.leaves(plain), strict=True):
        assert np.allclose(a, b)


def test_a_region_sees_a_view_as_it_is_when_the_region_is_written():
    def f(x):
        w = x.copy()
        v = w[1:]
        before = dlvm.cond(x.sum() > -99, lambda: v.sum() + w[0, 0], lambda: v[0, 0] * 1.0)
        w[1] = 5
        after = dlvm.cond(x.sum() > -99, lambda: v.sum() + w[0, 0], lambda: v[0, 0] * 1.0)
        return before, after, v

    same(f, X)


def test_a_function_is_written_again_when_what_it_closes_over_has_changed():
    def f(x):
        k = 2.0

        @dlvm.function
        def scaled(y):
            return y * k

        first = scaled(x)
        k = 3.0
        return first, scaled(x)

    same(f, X)

    @dlvm.function
    def g(x):
        shift = dlvm.zeros(3)
        moved = dlvm.vmap(lambda row: row + shift)
        first = moved(x)
        shift[0] = 9.0
        return first, moved(x)

    first, second = g(X)
    assert np.array_equal(first, X)
    assert np.array_equal(second, X + np.array([9, 0, 0]))


def test_staged_functions_in_loops_read_captured_arrays():
    @dlvm.function
    def cell(c, row):
        return dlvm.tanh(c + row * GAIN).sum()

    same(lambda x: dlvm.scan(lambda c, row: (cell(c, row), c), 0.0, x), X)


def test_symbols_that_no_parameter_binds_reach_the_functions_that_use_them():
    @dlvm.function(dynamic={"x": "B,3"})
    def f(x):
        n = x.shape[0]
        slope = dlvm.grad(lambda s: (dlvm.zeros(n) + s).sum() * 2)(1.5)
        rows = dlvm.vmap(lambda t: (dlvm.ones(n) * t).sum())(dlvm.arange(3) * 1.0)
        return slope, rows

    assert f.trace(X).verify()
    for n in (0, 1, 4):
        slope, rows = f(X[:n])
        assert slope == 2 * n
        assert np.array_equal(rows, n * np.arange(3))


def test_gradients_go_through_assignment():
    def loss(p):
        y = p * 1
        y[0] *= 2
        y[1:, 1] += p[0, 0]
        y.T[2] = y[:, 0] * 3
        return (y * y).sum()

    assert np.allclose(dlvm.grad(loss)(X), numerical(loss, X), rtol=1e-5, atol=1e-6)


def test_gradients_of_calls_of_staged_functions():
    @dlvm.function
    def layer(p, h):
        return dlvm.tanh(h @ p)

    def plain(p):
        return np.tanh(np.tanh(X @ p) @ p).sum()

    g = dlvm.grad(lambda p: layer(p, layer(p, X)).sum())(np.eye(3))
    assert np.allclose(g, numerical(plain, np.eye(3)), atol=1e-6)


def test_a_while_in_a_scan_under_a_gradient():
    def f(x):
        def step(c, row):
            _, out = dlvm.while_loop(
                lambda s: s[0] < 3, lambda s: (s[0] + 1, dlvm.tanh(s[1] + row)), (0, c)
            )
            return out, None

        return dlvm.scan(step, x[0], x)[0].sum()

    def plain(x):
        c = x[0]
        for row in x:
            for _ in range(3):
                c = np.tanh(c + row)
        return c.sum()

    assert np.allclose(dlvm.grad(f)(X), numerical(plain, X), atol=1e-6)


def test_checkpoint_around_a_scan_with_captured_values():
    def f(a, keep):
        body = lambda a: dlvm.scan(lambda c, row: (dlvm.tanh(c + row), c), a, X)[1]  # noqa: E731
        return (body(a) if keep else dlvm.checkpoint(body)(a)).sum()

    plain, again = (dlvm.grad(lambda a, k=k: f(a, k))(X[0]) for k in (True, False))
    assert np.allclose(plain, again)
