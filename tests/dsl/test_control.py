"""Branches and loops against the same program run by Python."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.errors import UserError

X = np.random.default_rng(1).normal(size=(4, 3))


def same(f, *args):
    """Staged, and unstaged where the control functions are Python's own."""
    staged, plain = dlvm.function(f)(*args), f(*args)
    for a, b in zip(dlvm.tree.leaves(staged), dlvm.tree.leaves(plain), strict=True):
        assert np.allclose(a, b)
    return staged


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_cond(k):
    w = np.ones(3) * 2

    def f(x, k):
        y = x * 3
        return dlvm.cond(k > 0, lambda a: (a + y, y.sum()), lambda a: (a * w, y[0, 0] * 1), x)

    same(f, X, k)


@pytest.mark.parametrize("i", [-5, 0, 1, 2, 3, 9])
def test_switch_clips(i):
    branches = [lambda x, k=k: x * k for k in range(4)]
    same(lambda x, i: dlvm.switch(i, branches, x), X, i)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_while_loop(n):
    def f(x, n):
        c = x.sum(axis=0)
        return dlvm.while_loop(
            lambda s: s["i"] < n,
            lambda s: {"i": s["i"] + 1, "v": s["v"] * 0.5 + c},
            {"i": 0, "v": np.ones(3)},
        )

    same(f, X, n)


def test_fori_loop_with_known_and_unknown_bounds():
    def f(x, n):
        known = dlvm.fori_loop(1, 4, lambda i, c: c + i * x[0], np.zeros(3))
        unknown = dlvm.fori_loop(0, n, lambda i, c: c + x[i], np.zeros(3))
        return known, unknown

    same(f, X, 3)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse):
    def f(x):
        def body(c, row):
            a, b = c["a"] + row, c["b"] * 2
            return {"a": a, "b": b}, (a.sum(), {"row": row * b})

        init = {"a": np.zeros(3), "b": 1.0}
        return dlvm.scan(body, init, x, reverse=reverse)

    same(f, X)


def test_scan_over_nothing_and_with_a_length():
    def f(x):
        return dlvm.scan(lambda c, row: (c + row.sum(), row * 2), 0.0, x)

    _, rows = same(f, np.zeros((0, 3)))
    assert rows.shape == (0, 3)
    same(lambda: dlvm.scan(lambda c, _: (c * 2, c), 1.0, None, length=5))


def test_map():
    same(lambda x: dlvm.map(lambda row: row * row.sum(), x), X)


def test_a_weak_carry_takes_the_type_that_the_body_gives():
    @dlvm.function
    def f(x):
        return dlvm.scan(lambda c, a: (c + a, c), 0.0, x)

    last, rows = f(np.ones(3, np.float32))
    assert last.dtype == rows.dtype == np.float32
    assert np.array_equal(rows, [0, 1, 2])


def test_nested_regions_capture_through_each_other():
    def f(x):
        scale = x[0] * 2

        def outer(c, row):
            def inner(d, e):
                return d + e * scale.sum() + c, d

            total, seen = dlvm.scan(inner, row.sum(), row)
            return dlvm.cond(total > 0, lambda: total, lambda: c), seen

        return dlvm.scan(outer, np.float64(0), x)

    same(f, X)
    module = dlvm.trace(f, X)
    assert module.verify() is module
    assert dlvm.parse(str(module)) == module


def test_values_captured_twice_are_one_operand():
    def f(x):
        y = x.sum()
        return dlvm.cond(y > 0, lambda: y + y, lambda: y - 1)

    (op,) = [op for op in dlvm.trace(f, X).main.ops if op.name == "cond"]
    assert len(op.captured) == 1


def test_a_branch_that_is_not_taken_does_not_raise():
    def f(x, i):
        return dlvm.cond(i < 4, lambda: x[i], lambda: x[0] * 0)

    same(f, X, 2)
    assert np.array_equal(dlvm.function(f)(X, 9), np.zeros(3))
    loop = dlvm.function(lambda x, i, n: dlvm.fori_loop(0, n, lambda _, c: c + x[i], np.zeros(3)))
    assert np.array_equal(loop(X, 9, 0), np.zeros(3))
    with pytest.raises(UserError, match="index 9 is out of range"):
        loop(X, 9, 1)


def test_effects_in_loops_keep_their_order(capsys):
    @dlvm.function
    def f(x):
        def body(c, a):
            dlvm.print("a =", a)
            return c, None

        dlvm.scan(body, 0.0, x)
        dlvm.print("done", x.sum())
        return x

    f(np.arange(2))
    assert capsys.readouterr().out == "a = 0\na = 1\ndone 1\n"


def test_a_function_of_many_operations_traces_without_recursion():
    def f(x):
        for _ in range(20_000):
            x = x + 1.0
        return x

    module = dlvm.trace(f, np.zeros(2))
    assert len(module.main.ops) == 60_000
