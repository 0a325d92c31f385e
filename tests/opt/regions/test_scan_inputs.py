"""What a trip takes by its own number: it is dealt that, wherever its number is what it counts."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from tests.gen.values import same_bits

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def counted(f):
    """A loop over the rows of x, with what one trip does with x, its number and what was."""
    return lambda x: dlvm.fori_loop(0, x.shape[0], lambda i, c: f(x, i, c), dlvm.zeros(3, x.dtype))


def backwards(x):
    def step(c, i):
        return c * 0.5 + x[i], x[i].sum()

    return dlvm.scan(step, dlvm.zeros(3, x.dtype), dlvm.arange(x.shape[0]), reverse=True)


def nested(x):
    def row(i, c):
        return c + dlvm.fori_loop(0, 3, lambda j, d: d + x[i][j] * 2, x[i, 0] * 0)

    return dlvm.fori_loop(0, x.shape[0], row, dlvm.zeros(3, x.dtype))


def unrolled(x):
    return dlvm.fori_loop(0, 5, lambda i, c: c * x[i] + x[i], x[0], unroll=2)


DEALT = {
    "added": counted(lambda x, i, c: c + x[i]),
    "twice": counted(lambda x, i, c: c * x[i] + dlvm.sin(x[i]) * 2),
    "two": counted(lambda x, i, c: c + x[i] * (x * 2)[i]),
    "backwards": backwards,
    "unrolled": unrolled,
}
KEPT = {
    "next": lambda x: dlvm.fori_loop(0, 4, lambda i, c: c + x[i + 1], x[0]),
    "fewer": lambda x: dlvm.fori_loop(0, 4, lambda i, c: c + x[i], x[0]),
    "from one": lambda x: dlvm.fori_loop(1, 5, lambda i, c: c + x[i], x[0]),
    "column": lambda x: dlvm.fori_loop(0, 3, lambda i, c: c + x[:, i], x[:, 0]),
    "carried": lambda x: dlvm.fori_loop(0, 5, lambda i, c: c * 0.5 + c[i], x),
    "branch": counted(lambda x, i, c: dlvm.cond(i > 2, lambda: c + x[i], lambda: c)),
}


def leaves(f):
    return lambda x: dlvm.tree.leaves(f(x))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [*DEALT, *KEPT, "nested"])
@pytest.mark.parametrize("open_sizes", [False, True], ids=["known", "open"])
def test_a_loop_that_counts_gives_what_it_gave(name, open_sizes):
    f = leaves({**DEALT, **KEPT, "nested": nested}[name])
    dynamic = {"x": "N,3"} if open_sizes else {}
    for g in (f, leaves(dlvm.grad(lambda x: (f(x)[0] ** 2).sum()))):
        staged = dlvm.function(g, dynamic=dynamic)
        for found, known in zip(staged(X), g(X), strict=True):
            np.testing.assert_allclose(found, known, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*DEALT, *KEPT])
def test_numbers_are_asked_for_no_longer_where_they_count_all_rows(name):
    f = {**DEALT, **KEPT}[name]
    assert ("gather" in dlvm.function(f).compile(X).text("kernels")) == (name in KEPT)


@pytest.mark.parametrize("name", ["added", "two", "backwards"])
def test_no_row_is_no_trip(name):
    staged = dlvm.function(leaves(DEALT[name]), dynamic={"x": "N,3"})
    found = staged(np.zeros((0, 3), np.float32))
    assert same_bits(found[0], np.zeros(3, np.float32)) and all(len(a) == 0 for a in found[1:])


@pytest.mark.parametrize("mode", ["drop", "clip"])
def test_other_modes_are_the_same_inside(mode):
    def f(x):
        return dlvm.scan(
            lambda c, i: (c + dlvm.take(x, i, 0, mode=mode), None), x[0], dlvm.arange(5)
        )[0]

    assert "gather" not in dlvm.function(f).compile(X).text("kernels")
    np.testing.assert_allclose(dlvm.function(f)(X), X[0] + X.sum(0), rtol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_trips_that_are_apart_are_dealt_rows_of_matrices(threads):
    x = np.random.default_rng(1).normal(size=(40, 50, 60)).astype(np.float32)

    def f(x, w):
        return dlvm.scan(lambda c, i: (c, dlvm.tanh(x[i] @ w).sum(0)), (), dlvm.arange(x.shape[0]))[
            1
        ]

    w = np.ones((60, 8), np.float32) / 60
    staged = dlvm.function(f, dynamic={"x": "N,50,60"}, threads=threads)
    np.testing.assert_allclose(staged(x, w), np.tanh(x @ w).sum(1), rtol=1e-4, atol=1e-5)
