"""Ten pairs by somebody who had seen neither the laws nor the other pairs; they are as they came.

Where more is computed than by hand, ``MORE`` says how much, and what would have to be known.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.ir.sizes.dims import evaluate

from .blind import BLIND

N = 64
WORDS = (
    "eye diag outer kron einsum sum where arange exp tanh stack concat tril triu maximum zeros ones"
)
W = SimpleNamespace(
    **{name: getattr(dlvm, name) for name in WORDS.split()},
    trace=dlvm.linalg.trace,
    diagonal=dlvm.linalg.diagonal,
    matrix_power=dlvm.linalg.matrix_power,
    one_hot=dlvm.nn.one_hot,
    take=lambda x, i: dlvm.take(x, i, axis=0),
    grad=lambda f, wrt=0: dlvm.grad(f, wrt=wrt),
    repeat=dlvm.broadcast_to,
)
MORE = {
    "PageRank eight steps": (1.25, "nothing: eight products with the sum taken apart take longer"),
    "PCA Rayleigh gradient": (1.5, "nothing: one centred side loses digits; see test_centring"),
    "Kronecker-sum energy": (9.3, 'numerics="fast": A x I and I x B may cancel on the diagonal'),
    "BFGS inverse update": (1.2, "nothing: the expert's form, with a transpose, takes longer"),
}


@pytest.mark.parametrize("case", BLIND(W), ids=lambda case: case[0])
def test_a_blind_pair_costs_what_was_counted_or_what_is_said(case: Any):
    name, naive, expert, types, flops = case
    given = arrays(types)
    found = dlvm.function(naive)
    ratio = found.compile(*given).report.flops / flops(N)
    assert ratio <= MORE.get(name, (1.1, ""))[0], f"{name}: {ratio:.2f} times the count by hand"
    a, b = np.asarray(found(*given)), np.asarray(dlvm.function(expert)(*given))
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * np.abs(b).max())


def arrays(types: tuple[str, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    found: list[Any] = []
    for text in types:
        t = dlvm.spec(text.replace("n", str(N)).replace("k", str(N // 8))).type
        shape = tuple(evaluate(d, {}) for d in t.shape)
        found.append(rng.standard_normal(shape) if t.dtype.is_float else rng.permutation(N))
    return found
