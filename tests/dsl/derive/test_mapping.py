"""Batching as users say it: axes of arguments and results, lanes that share, what stays one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ShapeError

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 3, 5)), RNG.normal(size=(5, 2))


def test_axes_of_results_one_each_or_a_tree():
    def f(x):
        return {"sum": x.sum(0), "twice": (2 * x, x[0])}

    found = dlvm.vmap(f, in_axes=1, out_axes={"sum": -1, "twice": (1, 0)})(A)
    assert np.allclose(found["sum"], A.sum(0).T)
    assert np.allclose(found["twice"][0], 2 * A)
    assert np.allclose(found["twice"][1], A[0])
    pair = dlvm.vmap(lambda x: (x, x.sum()), out_axes=(2, 0))(A)
    assert np.allclose(pair[0], np.moveaxis(A, 0, 2)) and np.allclose(pair[1], A.sum((1, 2)))


def test_negative_axes_and_trees_of_axes():
    params = {"w": A, "b": B}
    f = dlvm.vmap(lambda p, x: p["w"] @ x + p["b"].sum(), in_axes=({"w": -2, "b": None}, None))
    expected = np.stack([A[:, i] @ np.ones(5) + B.sum() for i in range(3)])
    assert np.allclose(f(params, np.ones(5)), expected)


def test_results_that_all_lanes_share():
    def f(x, y):
        return x * y, y.sum()

    rows, total = dlvm.vmap(f, (0, None), (0, None))(A, B.T[0])
    assert np.allclose(rows, A * B.T[0]) and np.allclose(total, B.T[0].sum())
    assert total.shape == ()
    staged = dlvm.function(lambda x, y: dlvm.vmap(f, (0, None), (0, None))(x, y))
    assert np.allclose(staged(A[:0], B.T[0])[1], B.T[0].sum())
    text = dlvm.trace(lambda x, y: dlvm.vmap(f, (0, None), (0, None))(x, y), A, B.T[0])
    assert re.search(r"batched @\w+ of @f axes \(0, none\) size 4 keep \(1\)", str(text))
    assert dlvm.parse(str(text)) == text
    with pytest.raises(dlvm.UserError, match="result 0 depends on a batched argument"):
        dlvm.vmap(f, (0, None), (None, 0))(A, B.T[0])


def test_how_many_lanes_may_be_said():
    assert np.allclose(dlvm.vmap(lambda x: x * 2, None, axis_size=3)(B), np.stack([2 * B] * 3))
    assert np.allclose(dlvm.vmap(lambda x: x, axis_size=4)(A), A)
    with pytest.raises(ShapeError, match="axis_size is batched over 5"):
        dlvm.vmap(lambda x: x, axis_size=5)(A)
    with pytest.raises(dlvm.UserError, match="how many lanes"):
        dlvm.vmap(lambda x: x, axis_size=-1)(A)
    with pytest.raises(dlvm.UserError, match="axis_size="):
        dlvm.vmap(lambda x: x, None)(A)


def test_an_axis_that_a_result_has_not():
    with pytest.raises(ShapeError, match="out_axes=2 for a result of 1 axes"):
        dlvm.vmap(lambda x: x.sum(), out_axes=2)(A)


def count(word, f, *args):
    text = dlvm.function(f).compile(*args).text("optimized")
    return len(re.findall(rf"= {word} ", text.split("\nfunc ")[1]))


def test_products_of_lanes_are_one_product():
    batched = RNG.normal(size=(6, 3, 5)), RNG.normal(size=(6, 5, 2))
    for axes, args in (((0, 0), batched), ((0, None), (A, B)), ((None, 0), (A[0], batched[1]))):
        f = dlvm.vmap(lambda x, y: x @ y, axes)
        assert count("matmul", f, *args) == 1 and count("scan", f, *args) == 0
        assert np.allclose(f(*args), np.matmul(*args))
    gradient = dlvm.vmap(dlvm.grad(lambda x, y: ((x @ y) ** 2).sum()), (0, None))
    assert count("matmul", gradient, A, B) == 2
    assert np.allclose(gradient(A, B), 2 * (A @ B) @ B.T)
    twice = dlvm.vmap(dlvm.vmap(lambda x, y: x @ y, (None, 0)), (0, None))
    assert count("matmul", twice, A[0], B.T) == 1
    assert np.allclose(twice(A[0], B.T), A[0] @ B)


def test_lanes_of_gathers_sorts_and_scans():
    x, i = RNG.normal(size=(4, 6)), RNG.integers(0, 6, (4, 3))

    def f(x, i):
        ordered = dlvm.sort(x)
        carried = dlvm.scan(lambda c, a: (c * 0.5 + a, c), 0.0, ordered)[1]
        return x[i] + carried[i] + dlvm.at(dlvm.cumsum(x), i).add(1.0)[:3] + dlvm.argsort(x)[:3]

    apart = np.stack([f(*row) for row in zip(x, i, strict=True)])
    assert np.allclose(dlvm.vmap(f)(x, i), apart)
    assert np.allclose(dlvm.vmap(f, (1, 1), 1)(x.T.copy(), i.T.copy()), apart.T)
    slopes = np.stack(
        [dlvm.grad(lambda x, i: f(x, i).sum())(*row) for row in zip(x, i, strict=True)]
    )
    assert np.allclose(dlvm.vmap(dlvm.grad(lambda x, i: f(x, i).sum()))(x, i), slopes)


def test_three_deep_over_different_axes():
    f = dlvm.vmap(
        dlvm.vmap(dlvm.vmap(lambda a, b, c: a * b + c, (0, None, None)), (None, 0, None)),
        (None, None, 0),
        -1,
    )
    a, b, c = np.arange(2.0), np.arange(3.0), np.arange(4.0)
    expected = np.einsum("i,j,k->jik", a, b, np.ones(4)) + c
    assert np.allclose(f(a, b, c), expected)


def cholesky(a):
    """By columns, in a loop that updates one matrix, as one would write it."""

    def column(j, m):
        rest = m[:, j] - m * (dlvm.arange(n) < j) @ m[j]
        below = dlvm.where(dlvm.arange(n) >= j, rest / dlvm.sqrt(rest[j]), 0)
        return m.at[:, j].set(below)

    n = a.shape[0]
    return dlvm.fori_loop(0, n, column, dlvm.tril(a))


def test_a_factorisation_written_as_a_loop():
    """In two batches, and its gradient against that of log(det(a)), which is the inverse."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 3, 5, 5))
    a = x @ x.swapaxes(-1, -2) + 5 * np.eye(5)
    both = dlvm.vmap(dlvm.vmap(cholesky))
    expected = np.linalg.cholesky(a)
    np.testing.assert_allclose(dlvm.function(both)(a), expected, rtol=1e-12, atol=1e-12)

    def log_det(a):
        return 2 * dlvm.log(dlvm.diagonal(cholesky((a + a.T) / 2))).sum()

    slope = dlvm.function(dlvm.vmap(dlvm.vmap(dlvm.grad(log_det))))(a)
    np.testing.assert_allclose(slope, np.linalg.inv(a), rtol=1e-10, atol=1e-12)
    whole = dlvm.function(dlvm.grad(lambda a: dlvm.vmap(dlvm.vmap(log_det))(a).sum()))(a)
    np.testing.assert_allclose(whole, slope, rtol=1e-12, atol=1e-14)
