"""The little programs of NNKit, DLVM's staged language in Swift, in ours.

Each is staged, run by machine code and by the interpreter, and compared with what Python says.
What recursed there loops here; a staged function that calls itself is not compiled yet.
"""

import inspect

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ShapeError, UserError

from .road import agree, normal


@dlvm.function
def affine(w, x, b):
    return w * x + b


def test_an_affine_function_of_three_arguments():
    assert agree(affine, 2.0, 3.0, 4.0) == 10.0


def test_staged_functions_call_one_another():
    twice = dlvm.function(lambda x: affine(2.0, affine(2.0, x, 1.0), 1.0))
    assert agree(twice, 5.0) == 23.0


@pytest.mark.parametrize("n, expected", [(0, 1), (1, 1), (5, 120), (20, 2432902008176640000)])
def test_the_factorial(n, expected):
    @dlvm.function
    def factorial(n):
        return dlvm.while_loop(lambda s: s[0] > 1, lambda s: (s[0] - 1, s[1] * s[0]), (n, 1))[1]

    assert agree(factorial, n) == expected


@pytest.mark.parametrize(
    "n, expected", [(0, 0), (1, 1), (2, 1), (12, 144), (90, 2880067194370816120)]
)
def test_fibonacci(n, expected):
    @dlvm.function
    def fibonacci(n):
        return dlvm.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1]), (0, 1))[0]

    assert agree(fibonacci, n) == expected


def test_currying():
    def add(x):
        return lambda y: x + y

    assert agree(dlvm.function(lambda x, y: add(x)(y)), 10, 15) == 25
    add_ten = dlvm.function(lambda y: add(10)(y))
    assert agree(add_ten, 15) == 25


def test_functions_are_values_while_staging():
    def compose(*fs):
        def composed(x):
            for f in fs:
                x = f(x)
            return x

        return composed

    g = dlvm.function(compose(lambda x: x + 1, lambda x: affine(2.0, x, 1.0), np.negative))
    assert agree(g, 3.0) == -9.0


def test_a_fixed_point():
    """Where NNKit has the Y combinator: iterate until nothing changes."""

    def fix(f, x, tolerance=1e-12):
        return dlvm.while_loop(
            lambda s: dlvm.abs(s[0] - s[1]) > tolerance, lambda s: (s[1], f(s[1])), (x, f(x))
        )[1]

    root = dlvm.function(lambda a: fix(lambda x: 0.5 * (x + a / x), a))
    np.testing.assert_allclose(agree(root, 2.0), np.sqrt(2.0), rtol=1e-12)
    np.testing.assert_allclose(dlvm.grad(root)(2.0), 0.5 / np.sqrt(2.0), rtol=1e-9)


@pytest.mark.parametrize("x, expected", [(-5.0, -1.0), (0.0, 0.0), (7.0, 1.0)])
def test_conditions_of_several_clauses(x, expected):
    @dlvm.function
    def sign(x):
        return dlvm.cond(
            x < 0, lambda: -1.0, lambda: dlvm.cond(x > 0, lambda: 1.0, lambda: 0.0 * x)
        )

    assert agree(sign, x) == expected


def test_map_reduce_filter_and_zip():
    xs, ys = np.arange(6.0), np.arange(6.0) * 10

    @dlvm.function
    def program(xs, ys):
        mapped = dlvm.map(lambda x: x * x + 1, xs)
        total, _ = dlvm.scan(lambda c, x: (c + x, None), 0.0, mapped)
        even = dlvm.where(xs % 2 == 0, xs, 0.0).sum()  # a filter under a reduction is a mask
        zipped = dlvm.map(lambda pair: pair[0] - pair[1], (xs, ys))
        return mapped, total, even, zipped

    mapped, total, even, zipped = agree(program, xs, ys)
    assert mapped.tolist() == [x * x + 1 for x in xs]
    assert total == sum(x * x + 1 for x in xs)
    assert even == sum(x for x in xs if x % 2 == 0)
    assert zipped.tolist() == [x - y for x, y in zip(xs, ys, strict=True)]


