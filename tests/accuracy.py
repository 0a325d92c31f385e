"""How far machine code is from exact values: ``make accuracy`` measures and writes the page.

The oracles follow from the classes: ``reference`` at 60 digits for f64 (see ``exactly``), and in
f64 for the narrower types, where its own error is far below what is measured. All values of both
half precisions are tried; of f32 and f64 random ones over the whole range, and denser where
functions bend.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import mpmath as mp
import numpy as np

from dlvm.base.errors import DTypeError
from dlvm.ir import (
    BF16,
    F16,
    F32,
    F64,
    OPS,
    Builder,
    DType,
    Function,
    Module,
    Param,
    TensorType,
    Value,
)
from dlvm.ir.interpret import Interpreter
from dlvm.ir.sizes.dims import symbol
from dlvm.ops import Elementwise, Kernel
from dlvm.target import Target
from tests.exactly import DIGITS, exactly
from tests.gen.compiled import HOST, Compiled

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
FLOATS = (F16, BF16, F32, F64)
LIMITS = {F16: (10, -14, 16), BF16: (7, -126, 128), F32: (23, -126, 128), F64: (52, -1022, 1024)}
ROUNDED_ONCE = 0.51  # half precisions: f32 rounded once, where that is not halfway
UNKNOWN = (
    "the exact values of {op.name} are not known: its reference asks for more than NumPy's "
    "functions, so write a formula in those of mpmath on the class, such as exact = 'erf(x)'"
)


def arity(cls: type[Elementwise]) -> int:
    """How many operands it takes."""
    return sum(spec.kind == "operand" for spec in cls.layout)


def placed(cls: type[Elementwise], operands: Sequence[Value]) -> Elementwise | None:
    """The operation on floats of one type, its numbers being 1; None where it takes other things.

    Its result must be a float of their type, too.
    """
    rest = [s for s in cls.layout if s.kind != "operand" and s.required]
    if any(s.annotation not in ("int", "float") for s in rest):
        return None
    try:
        op = cls(*operands[: arity(cls)], **{s.name: 1 for s in rest})
    except DTypeError:
        return None
    return op if op.result_types == (operands[0].type,) else None


@cache
def measured() -> list[type[Elementwise]]:
    """Every operation from floats of one type to a float of that type."""
    operands = [Param(TensorType(F64), n) for n in "xyz"]
    curves = (c for c in OPS.values() if issubclass(c, Elementwise) and "f" in c.accepts)
    return [c for c in curves if placed(c, operands) is not None]


@cache
def code(dtype: DType, target: Target = HOST) -> tuple[tuple[Elementwise, ...], Compiled]:
    """One kernel with a result for every measured operation."""
    n = TensorType(dtype, (symbol("N"),))
    params = Param(n, "x"), Param(n, "y"), Param(n, "z")
    with Builder() as b:
        found = [placed(cls, params) for cls in measured()]
    ops = tuple(op for op in found if op is not None)
    body = Function("f", params, tuple(b.ops), ops)
    return ops, Compiled(Kernel(params, body, "loops"), target=target)


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
def outputs(
    dtype: DType, count: int, target: Target = HOST
) -> tuple[list[np.ndarray], dict[str, tuple[Elementwise, np.ndarray]]]:
    """Operands, and what every measured operation gives of them."""
    ops, run = code(dtype, target)
    x = samples(dtype, count)
    xs = [x, *(np.random.default_rng(seed).permutation(x) for seed in (1, 2))]
    pairs = zip(ops, run(*xs)[0], strict=True)
    return xs, {op.name: (op, found) for op, found in pairs}


def unit(dtype: DType, size: np.ndarray) -> np.ndarray:
    """The unit in the last place at a size."""
    digits, lowest, _ = LIMITS[dtype]
    exponent = np.frexp(size)[1] - 1
    return np.ldexp(1.0, np.maximum(exponent, lowest) - digits)


@np.errstate(all="ignore")
def errors(cls: type[Elementwise], dtype: DType, count: int, target: Target = HOST) -> float:
    """The largest error found, in units in the last place, inside of the operation's domain."""
    xs, op, found = within(cls, dtype, count, target)
    wide = meant(op, xs)
    real = ~np.isnan(wide)
    if np.any(np.isnan(found[real].astype(np.float64))):
        return np.inf
    if op.typed:
        return 0.0 if np.array_equal(found[real].astype(np.float64), wide[real]) else np.inf
    compare = _exact if dtype is F64 else _nearly
    return compare(op, dtype, [v[real] for v in xs], found[real], wide[real])


