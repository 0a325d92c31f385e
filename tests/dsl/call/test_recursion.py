"""Functions that call themselves, against closed forms: compiled, interpreted, differentiated."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import IndexOutOfRange, TooDeep, TraceError, UserError

RNG = np.random.default_rng(0)


@dlvm.function
def factorial(n):
    return dlvm.cond(n <= 1, lambda: n * 0 + 1, lambda: n * factorial(n - 1))


@dlvm.function
def fibonacci(n):
    return dlvm.cond(n < 2, lambda: n, lambda: fibonacci(n - 1) + fibonacci(n - 2))


@dlvm.function
def ackermann(m, n):
    def inner():
        return dlvm.cond(
            n == 0,
            lambda: ackermann(m - 1, n * 0 + 1),
            lambda: ackermann(m - 1, ackermann(m, n - 1)),
        )

    return dlvm.cond(m == 0, lambda: n + 1, inner)


@dlvm.function
def even(n):
    return dlvm.cond(n == 0, lambda: n == n, lambda: odd(n - 1))


@dlvm.function
def odd(n):
    return dlvm.cond(n == 0, lambda: n != n, lambda: even(n - 1))


@dlvm.function
def power(x, n):
    def half():
        y = power(x * x, n // 2)
        return dlvm.where(n % 2 == 0, y, x * y)

    return dlvm.cond(n == 0, lambda: x * 0 + 1, half)


@dlvm.function
def newton(x, a, depth):
    return dlvm.cond(depth == 0, lambda: x, lambda: newton((x + a / x) / 2, a, depth - 1))


LEFT, RIGHT = np.array([1, 3, -1, 5, -1, -1, -1]), np.array([2, 4, -1, -1, 6, -1, -1])


@dlvm.function
def tree(x, left, right, node):
    """``tanh(x + left + right)`` in each node of a tree of index arrays."""

    def below(children):
        return tree(x, left, right, children[node])

    def inside():
        return dlvm.tanh(x[node] + below(left) * 2 + below(right))

    return dlvm.cond(node < 0, lambda: x[0] * 0, inside)


def tree_in_numpy(x, node):
    if node < 0:
        return 0.0
    return np.tanh(x[node] + tree_in_numpy(x, LEFT[node]) * 2 + tree_in_numpy(x, RIGHT[node]))


@dlvm.function
def halves(x):
    """The product of the sines, by halves."""
    n = x.shape[0]
    return dlvm.cond(
        n <= 1, lambda: np.sin(x).sum(), lambda: halves(x[: n // 2]) * halves(x[n // 2 :])
    )


def slope(f, x, step=1e-6):
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = step
        out[i] = (f(x + d) - f(x - d)) / (2 * step)
    return out


def test_integers():
    assert [factorial(n) for n in range(7)] == [1, 1, 2, 6, 24, 120, 720]
    assert [fibonacci(n) for n in (0, 1, 2, 10, 20)] == [0, 1, 1, 55, 6765]
    assert [even(n) for n in (0, 1, 6, 7)] == [True, False, True, False]
    assert ackermann(2, 3) == 9


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (factorial, (9,)),
        (fibonacci, (9,)),
        (ackermann, (2, 2)),
        (even, (5,)),
        (newton, (1.0, 2.0, 6)),
    ],
)
def test_interpreted_and_compiled_agree(f, args):
    module = dlvm.trace(f, *args)
    (found,) = module.run(f.label, *map(np.asarray, args))
    assert found == f(*args)
    again = dlvm.parse(str(module))
    assert str(again.verify()) == str(module)
    (optimised,) = module.optimize().run(f.label, *map(np.asarray, args))
    assert optimised == found


def test_derivatives_of_every_order_of_a_power():
    x = 1.1
    for n in (0, 1, 2, 5, 13):
        assert np.isclose(dlvm.grad(power)(x, n), n * x ** max(n - 1, 0))
        assert np.isclose(dlvm.grad(dlvm.grad(power))(x, n), n * (n - 1) * x ** max(n - 2, 0))
    assert np.isclose(dlvm.grad(dlvm.grad(dlvm.grad(power)))(x, 13), 13 * 12 * 11 * x**10)
    value, tangent = dlvm.jvp(lambda x: power(x, 13), (x,), (1.0,))
    assert np.isclose(value, x**13) and np.isclose(tangent, 13 * x**12)
    forward = dlvm.grad(lambda x: dlvm.jvp(lambda x: power(x, 13), (x,), (1.0,))[1])
    assert np.isclose(forward(x), 13 * 12 * x**11)


def test_the_gradient_of_newtons_root():
    root = dlvm.grad(newton, wrt=1)(1.0, 2.0, 8)
    assert abs(root - 0.5 / np.sqrt(2)) < 1e-12


def test_a_tree_and_its_gradient():
    x = RNG.normal(size=7)
    assert np.isclose(tree(x, LEFT, RIGHT, 0), tree_in_numpy(x, 0))
    expected = slope(lambda x: tree_in_numpy(x, 0), x)
    assert np.allclose(dlvm.grad(tree)(x, LEFT, RIGHT, 0), expected, atol=1e-8)
    lanes = dlvm.vmap(dlvm.grad(tree), in_axes=(0, None, None, 0))
    found = lanes(np.stack([x, x]), LEFT, RIGHT, np.array([0, -1]))
    assert np.allclose(found, [expected, expected * 0], atol=1e-8)
    with pytest.raises(IndexOutOfRange, match="7"):
        tree(x, LEFT, RIGHT, 7)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_sizes_that_change_with_each_call(n):
    x = RNG.uniform(0.5, 1.5, n)
    opened = dlvm.function(halves.python, dynamic={"x": "N"})
    expected = np.prod(np.sin(x)) / np.tan(x)
    for f in (halves, opened) if n < 7 else (opened,):
        assert np.isclose(f(x), np.prod(np.sin(x)))
        assert np.allclose(dlvm.grad(f)(x), expected)


def test_lanes_go_as_deep_as_each_must():
    x, n = np.array([1.1, 0.9, 1.3, 0.7]), np.array([0, 5, 13, 1])
    assert np.allclose(dlvm.vmap(power)(x, n), x**n)
    assert np.allclose(dlvm.vmap(power, in_axes=(0, None))(x, 7), x**7)
    assert np.allclose(dlvm.vmap(dlvm.grad(power))(x, n), n * x ** (n - 1.0))
    second = dlvm.vmap(dlvm.grad(dlvm.grad(power)))(x, n)
    assert np.allclose(second, n * (n - 1) * x ** (n - 2.0))
    summed = dlvm.grad(lambda x: dlvm.vmap(power)(x, n).sum())(x)
    assert np.allclose(summed, n * x ** (n - 1.0))


def test_a_function_inside_a_loop_uses_what_is_around_it():
    def loop(x, w):
        @dlvm.function
        def deep(y, n):
            return dlvm.cond(n == 0, lambda: y, lambda: deep(np.sin(y * w), n - 1))

        return dlvm.scan(lambda c, n: (deep(c, n), None), x, np.arange(4))[0]

    def plain(v):
        for n in range(4):
            for _ in range(n):
                v = np.array([np.sin(v[0] * v[1]), v[1]])
        return v[0]

    at = np.array([0.5, 1.2])
    assert np.isclose(dlvm.function(loop)(*at), plain(at))
    assert np.allclose(dlvm.grad(loop, wrt=(0, 1))(*at), slope(plain, at), atol=1e-8)
    both = dlvm.vmap(dlvm.function(loop), in_axes=(0, None))(np.array([0.1, 0.5]), 1.2)
    assert np.isclose(both[1], plain(at))


def test_recursion_in_a_loop_over_children():
    def count(depth):
        @dlvm.function
        def down(d):
            def each(c, _):
                return c + down(d - 1), None

            return dlvm.cond(d == 0, lambda: d * 0 + 1, lambda: dlvm.scan(each, 0, length=3)[0])

        return down(depth)

    assert dlvm.function(count)(4) == 81


def test_effects_keep_their_order(capsys):
    @dlvm.function
    def down(x, n):
        dlvm.print("at", n)
        return dlvm.cond(n == 0, lambda: x, lambda: down(x * 2, n - 1))

    assert down(1.0, 2) == 4
    assert capsys.readouterr().out == "at 2\nat 1\nat 0\n"
    dlvm.grad(down)(1.0, 1)
    assert capsys.readouterr().out == "at 1\nat 0\n"
    dlvm.vmap(down)(np.ones(2), np.array([0, 1]))
    assert capsys.readouterr().out == "at 0\nat 1\nat 0\n"


def test_what_is_printed_deep_down_has_the_size_that_it_has_there(capsys):
    @dlvm.function(dynamic={"x": "N"})
    def down(x):
        n = x.shape[0]
        dlvm.print(x)
        return dlvm.cond(n <= 1, lambda: x.sum(), lambda: down(x[: n // 2]))

    down(np.arange(5))
    assert capsys.readouterr().out == "[0 1 2 3 4]\n[0 1]\n[0]\n"


@dlvm.function
def down(x, n):
    return dlvm.cond(n <= 0, lambda: x, lambda: down(np.sin(x) + x, n - 1) * 0.999)


def test_where_the_stack_ends_there_is_an_error_and_the_next_call_is_fine():
    assert np.isfinite(down(0.1, 5000)) and np.isfinite(dlvm.grad(down)(0.1, 5000))
    for _ in range(3):
        with pytest.raises(TooDeep, match="the recursion of down is too deep"):
            down(0.1, 10**9)
        with pytest.raises(RecursionError):
            dlvm.grad(down)(0.1, 10**9)
    assert np.isfinite(down(0.1, 100))
    with pytest.raises(TooDeep, match=r"the recursion of .* is too deep"):
        dlvm.trace(down, 0.1, 1).run("down", np.array(0.1), np.array(10**6))


def test_a_large_array_is_neither_copied_nor_summed_anew_in_each_activation():
    @dlvm.function
    def walk(x, i):
        def on():
            return np.tanh(x[i]) * walk(x, i - 1)

        return dlvm.cond(i < 0, lambda: x[0] * 0 + 1, on)

    def work(n):
        compiled = dlvm.grad(walk).compile(np.zeros(n), 3)
        return compiled.report.at().bytes

    assert work(10**6) - work(10**5) <= 16 * 9 * 10**5
    x = np.full(10**5, 0.5)
    assert np.allclose(dlvm.grad(walk)(x, 999)[:1000], np.tanh(0.5) ** 999 / np.cosh(0.5) ** 2)


def test_a_function_that_never_ends_is_an_error():
    @dlvm.function
    def endless(x):
        return endless(x - 1)

    @dlvm.function
    def both(x):
        return dlvm.cond(x > 0, lambda: both(x - 1), lambda: both(x + 1))

    for f in (endless, both):
        with pytest.raises(TraceError, match="calls itself on every way through it") as error:
            f(1.0)
        assert "end the recursion in one branch" in str(error.value)


def test_branches_that_give_different_types_are_an_error():
    @dlvm.function
    def f(n):
        return dlvm.cond(n == 0, lambda: 1.0, lambda: f(n - 1).sum() > 0)

    with pytest.raises(UserError, match="different types"):
        f(3)


def test_plain_functions_recurse_in_python():
    def fact(n):
        return dlvm.cond(n <= 1, lambda: 1, lambda: n * fact(n - 1))

    assert fact(5) == 120
