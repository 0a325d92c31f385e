"""``numerics=``: what a program may lose to laws, by default, strictly and fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import NotFinite, UserError
from dlvm.compile import Options
from tests.special import combinations, kinds, special_values

SPECIAL = special_values(dlvm.ir.F64)
X, Y = combinations([SPECIAL, SPECIAL])

FORMULAS: dict[str, Callable[[Any, Any], Any]] = {
    "x - x": lambda x, y: x - x,
    "x * 0": lambda x, y: x * 0,
    "0.0 * x": lambda x, y: 0.0 * x,
    "x + (-x)": lambda x, y: x + (-x),
    "(x - x) == 0": lambda x, y: (x - x) == 0,
    "x + 0.0": lambda x, y: x + 0.0,
    "x - 0.0": lambda x, y: x - 0.0,
    "0 - x": lambda x, y: 0 - x,
    "-0.0 + x": lambda x, y: -0.0 + x,
    "x * 1": lambda x, y: x * 1,
    "x / 1": lambda x, y: x / 1,
    "x / 8": lambda x, y: x / 8.0,
    "x / 3": lambda x, y: x / 3.0,
    "1 / 4 of x": lambda x, y: x / -4.0,
    "x / y": lambda x, y: x / y,
    "x + y - y": lambda x, y: x + y - y,
    "x * y / y": lambda x, y: x * y / y,
    "x - (-y)": lambda x, y: x - (-y),
    "-(x - y)": lambda x, y: -(x - y),
    "where": lambda x, y: np.where(x > y, x, y) - np.where(x > y, x, y),
    "x**2 - x*x": lambda x, y: x * x - x * x,
    "abs": lambda x, y: abs(x) + 0.0,
}
"""Formulas whose every step is rounded alike by NumPy and by us."""


@pytest.mark.parametrize("mode", ["default", "strict"])
def test_formulas_of_special_values_are_numpys(mode: Any):
    """One program of all formulas: the same bits as NumPy, for every pair of special values."""

    @dlvm.function(numerics=mode)
    def every(x: Any, y: Any) -> Any:
        return {name: f(x, y) for name, f in FORMULAS.items()}

    with np.errstate(all="ignore"):
        for name, found in every(X, Y).items():
            expected = FORMULAS[name](X, Y)
            wrong = np.flatnonzero(kinds(found) != kinds(expected))
            assert not len(wrong), (name, X[wrong[0]], Y[wrong[0]], found[wrong[0]])
            np.testing.assert_array_equal(found, expected, err_msg=name)


def test_statistics_of_what_is_no_number_are_none():
    @dlvm.function
    def statistics(x: Any) -> Any:
        return dlvm.var(x), dlvm.exp(dlvm.log(x)), x @ np.zeros((3, 2)), np.minimum(x, -0.0)

    variance, same, product, least = statistics(np.array([np.nan, 1.0, 2.0]))
    assert np.isnan(variance) and np.isnan(same[0]) and np.isnan(product).all()
    assert np.isnan(statistics(np.full(3, -1.0))[1]).all()
    assert np.isnan(statistics(np.array([np.inf, 1.0, 2.0]))[2]).all()
    assert np.signbit(statistics(np.zeros(3))[3]).all() and np.isnan(least[0])


@pytest.mark.parametrize("mode", ["default", "strict"])
def test_extremes_of_zeros_are_the_same_staged_and_not(mode: Any):
    zeros = np.array([0.0, -0.0])
    x, low, high = combinations([zeros, zeros, zeros])
    rows = np.array([[-0.0, 0.0], [0.0, -0.0], [-0.0, -0.0]] * 3)

    def extremes(x: Any, low: Any, high: Any, rows: Any) -> Any:
        clipped = dlvm.clip(x, low, high), dlvm.clip(x, -0.0, 0.0)
        return (*clipped, rows.max(1), rows.min(1), dlvm.max(rows, axis=0), dlvm.maximum(x, low))

    staged = dlvm.function(numerics=mode)(extremes)(x, low, high, rows)
    plain = extremes(x, low, high, np.asarray(rows))
    numpy_rows = 2, 3  # NumPy's own methods, which leave the sign of a zero open
    for i, (a, b) in enumerate(zip(staged, plain, strict=True)):
        if i not in numpy_rows:
            assert np.array_equal(kinds(np.asarray(a)), kinds(np.asarray(b))), i
    assert not np.signbit(staged[2][:2]).any() and np.signbit(staged[2][2])
    assert np.signbit(staged[3]).all()


def test_fast_programs_use_the_laws_of_the_real_numbers():
    def f(x: Any) -> Any:
        return x - x, x * 0.0, dlvm.exp(dlvm.log(x)), x / 3.0

    fast, strict = dlvm.function(numerics="fast")(f), dlvm.function(numerics="strict")(f)
    x = np.array([np.inf, np.nan, -1.0])
    zero, none, same, third = fast(x)
    assert not zero.any() and not none.any()
    np.testing.assert_array_equal(same, x)
    np.testing.assert_allclose(third, x / 3.0)
    assert np.isnan(strict(x)[0][:2]).all() and np.isnan(strict(x)[2][2])
    assert "div" not in fast.compile(x).text("optimized")


def test_strict_programs_keep_the_products_that_are_written():
    def f(x: Any, y: Any) -> Any:
        return (x.T @ y.T).T

    x, y = np.ones((3, 4)), np.ones((5, 3))
    default, strict = dlvm.function(f), dlvm.function(numerics="strict")(f)
    assert default.compile(x, y).text("optimized").count("permute") == 0
    assert strict.compile(x, y).text("optimized").count("permute") == 3
    np.testing.assert_array_equal(default(x, y), strict(x, y))


def test_a_softmax_is_opened_strictly_too():
    x = np.random.default_rng(0).normal(size=(4, 9)).astype(np.float32)
    x[1, 3], x[2, 0], x[3] = np.nan, np.inf, -np.inf
    f = dlvm.nn.softmax
    default, strict = dlvm.function(f)(x), dlvm.function(numerics="strict")(f)(x)
    assert np.array_equal(kinds(default), kinds(strict))
    np.testing.assert_allclose(default, strict, rtol=1e-6)


@pytest.mark.parametrize("wrong", ["Strict", "", None, 1, ("fast",)])
def test_another_mode_is_an_error_that_lists_them(wrong: Any):
    with pytest.raises(UserError, match='"default", "strict" or "fast"'):
        dlvm.function(numerics=wrong)
    with pytest.raises(UserError, match="numerics="):
        Options(numerics=wrong)


def test_each_mode_has_a_key_of_its_own(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    """Programs of one trace are kept on disk side by side."""
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    x = np.array([np.inf])
    for _ in range(2):
        for mode, expected in (("fast", 0.0), ("default", np.nan), ("strict", np.nan)):
            found = dlvm.function(numerics=mode)(lambda x: x - x)(x)
            np.testing.assert_array_equal(found, [expected], err_msg=mode)


def test_looking_for_nan_runs_the_strict_program():
    @dlvm.function(numerics="fast")
    def f(x: Any) -> Any:
        return (x - x).sum()

    x = np.array([1.0, np.inf])
    assert f(x) == 0.0
    with dlvm.debug(nans=True), pytest.raises(NotFinite, match="sub made a NaN out of infinities"):
        f(x)
    assert f(x) == 0.0
    compiled = f.compile(x)
    with dlvm.debug(nans=True), pytest.raises(NotFinite):
        compiled(x)
    always = dlvm.function(numerics="fast", debug="nans")(lambda x: x * 0.0)
    with pytest.raises(NotFinite, match="mul"):
        always(x)


def test_explain_names_the_lines_where_a_fast_law_would_help():
    @dlvm.function
    def f(x: Any) -> Any:
        y = dlvm.log(dlvm.exp(x))
        return y / 3.0

    f(np.ones(3))
    assert f.explain().fast_laws == ()
    first, second = f.explain(laws=True).fast_laws
    assert first.startswith("logarithm_of_exponential would replace log at ")
    assert "test_numerics.py" in first and "log(e**x) = x" in first
    assert second.startswith("divide_by_constant would replace div")
    assert 'laws that numerics="fast" would apply:' in str(f.explain(laws=True))
    fast = dlvm.function(numerics="fast")(f.__wrapped__)
    fast(np.ones(3))
    assert fast.explain(laws=True).fast_laws == ()
