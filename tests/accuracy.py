"""How far machine code is from exact values: ``make accuracy`` measures and writes the page.

The oracles are from outside: mpmath at 60 digits for f64; NumPy and SciPy in f64 for the narrower
types, whose own error is then far below what is measured. All values of both half precisions are
tried; of f32 and f64 random ones over the whole range, and denser where functions bend.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from scipy import special

from dlvm.ir import BF16, F16, F32, F64, OPS, Builder, DType, Function, Param, TensorType
from dlvm.ir.dims import symbol
from dlvm.ops import Elementwise, Kernel, Polygamma
from tests.gen.compiled import Compiled

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
FLOATS = (F16, BF16, F32, F64)
LIMITS = {F16: (10, -14, 16), BF16: (7, -126, 128), F32: (23, -126, 128), F64: (52, -1022, 1024)}
ROUNDED_ONCE = 0.51  # half precisions: f32 rounded once, where that is not halfway


@dataclass(frozen=True)
class Oracle:
    """A function in f64, and exactly."""

    wide: Callable[..., Any]
    exact: Callable[..., Any]


def _half_log(x: Any) -> Any:
    return mp.re(mp.loggamma(x)) if x > 0 else mp.log(abs(mp.gamma(x)))


def _of_numpy(*names: str) -> dict[str, Oracle]:
    return {name: Oracle(getattr(np, name), getattr(mp, name)) for name in names}


ORACLES = {
    **_of_numpy("exp", "expm1", "log", "log1p", "log10", "sqrt", "sin", "cos", "tan"),
    **_of_numpy("sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh", "atanh"),
    **_of_numpy("hypot", "atan2"),
    "exp2": Oracle(np.exp2, lambda x: mp.mpf(2) ** x),
    "log2": Oracle(np.log2, lambda x: mp.log(x) / mp.log(2)),
    "cbrt": Oracle(np.cbrt, lambda x: mp.sign(x) * mp.cbrt(abs(x))),
    "pow": Oracle(np.power, mp.power),
    "logaddexp": Oracle(np.logaddexp, lambda x, y: mp.log(mp.exp(x) + mp.exp(y))),
    "logaddexp2": Oracle(
        np.logaddexp2, lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y) / mp.log(2)
    ),
    "sigmoid": Oracle(special.expit, lambda x: 1 / (1 + mp.exp(-x))),
    "erf": Oracle(special.erf, mp.erf),
    "erfc": Oracle(special.erfc, mp.erfc),
    "erfinv": Oracle(special.erfinv, mp.erfinv),
    "lgamma": Oracle(special.gammaln, _half_log),
    "digamma": Oracle(special.digamma, mp.digamma),
    "polygamma": Oracle(lambda x: special.polygamma(1, x), lambda x: mp.psi(1, x)),
}


def measured() -> list[type[Elementwise]]:
    """Operations whose machine code may differ from the exact result, and the square root."""
    curves = (c for c in OPS.values() if issubclass(c, Elementwise) and "f" in c.accepts)
    return [c for c in curves if c.ulp > 0.5 or c.name == "sqrt"]


def arity(cls: type[Elementwise]) -> int:
    """How many operands it takes."""
    return sum(spec.kind == "operand" for spec in cls.layout)


@cache
def code(dtype: DType) -> tuple[tuple[str, ...], Compiled]:
    """One kernel with a result for every measured operation."""
    n = TensorType(dtype, (symbol("N"),))
    x, y = Param(n, "x"), Param(n, "y")
    with Builder() as b:
        for cls in measured():
            cls(x, 1) if cls is Polygamma else cls(*(x, y)[: arity(cls)])
    body = Function("f", (x, y), tuple(b.ops), tuple(b.ops))
    names = tuple(op.name for op in b.ops)
    return names, Compiled(Kernel((x, y), body, "loops"))


def samples(dtype: DType, count: int) -> np.ndarray:
    """All values of a half precision; else some over the whole range and where functions bend."""
    whole = np.dtype(f"u{dtype.bytes}")
    if dtype.bits == 16:
        return np.arange(2**16, dtype=whole).view(dtype.numpy)
    rng = np.random.default_rng(0)
    wild = rng.integers(0, 2**dtype.bits, count, whole).view(dtype.numpy)
    scales = [1e-3, 1, 3, 10, 100, 1e4]
    parts = [rng.uniform(-s, s, count).astype(dtype.numpy) for s in scales]
    near = (1 + rng.standard_normal(count) * 0.1).astype(dtype.numpy)
    return np.concatenate([wild, near, *parts])


@cache
def outputs(dtype: DType, count: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Operands, and what every measured operation gives of them."""
    names, run = code(dtype)
    x = samples(dtype, count)
    y = np.random.default_rng(1).permutation(x)
    return x, y, dict(zip(names, run(x, y)[0], strict=True))


