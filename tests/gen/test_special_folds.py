"""Every reduction and running scan, on rows of special values: compiled is as interpreted.

Rows of zeros of both signs, of zeros and ones, with infinities and with NaN are folded along either
axis at lengths that take vectors, tails and both, of known and of open size. The two have the same
NaN, infinities and signs of zero, and of what never rounds the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dlvm.compile import Options, Road
from dlvm.ir import (
    BF16,
    F16,
    F32,
    F64,
    OPS,
    Array,
    Builder,
    Function,
    Module,
    Op,
    Param,
    TensorType,
    splat,
)
from dlvm.ir.sizes.dims import Dim, symbol
from dlvm.ops import Equal, Fold, Less, LinearRecurrence, SegmentedFold
from dlvm.ops.families import Reduction, Running
from tests.special import kinds

from .values import same_bits

POOLS = (
    (0.0, -0.0),
    (-0.0, -0.0, -1.0),
    (0.0, -0.0, 1.0, -1.0, 0.5),
    (0.0, -0.0, 1.0, np.inf, -np.inf),
    (-0.0, 0.0, 1.0, -np.inf),
    (0.0, -0.0, 1.0, np.inf, -np.inf, np.nan),
)
"""What rows are drawn from; most rows of the last have a NaN."""
ROWS = 4
CHOOSES = {"max", "min", "argmax", "argmin", "cumulative_max", "cumulative_min"}
"""What never rounds."""


def folds(x: Param) -> Iterator[Op]:
    """Every reduction and running scan of a matrix along either axis."""
    for cls in OPS.values():
        for axis in (0, 1):
            make: Any = cls
            if issubclass(cls, LinearRecurrence):
                yield make(x, x, axis)
            elif issubclass(cls, SegmentedFold):
                for word in ("add", "max", "min"):
                    yield make(x, Less(x, splat(0, x.type)), axis, word)
                    yield make(x, Equal(x, splat(1, x.type)), axis, word, True, True)
            elif issubclass(cls, Reduction) and cls is not Fold:
                yield make(x, (axis,))
            elif issubclass(cls, Running):
                yield make(x, axis)
                yield make(x, axis, True, True)


def program(dtype: Any, length: Dim) -> Module:
    x = Param(TensorType(dtype, (ROWS * len(POOLS), length)), "x")
    with Builder() as b:
        results = tuple(folds(x))
    return Module((Function("f", (x,), tuple(b.ops), results),))


def rows(dtype: Any, length: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.choice(np.array(p, np.float64), (ROWS, length)) for p in POOLS]
    ).astype(dtype.numpy)


CASES = [(t, n) for t in (F32, F64, F16, BF16) for n in (40, None)] + [(F32, 1), (F32, 7)]


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("dtype", "length"), CASES, ids=str)
def test_folds_of_special_values_are_as_interpreted(dtype: Any, length: int | None):
    module = program(dtype, symbol("N") if length is None else length)
    code = Road(module, Options(threads=1)).executable
    for n in (1, 2, 3, 5, 8, 16, 17, 33, 70) if length is None else (length,):
        for seed in range(4):
            x = rows(dtype, n, seed)
            with np.errstate(all="ignore"):
                expected = module.run("f", x)
            made = module.main.results
            for op, found, value in zip(made, code.run([x]), expected, strict=True):
                assert isinstance(op, Op)
                axes: Any = getattr(op, "axes", None) or getattr(op, "axis", None)
                wrong = np.argwhere(kinds(found) != kinds(value))
                said = f"{op.name} along {axes} at length {n}, seed {seed}"
                assert not len(wrong), (
                    f"{said}: at {wrong[0]} {found[*wrong[0]]}, not {value[*wrong[0]]}"
                )
                assert op.name not in CHOOSES or same_bits(found, value), said
