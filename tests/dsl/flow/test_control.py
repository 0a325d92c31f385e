"""Branches and loops against the same program run by Python."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError

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


@pytest.mark.parametrize(("n", "size"), [(0, 2), (1, 1), (4, 2), (7, 2), (7, 9)])
def test_map_in_batches(n, size):
    def f(a, b):
        t = {"a": a, "b": b}
        return dlvm.map(lambda x: (x["a"] * x["b"].sum(), x["a"]), t, batch_size=size)

    t = np.arange(n) * 1.5, np.ones((n, 2))
    if n:
        same(f, *t)
    opened = dlvm.function(f, dynamic={"a": "N", "b": "N,2"})
    for a, b in zip(dlvm.function(f)(*t), opened(*t), strict=True):
        assert np.array_equal(a, b) and len(a) == n


def test_map_in_batches_of_no_size_is_an_error():
    with pytest.raises(UserError, match="batch_size=0"):
        dlvm.map(lambda x: x, X, batch_size=0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint64])
def test_switch_of_any_integer_and_many_branches(dtype):
    branches = [lambda x, k=k: x * k for k in range(11)]
    staged = dlvm.function(lambda x, i: dlvm.switch(i, branches, x))
    top = np.iinfo(dtype).max
    for i in (0, 1, 5, 10, 11, int(top), int(np.iinfo(dtype).min)):
        assert np.array_equal(staged(X, dtype(i)), X * min(max(i, 0), 10))
    (only,) = [op for op in dlvm.trace(staged, X, dtype(1)).main.ops if op.name == "cond"]
    assert sum(op.name == "cond" for r in only.regions.values() for op in r.walk()) == 9


def test_derivatives_and_lanes_of_a_switch():
    def f(x, i):
        return dlvm.switch(i, [np.sin, np.exp, lambda x: x * x, np.tanh, lambda x: x], x)

    slopes = [np.cos, np.exp, lambda x: 2 * x, lambda x: 1 - np.tanh(x) ** 2, lambda x: x * 0 + 1]
    x, i = np.linspace(0.1, 1, 9), np.arange(-2, 7)
    expected = [slopes[min(max(k, 0), 4)](a) for a, k in zip(x, i, strict=True)]
    assert np.allclose([dlvm.grad(f)(a, k) for a, k in zip(x, i, strict=True)], expected)
    assert np.allclose(dlvm.vmap(dlvm.grad(f))(x, i), expected)
    tangents = dlvm.jvp(lambda x: f(x, 3), (x[4],), (1.0,))[1]
    assert np.allclose(tangents, slopes[3](x[4]))


def test_branches_share_room_for_what_their_derivatives_keep():
    def f(x, i):
        return dlvm.switch(i, [lambda x, k=k: np.sin(x * k).sum() for k in range(8)], x)

    compiled = dlvm.grad(f).compile(dlvm.spec("f64[1000]"), dlvm.spec("i64"))
    assert compiled.report.peak_bytes < 4 * 8000


def test_an_index_that_is_no_whole_number_is_an_error():
    for i in (1.5, np.array([1, 2]), True):
        with pytest.raises(UserError, match="one whole number as the index"):
            dlvm.function(lambda x, i: dlvm.switch(i, [np.sin, np.cos], x))(X, i)
    with pytest.raises(UserError, match="one whole number as the index"):
        dlvm.switch(1.5, [np.sin, np.cos], X)


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


def rolled(k, reverse, steps):
    def f(w, xs):
        def body(c, x):
            a, b = np.tanh(c[0] @ w + x), c[1] * 1.1 + c[0].sum()
            return (a, b), (a * b, b)

        (a, b), ys = dlvm.scan(body, (w[0], w[0, 0]), xs, reverse=reverse, unroll=k)
        c = dlvm.fori_loop(0, steps, lambda i, c: c * 0.7 + i * a, a, unroll=k)
        return a, b, ys, c

    return f


@pytest.mark.parametrize(("n", "reverse"), [(0, False), (3, True), (7, False), (8, True)])
def test_unrolled_loops_give_the_same_bits(n, reverse):
    w, xs = X[:3], np.random.default_rng(2).normal(size=(n, 3))

    def all_of(k, dynamic=False):
        def loss(w, xs):
            out = rolled(k, reverse, n)(w, xs)
            return sum((y * y).sum() for y in dlvm.tree.leaves(out)), out

        options = {"dynamic": {"xs": "T,3"}} if dynamic else {}
        both = dlvm.value_and_grad(loss, wrt=(0, 1), has_aux=True)
        return dlvm.tree.leaves(dlvm.function(both, **options)(w, xs))

    expected = all_of(1)
    for found in (all_of(2), all_of(True), all_of(3, dynamic=True)):
        assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))


def test_unrolled_steps_share_kernels():
    def f(x, k):
        return dlvm.fori_loop(0, 12, lambda i, c: c * x + i, x, unroll=k)

    def trips(k):
        text = dlvm.function(f, static=("k",)).compile(X[0], k).text("kernels")
        return [
            line.split("length=")[1].split()[0] for line in text.splitlines() if " scan " in line
        ]

    assert (trips(1), trips(4), trips(5), trips(True)) == (["12"], ["3"], ["2"], [])


@pytest.mark.parametrize("unroll", [-1, 1.5, "2"])
def test_an_unroll_that_is_no_number_of_steps_is_an_error(unroll):
    with pytest.raises(UserError, match="unroll="):
        dlvm.function(lambda x: dlvm.scan(lambda c, a: (c, a), 0.0, x, unroll=unroll))(X)
    with pytest.raises(UserError, match="unroll="):
        dlvm.scan(lambda c, a: (c, a), 0.0, X, unroll=unroll)


def test_bounds_of_the_call_are_not_unrolled():
    with pytest.raises(UserError, match="known only in the call"):
        dlvm.function(lambda x, n: dlvm.fori_loop(0, n, lambda i, c: c, x, unroll=2))(X, 3)


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

    with pytest.warns(dlvm.TraceWarning, match="f records 60000 operations at this line"):
        module = dlvm.trace(f, np.zeros(2))
    assert len(module.main.ops) == 60_000
