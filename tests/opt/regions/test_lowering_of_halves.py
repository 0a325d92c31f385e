"""What is written out for halves is computed in f32 and rounded once, as the operation says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dlvm
from dlvm.ad import expand
from dlvm.ops import Solve, Spectral, SpectralSlope
from dlvm.opt.regions.lowering import lower, open_solves
from dlvm.passes import run
from tests.gen.values import same_bits

Call = Callable[..., Any]
CALLS: dict[str, tuple[Call, type]] = {
    "solve": (lambda a, b: dlvm.linalg.solve(a, b), Solve),
    "slope of solve": (lambda a, b: dlvm.grad(lambda a: dlvm.linalg.solve(a, b).sum())(a), Solve),
    "spectral": (lambda a, b: dlvm.linalg.spectral(dlvm.exp, a), Spectral),
    "slope of spectral": (
        lambda a, b: dlvm.grad(lambda a: (dlvm.linalg.spectral(dlvm.exp, a) * b).sum())(a),
        SpectralSlope,
    ),
}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["f16", "bf16"])
@pytest.mark.parametrize("name", CALLS)
def test_a_lowering_of_halves_keeps_every_bit(name: str, dtype: Any):
    call, op = CALLS[name]
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=(4, 5, 5)).astype(dtype) for _ in range(2))
    before = expand(dlvm.trace(call, a, b))
    assert any(isinstance(o, op) for fn in before.functions for o in fn.walk())
    after = run(before, [lower, open_solves], verify=True)
    assert not any(isinstance(o, op) for fn in after.functions for o in fn.walk())
    main = before.functions[0].name
    for x, y in zip(before.run(main, a, b), after.run(main, a, b), strict=True):
        assert same_bits(x, y)
