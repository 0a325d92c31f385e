"""Expressions of SymPy as functions: what they compute, in every way that functions are used."""

from __future__ import annotations

import inspect
import math
import sys
from typing import Any

import numpy as np
import pytest
import sympy

import dlvm
from dlvm import UserError
from tests.gen.aot.running import Loaded

x, y, n = sympy.symbols("x y n")
t = sympy.Symbol("t")
q = sympy.Function("q")(t)
i, j = sympy.symbols("i j", integer=True)
v = sympy.IndexedBase("v")
A, B = sympy.MatrixSymbol("A", 3, 3), sympy.MatrixSymbol("B", 3, 3)
POINTS = np.array([0.3, 0.7, 0.9])

ONE = [
    *(f(x) for f in (sympy.sin, sympy.cos, sympy.tan, sympy.asin, sympy.acos, sympy.atan)),
    *(f(x) for f in (sympy.sinh, sympy.cosh, sympy.tanh, sympy.asinh, sympy.atanh)),
    *(f(x) for f in (sympy.sec, sympy.csc, sympy.cot, sympy.sech, sympy.csch, sympy.coth)),
    *(sympy.acosh(1 + x), sympy.acoth(1 + x), sympy.acot(x), sympy.asec(1 + x), sympy.acsc(1 + x)),
    *(f(x) for f in (sympy.exp, sympy.log, sympy.erf, sympy.erfc, sympy.loggamma, sympy.digamma)),
    *(sympy.erfinv(x), sympy.polygamma(1, x), sympy.log(x, 3), sympy.sinc(x), sympy.asech(x)),
    *(f(3 * x - 2) for f in (sympy.Abs, sympy.sign, sympy.floor, sympy.ceiling, sympy.frac)),
    *(sympy.Mod(5 * x, 2), sympy.Heaviside(x - sympy.Rational(1, 2)), sympy.Heaviside(x, 1)),
    *(sympy.Max(x, 0.5, x**2), sympy.Min(x, 0.5), x**3, 1 / x, x**-4, sympy.sqrt(x)),
    *(x ** sympy.Rational(-3, 2), x ** sympy.Rational(1, 3), 2**x, x**x, x * sympy.exp(-x) / 3),
    *(sympy.pi * x, sympy.E + x, sympy.GoldenRatio * x, x / sympy.Integer(10) ** 30, x - 7),
    sympy.Piecewise((x**2, x < 0.5), (sympy.log(x), (x > 0.6) & (x < 0.8)), (1, True)),
    sympy.Piecewise((1, sympy.Or(x < 0.5, sympy.Not(x <= 0.8))), (x, True)),
    sympy.ITE(x < 0.5, x > 0.1, x > 0.8) & (x > 0),
    sympy.Sum(sympy.sin(i * x) / i, (i, 1, 5)),
    sympy.Sum(i * x**j, (j, 0, i), (i, 1, 3)),
    sympy.Product(x + i, (i, 0, 2)),
    sympy.Derivative(sympy.sin(x) ** 2, x),
]


@pytest.mark.parametrize("expr", ONE, ids=str)
def test_an_expression_has_the_value_that_sympy_computes(expr):
    found = dlvm.from_sympy(expr, x)(POINTS)
    expected = [expr.subs(x, sympy.Float(p, 30)).doit() for p in POINTS]
    if found.dtype == bool:
        assert found.tolist() == [bool(e) for e in expected]
    else:
        np.testing.assert_allclose(found, [float(e) for e in expected], rtol=1e-12)


def test_a_function_is_staged_differentiated_and_batched():
    expr = sympy.exp(-x * y) * sympy.sin(x) / (1 + y**2)
    f = dlvm.from_sympy(expr, [x, y])
    staged, slope = dlvm.function(f), dlvm.grad(f, wrt=("x", "y"))
    at = (0.4, 1.2)
    assert staged(*at) == f(*at) == f(y=1.2, x=0.4)
    for found, symbol in zip(slope(*at), (x, y), strict=True):
        expected = float(expr.diff(symbol).subs({x: at[0], y: at[1]}))
        assert math.isclose(found, expected, rel_tol=1e-13)
    twice = dlvm.grad(dlvm.grad(f))(*at)
    assert math.isclose(twice, float(expr.diff(x, 2).subs({x: at[0], y: at[1]})), rel_tol=1e-12)
    np.testing.assert_allclose(dlvm.vmap(f, in_axes=(0, None))(POINTS, 1.2), f(POINTS, 1.2))


def test_a_function_has_the_names_of_its_symbols_and_keeps_f32():
    f = dlvm.from_sympy(x / 3 + sympy.pi, [x, sympy.Symbol("lambda"), q])
    assert list(inspect.signature(f).parameters) == ["x", "arg1", "q"]
    assert dlvm.function(f)(np.ones(2, np.float32), 1.0, 1.0).dtype == np.float32