def unit(dtype: DType, size: np.ndarray) -> np.ndarray:
    """The unit in the last place at a size."""
    digits, lowest, _ = LIMITS[dtype]
    exponent = np.frexp(size)[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, lowest) - digits)


def errors(cls: type[Elementwise], dtype: DType, count: int) -> float:
    """The largest error found, in units in the last place, inside of the operation's domain."""
    x, y, results = outputs(dtype, count)
    xs, found = [x, y][: arity(cls)], results[cls.name]
    low, high = cls.domain
    inside = (x >= low) & (x <= high)
    xs, found = [v[inside] for v in xs], found[inside]
    with np.errstate(all="ignore"):
        wide = ORACLES[cls.name].wide(*(v.astype(np.float64) for v in xs))
        real = ~np.isnan(wide)
        if np.any(np.isnan(found[real].astype(np.float64))):
            return np.inf
        compare = _exact if dtype is F64 else _nearly
        return compare(cls, dtype, [v[real] for v in xs], found[real], wide[real])


def _nearly(
    cls: type[Elementwise], dtype: DType, xs: list[np.ndarray], found: np.ndarray, wide: np.ndarray
) -> float:
    """With the oracle in f64."""
    top = 2.0 ** LIMITS[dtype][2]
    size = scale(cls, xs, np.clip(np.abs(wide), 0, top / 2))
    a, b = np.clip(found.astype(np.float64), -top, top), np.clip(wide, -top, top)
    return float(np.max(np.abs(a - b) / unit(dtype, size), initial=0.0))


def scale(cls: type[Elementwise], xs: list[np.ndarray], size: np.ndarray) -> np.ndarray:
    """The size whose last place counts."""
    if not cls.cancels:
        return size
    operands = (np.abs(x.astype(np.float64)) for x in xs)
    finite = (np.where(np.isfinite(x), x, 0) for x in operands)
    return np.maximum.reduce([np.ones_like(size), size, *finite])


def _exact(
    cls: type[Elementwise], dtype: DType, xs: list[np.ndarray], found: np.ndarray, wide: np.ndarray
) -> float:
    """With mpmath, but where the result is 0 or infinite; those must be found so."""
    plain = np.isfinite(wide) & (wide != 0) & np.all([np.isfinite(x) for x in xs], axis=0)
    far = ~plain & ((np.abs(found - wide) > 1e-300) & (found != wide))
    if np.any(far & np.isfinite(wide) | far & (np.abs(found) < 1e308)):
        return np.inf
    size, worst = scale(cls, xs, np.abs(wide)), 0.0
    with mp.workdps(60):
        for i in np.flatnonzero(plain & np.isfinite(found)):
            exact = ORACLES[cls.name].exact(*(mp.mpf(float(x[i])) for x in xs))
            error = abs(mp.mpf(float(found[i])) - exact) / mp.mpf(float(unit(F64, size[i])))
            worst = max(worst, float(error))
    return worst


def rows(count: int, exact: int) -> Iterator[str]:
    """The table of the page."""
    yield "| function | f16 | bf16 | f32 | f64 | stated |"
    yield "|---|--:|--:|--:|--:|--:|"
    for cls in measured():
        found = [errors(cls, d, exact if d is F64 else count) for d in FLOATS]
        mark = " *" if cls.cancels else ""
        cells = " | ".join(f"{e:.2f}" for e in found)
        yield f"| {cls.name}{mark} | {cells} | {cls.ulp} |"


TEXT = """# How near functions come to the exact value

Written by `make accuracy`; edit `tests/accuracy.py` instead. Each number is the largest error
found of compiled code on the host, in units in the last place of the exact result (0.5 is right
rounding): of all values of f16 and bf16, of {count:,} values of f32 and {exact:,} of f64, random
over the whole range and denser where functions bend. `polygamma` is of order 1. The arithmetic
is the same on every target. *Stated* is the `ulp` of the operation's class for f32 and f64,
which a test of the suite holds it to; half precisions compute in f32 and round once.

Where a function is marked * its result may be near 0 between operands that are not: there the
unit is that of the largest of the result, the operands and 1. The domain of `lgamma`, `digamma`
and `polygamma` is taken to be x > 0.

{table}
"""


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="of each kind of f32 samples")
    parser.add_argument("--exact", type=int, default=200, help="of each kind of f64 samples")
    given = parser.parse_args()
    lines: list[str] = []
    for line in rows(given.count, given.exact):
        print(line, flush=True)
        lines.append(line)
    sizes = {"count": 8 * given.count, "exact": 8 * given.exact}
    PAGE.write_text(TEXT.format(table="\n".join(lines), **sizes))


if __name__ == "__main__":
    main()
