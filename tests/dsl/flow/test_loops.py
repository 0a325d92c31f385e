"""Loops of 0, 1 and many trips: the size of their code, their memory, and their gradients."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dlvm
from dlvm.compile import Options, Road

N = 1000


def scanned(x, i):
    return dlvm.scan(lambda c, k: (c.at[k].set(c[k] * 2 + dlvm.sin(c[k - 1])), None), x, i)[0]


def added(x, i):
    return dlvm.fori_loop(0, i.shape[0], lambda k, c: c.at[i[k]].add(c[i[k] - 1] * c[0]), x)


def assigned(x, i):
    def body(s):
        k, c = s
        c = c.copy()
        c[k] += dlvm.tanh(c[k])
        return k + 1, c

    return dlvm.while_loop(lambda s: s[0] < i.sum(), body, (0, x))[1]


def rows(x, i):
    def body(k, c):
        return c.at[k + 1].set(dlvm.tanh(c[k]))

    return dlvm.fori_loop(0, i.shape[0], body, x.reshape(-1, 10)).ravel()


@pytest.mark.parametrize("f", [scanned, added, assigned, rows])
@pytest.mark.parametrize("derived", [False, True])
def test_a_carry_is_updated_in_place(f, derived):
    """No trip copies the carried array, forward or back."""
    g = dlvm.grad(lambda x, i: f(x, i).sum()) if derived else dlvm.function(f)
    lines = g.compile(np.zeros(N), np.arange(5)).text("loops").splitlines()
    end = lines.index("}")
    copies = [x for x in lines[:end] if x.startswith("    ") and "copy" in x]
    assert not [x for x in copies if "f64[1000]" in x or "f64[100,10]" in x], copies


def unfolded(x, steps):
    def step(c, k):
        return dlvm.tanh(c) * x + k, c.sum()

    return dlvm.scan(step, x, np.arange(steps) * 0.1)[0].sum()


@pytest.mark.parametrize("derived", [False, True])
def test_code_does_not_grow_with_the_number_of_trips(derived):
    def f(x, n):
        return dlvm.grad(lambda x: unfolded(x, n))(x) if derived else unfolded(x, n)

    texts = [
        dlvm.function(lambda x, n=n: f(x, n)).compile(np.ones(4)).text("llvm")
        for n in (10, 1_000_000)
    ]
    few, many = (re.sub(r"\b\d+\b", "#", text) for text in texts)
    assert few == many


@pytest.mark.parametrize("trips", [0, 1, 100_000])
def test_a_while_and_its_gradient_at_any_number_of_trips(trips):
    def f(x, n):
        return dlvm.while_loop(
            lambda s: s[1] < n, lambda s: (s[0] * 0.99999 + 1e-6, s[1] + 1), (x, 0)
        )[0]

    assert np.isclose(dlvm.grad(f)(0.5, trips), 0.99999**trips)


def test_residuals_of_a_hundred_thousand_trips_take_their_own_room_and_no_more():
    @dlvm.function
    def f(x, n):
        return dlvm.while_loop(
            lambda s: s[1] < n, lambda s: (dlvm.sin(s[0]) + 0.1, s[1] + 1), (x, 0)
        )[0]

    def slope(x, n):
        total, product = x, 1.0
        for _ in range(n):
            product *= np.cos(total)
            total = np.sin(total) + 0.1
        return product

    g = dlvm.function(dlvm.grad(f))
    assert np.isclose(g(0.3, 20), slope(0.3, 20))
    road = Road(dlvm.trace(dlvm.grad(f), 0.3, 5), Options())
    executable = road.executable
    executable.run([np.asarray(0.3), np.asarray(100_000)])
    assert 24 * 100_000 <= executable.tape_bytes <= 2 * 48 * 100_000


def test_loops_in_loops_of_many_trips_in_every_order():
    """Scans of whiles, whiles of scans, whiles of whiles, with lanes and second derivatives."""

    def inner(x, n):
        return dlvm.while_loop(lambda s: s[1] < n, lambda s: (dlvm.sin(s[0]), s[1] + 1), (x, 0))[0]

    def scan_of_while(x, n):
        return dlvm.scan(lambda c, k: (inner(c, k), None), x, dlvm.arange(30))[0] + n * 0

    def while_of_scan(x, n):
        def body(s):
            return dlvm.scan(lambda c, _: (dlvm.sin(c), None), s[0], length=7)[0], s[1] + 1

        return dlvm.while_loop(lambda s: s[1] < n, body, (x, 0))[0]

    def while_of_while(x, n):
        return dlvm.while_loop(lambda s: s[1] < n, lambda s: (inner(s[0], s[1]), s[1] + 1), (x, 0))[
            0
        ]

    def slopes(x, count):
        """First and second derivative of ``sin`` applied many times."""
        first, second = 1.0, 0.0
        for _ in range(count):
            first, second = np.cos(x) * first, -np.sin(x) * first**2 + np.cos(x) * second
            x = np.sin(x)
        return first, second

    n = 20
    for f, count in ((scan_of_while, 435), (while_of_scan, 140), (while_of_while, 190)):
        first, second = slopes(0.7, count)
        assert np.isclose(dlvm.grad(f)(0.7, n), first)
        assert np.isclose(dlvm.grad(dlvm.grad(f))(0.7, n), second)
        x, lengths = np.array([0.7, 0.2, 1.1]), np.array([n, 0, 3])
        found = dlvm.vmap(dlvm.grad(f))(x, lengths)
        assert np.allclose(found, [dlvm.grad(f)(a, k) for a, k in zip(x, lengths, strict=True)])


@pytest.mark.parametrize("trips", [0, 1, 100_000])
def test_carries_without_elements(trips):
    def f(x, e, n):
        def body(s):
            return s[0] + s[1].sum() * 2 + 1, s[1] * 3, s[2] + 1

        return dlvm.while_loop(lambda s: s[2] < n, body, (x, e, 0))[:2]

    y, e = dlvm.function(f)(0.0, np.zeros((0, 3)), trips)
    assert y == trips and e.shape == (0, 3)
    gradient = dlvm.grad(lambda x, e, n: f(x, e, n)[0], wrt=(0, 1))(0.0, np.zeros((0, 3)), trips)
    assert gradient[0] == 1 and gradient[1].shape == (0, 3)


def test_large_bodies_use_threads_and_small_ones_do_not():
    def f(x):
        return dlvm.fori_loop(0, 3, lambda i, c: dlvm.tanh(c) * 0.5 + i, x)

    def forks(n):
        return "fork" in dlvm.function(f, threads=2).compile(np.zeros(n)).text("llvm")

    assert forks(1_000_000) and not forks(8)


def test_no_trip_computes_what_all_share_and_no_way_back_keeps_it():
    @dlvm.function
    def f(w, xs):
        def step(c, x):
            return dlvm.tanh(c @ (dlvm.exp(dlvm.tanh(w)) @ w) + x), None

        return dlvm.scan(step, xs[0], xs)[0].sum()

    w, xs = np.ones((3, 3)) * 0.1, np.ones((5, 3))
    compiled = dlvm.grad(f).compile(w, xs)
    main = compiled.text("optimized").split("\nfunc @")[1]
    inside = [x for x in main.splitlines() if x.startswith("      ")]
    assert main.count("= exp") == 1 and main.count("= tanh %w") == 1
    assert not [x for x in inside if "= exp" in x] and "f64[5,3,3]" not in main
