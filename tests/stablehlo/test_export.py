"""What is exported as StableHLO: jaxlib verifies and keeps it, and XLA computes what we do."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from tests.exporting.programs import CASES

xla = pytest.importorskip("tests.stablehlo.xla", reason="needs jax: pip install jax")


def flat(found):
    return [np.asarray(leaf) for leaf in dlvm.tree.leaves(found)]


@pytest.mark.parametrize("name", CASES)
def test_xla_computes_what_we_compute(name: str):
    case = CASES[name]
    text = dlvm.export(case.f, *case.types, format="stablehlo")
    expected = flat(dlvm.function(case.f)(*case.args))
    arrays = [np.asarray(a) for a in case.args]
    found = xla.run(text, arrays)
    assert [a.dtype for a in found] == [a.dtype for a in expected]
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-6)
    assert xla.kept(text)
