"""Of two forms of one computation, the naive one compiles to what the expert would write."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm

from .pairs import PAIRS, Pair, arrays

N = 64
LICENSED = {"rank-one change"}
"""A sum that may cancel is taken apart where digits may be lost."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p.name)
def test_both_forms_compile_to_what_an_expert_counts(pair: Pair):
    given = arrays(pair, N)
    mode = "fast" if pair.name in LICENSED else "default"
    naive, expert = (dlvm.function(f, numerics=mode) for f in (pair.naive, pair.expert))
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
