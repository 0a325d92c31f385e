"""What objects bring along for processors that lack it: beside Python and NumPy, on this host."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np
import pytest

from dlvm.gen.llvm import substitutes
from dlvm.gen.llvm.binding import Library, object_code
from dlvm.target import Target

KINDS = {"q": ctypes.c_int64, "Q": ctypes.c_uint64, "f": ctypes.c_float, "d": ctypes.c_double}
TYPES = {"q": np.int64, "Q": np.uint64, "f": np.float32, "d": np.float64}
CONVERSIONS = {
    "__floatdidf": "qd",
    "__floatundidf": "Qd",
    "__floatdisf": "qf",
    "__floatundisf": "Qf",
    "__fixdfdi": "dq",
    "__fixunsdfdi": "dQ",
    "__fixsfdi": "fq",
    "__fixunssfdi": "fQ",
}
ROUNDINGS = {"trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "rint": np.rint}


@cache
def library() -> Library:
    """All of them, seen from outside."""
    host = Target.host()
    text = substitutes.module(substitutes.functions(host.triple), host.triple)
    return Library(object_code(text.replace("define internal", "define"), host), host)


def function(name, kinds):
    """One of them, as a function of Python."""
    *operands, result = (KINDS[k] for k in kinds)
    return ctypes.CFUNCTYPE(result, *operands)(library().address(name))


def whole_numbers(signed):
    """Of every size, with their neighbours, and both signs where there are two."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 2**64, 1500, np.uint64) >> rng.integers(0, 64, 1500).astype(np.uint64)
    ends = [2**k + d for k in range(64) for d in (-1, 0, 1)] + [2**64 - 1, 3, 5]
    found = [*map(int, sizes), *ends]
    return [int(np.uint64(n % 2**64).astype(np.int64)) for n in found] if signed else found


@pytest.mark.parametrize("signed", [False, True])
def test_division_of_long_numbers(signed):
    kinds, u = ("qqq", "") if signed else ("QQQ", "u")
    divide = function(f"__{u}divdi3", kinds)
    rest = function(f"__{u}moddi3", kinds)
    numbers = whole_numbers(signed)
    for n, d in zip(numbers, numbers[::-1] + numbers[:5], strict=False):
        if d == 0:
            continue
        size = abs(n) // abs(d)
        q = size if (n < 0) == (d < 0) else -size
        if q < 2**63 or not signed:
            assert (divide(n, d), rest(n, d)) == (q, n - q * d), (n, d)


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions_of_long_numbers(name):
    source, to = CONVERSIONS[name]
    convert = function(name, source + to)
    if source in "qQ":
        given = np.array(whole_numbers(source == "q"), TYPES[source])
    else:
        rng = np.random.default_rng(1)
        size = np.ldexp(rng.uniform(1, 2, 3000), rng.integers(-3, 62, 3000))
        sign = rng.choice([-1, 1], 3000) if to == "q" else 1
        given = np.concatenate([size * sign, [0.0, 0.5, 1.0, 2.0**62]]).astype(TYPES[source])
    for x, expected in zip(given, given.astype(TYPES[to]), strict=True):
        assert convert(x.item()) == expected, x


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("name", [*ROUNDINGS, "roundeven"])
def test_rounding_to_whole_numbers(name, kind):
    call = function(name + ("f" if kind == "f" else ""), kind * 2)
    rng = np.random.default_rng(2)
    wild = rng.integers(0, 2 ** (32 if kind == "f" else 64), 2000, np.uint64)
    bits = wild.astype(np.uint32) if kind == "f" else wild
    halves = np.arange(-20, 21) / 4
    ends = [-0.0, np.inf, -np.inf, np.nan, 2.0**23 - 0.5, 2.0**52 - 0.5, 2.0**53, 1e-30]
    with np.errstate(all="ignore"):
        x = np.concatenate([bits.view(TYPES[kind]), halves, ends]).astype(TYPES[kind])
        expected = ROUNDINGS.get(name, np.rint)(x)
    found = np.array([call(v.item()) for v in x], TYPES[kind])
    np.testing.assert_array_equal(found, expected)
    real = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(expected[real]))