def test_a_function_and_its_gradient_are_called_from_what_is_written_ahead_of_time():
    f = dlvm.from_sympy(sympy.Array([q * y, sympy.sin(y)]), [q, y])
    slope = dlvm.grad(dlvm.from_sympy(sympy.sin(x) * y, [x, y]))
    for function, given in ((f, (POINTS, 0.5)), (slope, (0.3, 2.0))):
        written = Loaded(dlvm.aot(function, *given, name="written"), "host")
        expected = np.asarray(dlvm.function(function)(*given))
        assert written(*given)["result"].tobytes() == expected.tobytes()


def test_matrices_are_arrays():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
    f = dlvm.from_sympy(2 * A.inv() * B.T + A**2 - sympy.Identity(3), [A, B])
    np.testing.assert_allclose(f(a, b), 2 * np.linalg.inv(a) @ b.T + a @ a - np.eye(3))
    scalars = dlvm.from_sympy([sympy.Trace(A) * A[0, 1], sympy.Determinant(A)], [A])(a)
    np.testing.assert_allclose(scalars, [np.trace(a) * a[0, 1], np.linalg.det(a)])
    hadamard = dlvm.from_sympy(sympy.HadamardProduct(A, B), [A, B])
    np.testing.assert_allclose(hadamard(a, b), a * b)


def test_a_matrix_of_expressions_is_an_array_along_the_last_axes():
    angle = dlvm.from_sympy(sympy.rot_axis3(x)[:2, :2].row_join(sympy.Matrix([1, 0])), x)
    assert angle(np.float32(0.5)).dtype == np.float32
    found = angle(POINTS)
    assert found.shape == (3, 2, 3) and (found[:, :, 2] == [1, 0]).all()
    np.testing.assert_allclose(found[:, 0, 1], np.sin(POINTS))
    vector = dlvm.from_sympy(sympy.Array([x, x**2]), x)
    np.testing.assert_allclose(vector(POINTS), np.stack([POINTS, POINTS**2], -1))


def test_results_have_the_structure_that_is_given():
    found = dlvm.from_sympy({"a": x + 1, "b": (x, [2 * x])}, x)(3.0)
    assert found == {"a": 4.0, "b": (3.0, [6.0])}


def test_functions_of_time_and_lists_of_symbols_are_arguments():
    f = dlvm.from_sympy(q.diff(t) * x - q, [[q, q.diff(t)], x])
    np.testing.assert_allclose(f(np.array([[1.0, 2.0], [3.0, 4.0]]), 5.0), [9.0, 17.0])
    m = dlvm.from_sympy(x - y, [sympy.Matrix([[x, y]])])
    assert m(np.array([[5.0, 3.0]])) == 2.0
    dot = dlvm.from_sympy(sympy.Sum(v[i] * (i + 1), (i, 0, 2)), [v])
    assert dot(np.array([1.0, 10.0, 100.0])) == 321.0


def test_functions_of_the_caller_take_the_place_of_unknown_ones():
    g = sympy.Function("g")
    f = dlvm.from_sympy(g(x, 2) + 1, x, functions={"g": lambda a, b: dlvm.where(a > 0, b, -a)})
    np.testing.assert_allclose(dlvm.function(f)(np.array([-5.0, 5.0])), [6.0, 3.0])


def test_shared_parts_are_computed_once():
    deep = x
    for _ in range(9):
        deep = sympy.sin(deep) * sympy.cos(deep)  # 2**9 leaves as a tree
    f = dlvm.from_sympy(deep, x)
    assert len(dlvm.trace(f, dlvm.spec("f64")).main.ops) == 27


@pytest.mark.parametrize(
    "expr, args, said",
    [
        (x + y, x, "y is not among args"),
        (sympy.besselj(0, x), x, r"besselj\(0, x\) \(besselj\) has no translation"),
        (sympy.Integral(sympy.exp(x**x), x), x, "Integral"),
        (sympy.I * x, x, "I \\(ImaginaryUnit\\) has no translation"),
        (sympy.gamma(x), x, r"gamma\(x\) \(gamma\) has no translation"),
        (sympy.Function("g")(x), x, "g is a function that SymPy does not define"),
        (q.diff(t) + q, [q], "can't be derived"),
        (sympy.Sum(x**i, (i, 0, n)), [x, n], "has bounds that are no whole numbers"),
        (sympy.Sum(x**i, (i, 0, 5000)), x, "has 5001 terms, more than 1000"),
        (A[i, 0], [A, i], "an element at a place that is no number"),
        (x, [x, x], "x is twice among args"),
        (x, "x", "args has 'x', which is no symbol"),
        (x, [2 * x], r"args has 2\*x, which is no symbol"),
        ("x + 1", x, "'x \\+ 1' is no expression of SymPy"),
    ],
)
def test_what_has_no_translation_is_refused_by_name(expr: Any, args: Any, said: str):
    with pytest.raises(UserError, match=said) as caught:
        dlvm.from_sympy(expr, args)
    assert "help:" in str(caught.value)


def test_sympy_is_asked_for_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(UserError, match="the package sympy is not installed"):
        dlvm.from_sympy(x, x)
