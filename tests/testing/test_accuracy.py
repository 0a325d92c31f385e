"""Error bounds by shaking: wide enough for what rounding does, and not much wider."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dlvm.accuracy import answers, difference
from dlvm.ir import parse
from dlvm.ir.recast import array_in_f64, in_f64

RNG = np.random.default_rng(0)


def program(body: str, types: str, result: str):
    names = ", ".join(f"%x{i}: {t}" for i, t in enumerate(types.split()))
    return parse(f"dlvm 1\nfunc @f({names}) -> {result} {{\n{body}\n}}\n").verify()


SUM = program("  %0 = sum %x0 axes=(0) : f32\n  return %0", "f32[N]", "f32")
CANCELS = program(
    "  %0 = exp %x0 : f32[N]\n  %1 = sub %0, %x1 : f32[N]\n  return %1", "f32[N] f32[N]", "f32[N]"
)
FLOOR = program(
    "  %0 = mul %x0, %x1 : f32[N]\n  %1 = floor %0 : f32[N]\n  return %1", "f32[N] f32[N]", "f32[N]"
)


@pytest.mark.parametrize("n", [1, 10, 10_000])
def test_a_sum_in_another_order_is_within_the_bound_and_a_wrong_one_is_not(n):
    x = RNG.normal(size=n).astype(np.float32)
    meant = answers(SUM, "f", [x])
    for order in range(20):
        total = np.float32(0)
        for v in np.random.default_rng(order).permutation(x):
            total += v
        assert difference([np.asarray(total)], meant) is None
    off = np.asarray(total + np.float32(1e-3 * np.abs(x).sum()))
    assert difference([off], meant) is not None


def test_cancellation_widens_the_bound():
    x = np.float32([1.0, 5.0])
    y = np.exp(x) * np.float32(1 - 1e-6)
    meant = answers(CANCELS, "f", [x, y])
    assert np.all(meant.allowed[0] > 1e-7 * np.abs(y))
    exact = [float(mpmath.exp(float(a)) - float(b)) for a, b in zip(x, y, strict=True)]
    assert difference([np.float32(exact)], meant) is None


def test_across_a_jump_either_side_may_be_found():
    x, y = np.float32([0.1, 0.3]), np.float32([10.0, 7.0])
    meant = answers(FLOOR, "f", [x, y])
    assert difference([np.float32([0.0, 2.0])], meant) is None
    assert difference([np.float32([1.0, 1.0])], meant) is not None


def test_infinities_and_types_must_be_the_same():
    x = np.float32([100.0])
    meant = answers(CANCELS, "f", [x, x])
    assert difference([np.float32([np.inf])], meant) is None
    for other in (np.float32([-np.inf]), np.float32([1e38]), np.float32([np.nan])):
        assert difference([other], meant) is not None
    found = difference([np.array([np.inf])], meant)
    assert found is not None and "float64" in found.found


def test_the_same_program_in_f64_is_the_nearly_exact_one():
    x = RNG.normal(size=50).astype(np.float32)
    wide = in_f64(SUM).verify()
    assert "f32" not in str(wide)
    (found,) = wide.run("f", array_in_f64(x))
    assert found == pytest.approx(float(mpmath.fsum(map(float, x))), rel=1e-14)
    assert array_in_f64(np.arange(3)).dtype == np.int64
