"""The polynomials against exact values: units in the last place, special values, coefficients."""

from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from dlvm.gen.math import coefficients
from dlvm.ir import F32, F64
from dlvm.target import Target
from tests.gen import fit
from tests.gen.compiled import Compiled, kernel
from tests.gen.values import same_bits

RANGES = {
    "exp": {"f32": [(-103, 89), (-1, 1)], "f64": [(-745, 710), (-1, 1)]},
    "log": {"f32": [(1e-45, 1e-38), (1e-3, 4), (1, 3e38)], "f64": [(5e-324, 1e-308), (1e-3, 4)]},
    "tanh": {"f32": [(-10, 10), (-1, 1), (-1e-3, 1e-3)], "f64": [(-20, 20), (-1, 1), (0, 1e-3)]},
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0, 1e-310, 5e-324, 1e-45, 1e308, 800.0]


def compiled(word, dtype, target=None):
    op, _ = kernel(f"""func @f(%x: {dtype}[N]) -> {dtype}[N] {{
      %0 = {word} %x : {dtype}[N]
      return %0
    }}""")
    return Compiled(op, target=target)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("word", sorted(RANGES))
def test_within_2_6_ulp(word, dtype):
    rng = np.random.default_rng(0)
    parts = [rng.uniform(a, b, 1200) for a, b in RANGES[word][str(dtype)]]
    x = np.concatenate(parts).astype(dtype.numpy)
    (found,), _ = compiled(word, dtype)(x)
    assert max(distance(word, a, b) for a, b in zip(x, found, strict=True)) <= 2.6


def distance(word, x, found):
    """Units in the last place from the exact value."""
    with mp.workprec(140), np.errstate(over="ignore"):
        exact = getattr(mp, word)(mp.mpf(float(x)))
        nearest = found.dtype.type(float(exact))
        if np.isinf(nearest) or np.isinf(found):
            return 0.0 if nearest == found else np.inf
        return float(abs(mp.mpf(float(found)) - exact) / mp.mpf(float(np.spacing(abs(nearest)))))


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("word", sorted(RANGES))
def test_special_values_are_those_of_numpy(word, dtype):
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(dtype.numpy)
        expected = getattr(np, word)(x)
    (found,), _ = compiled(word, dtype)(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype is F32 else 1e-15)
    real = ~np.isnan(expected)
    assert np.all(np.signbit(found[real]) == np.signbit(expected[real]))


@pytest.mark.skipif("+avx2" not in Target.host().features, reason="runs code for AVX2")
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("word", ["exp", "exp2", "sinh", "cosh"])
def test_the_bits_are_those_of_processors_that_scale_in_two_steps(word, dtype):
    """Down to denormal results and up to overflow."""
    older = Target(Target.host().triple, "x86-64-v3", "", 256, 16, 1)
    x = np.linspace(-160, 160, 4001) if dtype is F32 else np.linspace(-1100, 1100, 4001)
    with np.errstate(over="ignore"):
        x = np.concatenate([x, SPECIAL]).astype(dtype.numpy)
    assert same_bits(compiled(word, dtype)(x)[0][0], compiled(word, dtype, older)(x)[0][0])


def test_the_coefficients_are_those_that_fit_computes():
    page = Path(coefficients.__file__).read_text()
    scope: dict = {}
    exec(fit.page(), scope)  # the same module, printed anew
    assert scope["__doc__"] in page
    names = [name for name in scope if name.isupper()]
    assert len(names) >= 20
    for name in names:
        found = getattr(coefficients, name)
        assert {b: tuple(row) for b, row in scope[name].items()} == {
            b: tuple(row) for b, row in found.items()
        }, name