def test_tuples_come_apart_and_together():
    @dlvm.function
    def turn(pair):
        (a, b), c = pair
        return {"c": c, "rest": (b, a)}

    assert agree(turn, ((1, 2), 3)) == {"c": 3, "rest": (2, 1)}


def test_two_functions_of_one_source_line_are_two():
    """NNKit told closures apart by file, line and column."""
    add, sub = (dlvm.function(f) for f in (lambda x: x + 1.0, lambda x: x - 1.0))
    assert inspect.getsourcelines(add.python)[1] == inspect.getsourcelines(sub.python)[1]
    assert (add(2.0), sub(2.0)) == (3.0, 1.0)


def test_a_function_made_in_a_loop_keeps_what_it_closed_over():
    scaled = [dlvm.function(lambda x, k=k: x * k) for k in (2.0, 3.0)]
    made = [dlvm.function(of(k)) for k in (2.0, 3.0)]
    assert [f(5.0) for f in scaled] == [f(5.0) for f in made] == [10.0, 15.0]


def of(k):
    return lambda x: x * k


def test_the_demo_of_the_web_site():
    """gradient(of: g, withRespectTo: (1, 2), keeping: 0), compiled, which was never released."""

    def g(x, w, b):
        return dlvm.tanh(x @ w + b)

    @dlvm.function
    def demo(x, w, b):
        y, pull = dlvm.vjp(g, x, w, b)
        _, dw, db = pull(dlvm.ones_like(y))
        return dw, db, y

    x, w, b = normal(1, 784), normal(784, 10) * np.float32(0.03), normal(1, 10)
    dw, db, y = agree(demo, x, w, b, rtol=1e-4, atol=1e-5)
    expected = np.tanh(x.astype(float) @ w + b)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(db, 1 - expected**2, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(dw, x.T.astype(float) @ (1 - expected**2), rtol=1e-3, atol=1e-4)
    assert "tanh" in str(dlvm.trace(demo, x, w, b))


def test_the_gradient_of_a_bias_sums_the_batch_it_was_stretched_over():
    """A bias <1 x 10> under a batch <5 x 10>, which DLVM mistyped."""
    x, b = normal(5, 10, dtype=np.float64), normal(1, 10, dtype=np.float64)
    found = dlvm.grad(lambda b, x: ((x + b) ** 2).sum())(b, x)
    assert found.shape == (1, 10)
    np.testing.assert_allclose(found, 2 * (x + b).sum(0, keepdims=True))


def test_an_argument_without_a_path_to_the_result_has_a_zero_gradient():
    assert dlvm.grad(lambda x, y: x, wrt=(0, 1))(3.0, 4.0) == (1.0, 0.0)


def test_quotients_and_powers_under_a_seed_that_is_not_one():
    """The rules that DLVM had wrong: the seed was lost."""
    x, y = 3.0, 2.0
    for f, by_y in (
        (lambda x, y: x / y, -x / y**2),
        (lambda x, y: dlvm.exp(y * dlvm.log(x)), x**y * np.log(x)),
    ):
        _, pull = dlvm.vjp(f, x, y)
        np.testing.assert_allclose(pull(5.0)[1], 5 * by_y, rtol=1e-12)


def test_ill_typed_programs_are_refused_before_anything_runs():
    ran = []

    @dlvm.function
    def wrong(x, w):
        dlvm.print("never", x)
        ran.append("traced")
        return x @ w

    with pytest.raises(ShapeError, match=r"test_nnkit\.py"):
        wrong(np.ones((2, 3)), np.ones((4, 5)))
    with pytest.raises(UserError):
        dlvm.function(lambda x: x + "text")(1.0)


def test_one_compile_for_each_shape_or_one_for_all():
    x = np.ones((3, 4))
    each, every = dlvm.function(lambda x: x.sum()), dlvm.function(lambda x: x.sum(), dynamic=True)
    for rows in (1, 2, 3):
        assert each(x[:rows]) == every(x[:rows]) == 4 * rows
    assert len(each.explain().compiles) == 3
    assert len(every.explain().compiles) == 1
