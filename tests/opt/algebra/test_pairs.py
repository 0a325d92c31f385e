"""Of two forms of one computation, the naive one compiles to what the expert would write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ir import TensorType
from dlvm.ir.dims import evaluate

from .pairs import PAIRS, Pair

N = 64


def arrays(types: list[TensorType]) -> list[Any]:
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for t in types:
        shape = tuple(evaluate(d, {}) for d in t.shape)
        drawn = rng.standard_normal(shape) if t.dtype.is_float else rng.permutation(N).reshape(-1)
        exact = np.asarray(drawn if t.dtype.is_float or shape else 5)
        found.append(exact.astype(t.dtype.numpy).reshape(shape))
    return found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p.name)
def test_both_forms_compile_to_what_an_expert_counts(pair: Pair):
    specs = [dlvm.spec(t) for t in pair.types(N)]
    given = arrays([s.type for s in specs])
    naive, expert = (dlvm.function(f) for f in (pair.naive, pair.expert))
    reports = [f.compile(*given).report for f in (naive, expert)]
    wanted = pair.flops(N)
    for report in reports:
        assert abs(report.flops - wanted) <= 0.1 * wanted, f"{report.flops} flops, by hand {wanted}"
    assert reports[0].flops <= reports[1].flops * 1.001
    assert reports[0].bytes <= reports[1].bytes * 1.001
    with np.errstate(all="ignore"):
        expected = pair.naive(*given)
    for found in (naive(*given), expert(*given)):
        for a, b in zip(dlvm.tree.leaves(found), dlvm.tree.leaves(expected), strict=True):
            scale = np.abs(b).max() + 1
            np.testing.assert_allclose(a / scale, b / scale, atol=1e-12)