def within(
    cls: type[Elementwise], dtype: DType, count: int, target: Target = HOST
) -> tuple[list[np.ndarray], Elementwise, np.ndarray]:
    """Operands in the domain of an operation, the operation, and what its code gives of them."""
    xs, results = outputs(dtype, count, target)
    op, found = results[cls.name]
    low, high = cls.domain
    inside = (xs[0] >= low) & (xs[0] <= high)
    return [v[inside] for v in xs[: arity(cls)]], op, found[inside]


def meant(op: Elementwise, xs: list[np.ndarray]) -> np.ndarray:
    """What ``reference`` gives in f64, or in the operands' type where the class says so."""
    if op.typed:
        return np.asarray(op.run(Interpreter(Module(())), *xs)[0], np.float64)
    return np.asarray(op.reference(*(v.astype(np.float64) for v in xs)), np.float64)


@np.errstate(all="ignore")
def errors_of_the_reference(cls: type[Elementwise], count: int) -> float:
    """How far ``reference`` in f64 is from exact; it is the oracle for the narrower types."""
    xs, op, _ = within(cls, F64, count)
    wide = meant(op, xs)
    real = ~np.isnan(wide)
    return _exact(op, F64, [v[real] for v in xs], wide[real], wide[real])


def _nearly(
    op: Elementwise, dtype: DType, xs: list[np.ndarray], found: np.ndarray, wide: np.ndarray
) -> float:
    """With the oracle in f64."""
    top = 2.0 ** LIMITS[dtype][2]
    size = scale(op, xs, np.clip(np.abs(wide), 0, top / 2))
    a, b = np.clip(found.astype(np.float64), -top, top), np.clip(wide, -top, top)
    return float(np.max(np.abs(a - b) / unit(dtype, size), initial=0.0))


def scale(op: Elementwise, xs: list[np.ndarray], size: np.ndarray) -> np.ndarray:
    """The size whose last place counts."""
    if not op.cancels:
        return size
    operands = (np.abs(x.astype(np.float64)) for x in xs)
    finite = (np.where(np.isfinite(x), x, 0) for x in operands)
    return np.maximum.reduce([np.ones_like(size), size, *finite])


def _exact(
    op: Elementwise, dtype: DType, xs: list[np.ndarray], found: np.ndarray, wide: np.ndarray
) -> float:
    """With mpmath, but where the result is 0 or infinite; those must be found so."""
    plain = np.isfinite(wide) & (wide != 0) & np.all([np.isfinite(x) for x in xs], axis=0)
    far = ~plain & ((np.abs(found - wide) > 1e-300) & (found != wide))
    if np.any(far & np.isfinite(wide) | far & (np.abs(found) < 1e308)):
        return np.inf
    plain &= np.isfinite(found)
    units = unit(F64, scale(op, xs, np.abs(wide)))[plain]
    exact = exactly(op, [x[plain] for x in xs])
    if exact is None:
        raise LookupError(UNKNOWN.format(op=op))
    with mp.workdps(DIGITS):
        columns = zip(found[plain].tolist(), exact, units.tolist(), strict=True)
        return max((float(abs(mp.mpf(f) - e) / mp.mpf(u)) for f, e, u in columns), default=0.0)


def rows(count: int, exact: int) -> Iterator[str]:
    """The table of the page."""
    yield "| function | f16 | bf16 | f32 | f64 | stated |"
    yield "|---|--:|--:|--:|--:|--:|"
    for cls in (c for c in measured() if c.ulp > 0.5 or c.name == "sqrt"):
        found = [errors(cls, d, exact if d is F64 else count) for d in FLOATS]
        mark = " *" if cls.cancels else ""
        cells = " | ".join(f"{e:.2f}" for e in found)
        yield f"| {cls.name}{mark} | {cells} | {cls.ulp} |"


TEXT = """# How near functions come to the exact value

Written by `make accuracy`; edit `tests/accuracy.py` instead. Each number is the largest error
found of compiled code on the host, in units in the last place of the exact result (0.5 is right
rounding): of all values of f16 and bf16, of {count:,} values of f32 and {exact:,} of f64, random
over the whole range and denser where functions bend. `polygamma` is of order 1. The arithmetic
is the same on every target, but that processors without a fused multiply-add (x86-64-v2) round
twice where others round once, which moves these numbers by 0.7 at most. *Stated* is the `ulp` of
the operation's class for f32 and f64, which a test of the suite holds both kinds of code to; half
precisions compute in f32 and round once.

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
